// Buckets: the assignment of parameters, and gradients as views.
#include "train/strategies/buckets.h"

namespace penstock::detail {

std::vector<std::vector<size_t>> assign_buckets(const std::vector<int64_t>& tensor_bytes, int64_t first_limit,
                                                int64_t limit) {
  std::vector<std::vector<size_t>> buckets;
  int64_t bucket_bytes = 0;
  bool is_open = false;
  for (size_t i = tensor_bytes.size(); i-- > 0;) {
    if (!is_open) buckets.emplace_back();
    buckets.back().push_back(i);
    bucket_bytes = (is_open ? bucket_bytes : 0) + tensor_bytes[i];
    is_open = bucket_bytes < (buckets.size() == 1 ? first_limit : limit);
  }
  return buckets;
}

std::vector<int64_t> bytes_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<int64_t> bytes;
  for (const auto& tensor : tensors) bytes.push_back(static_cast<int64_t>(tensor.nbytes()));
  return bytes;
}

std::vector<Bucket> bucket_gradients(const std::vector<torch::Tensor>& parameters,
                                     const std::vector<std::vector<size_t>>& assignment) {
  std::vector<Bucket> buckets;
  for (const auto& members : assignment) {
    int64_t element_count = 0;
    for (const size_t i : members) element_count += parameters[i].numel();
    auto flat = torch::zeros({element_count}, parameters[members.front()].options().requires_grad(false));
    int64_t offset = 0;
    for (const size_t i : members) {
      const auto& parameter = parameters[i];
      parameter.mutable_grad() = flat.as_strided(parameter.sizes(), parameter.strides(), offset);
      offset += parameter.numel();
    }
    buckets.push_back({std::move(flat), members});
  }
  return buckets;
}

}  // namespace penstock::detail
