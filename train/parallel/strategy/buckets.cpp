// Buckets: the assignment of parameters, and gradients as views.
#include "train/parallel/strategy/buckets.h"

#include <utility>

namespace penstock::detail {

namespace {

/// Cuts the last bucket in two, of which the second takes no more than `limit`; or leaves it as it is.
void cut_last(std::vector<std::vector<size_t>>& buckets, const std::vector<int64_t>& tensor_bytes, int64_t limit) {
  auto begin = buckets.back().end();
  for (int64_t bytes = 0; begin != buckets.back().begin(); --begin) {
    bytes += tensor_bytes[*(begin - 1)];
    if (bytes > limit) break;
  }
  if (begin == buckets.back().begin() || begin == buckets.back().end()) return;
  std::vector<size_t> last(begin, buckets.back().end());
  buckets.back().erase(begin, buckets.back().end());
  buckets.push_back(std::move(last));
}

}  // namespace

std::vector<std::vector<size_t>> assign_buckets(const std::vector<int64_t>& tensor_bytes, int64_t outer_limit,
                                                int64_t limit) {
  std::vector<std::vector<size_t>> buckets;
  int64_t bucket_bytes = 0;
  bool is_open = false;
  for (size_t i = tensor_bytes.size(); i-- > 0;) {
    if (!is_open) buckets.emplace_back();
    buckets.back().push_back(i);
    bucket_bytes = (is_open ? bucket_bytes : 0) + tensor_bytes[i];
    is_open = bucket_bytes < (buckets.size() == 1 ? outer_limit : limit);
  }
  if (!buckets.empty()) cut_last(buckets, tensor_bytes, outer_limit);
  return buckets;
}

std::vector<int64_t> bytes_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<int64_t> bytes;
  for (const auto& tensor : tensors) bytes.push_back(static_cast<int64_t>(tensor.nbytes()));
  return bytes;
}

std::vector<Bucket> bucket_gradients(const std::vector<torch::Tensor>& parameters,
                                     const std::vector<std::vector<size_t>>& assignment, Comm& comm) {
  std::vector<Bucket> buckets;
  for (const auto& members : assignment) {
    int64_t element_count = 0;
    for (const size_t i : members) element_count += parameters[i].numel();
    auto flat = comm.allocate(element_count, parameters[members.front()].options().requires_grad(false));
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
