// Tensor memory: counts, gives back and takes.
#include "train/tensor/storage.h"

#include <unordered_set>

namespace penstock::detail {

int64_t storage_bytes(const std::vector<torch::Tensor>& tensors) {
  std::unordered_set<const void*> seen;
  int64_t bytes = 0;
  for (const auto& tensor : tensors)
    if (tensor.defined() && seen.insert(tensor.storage().unsafeGetStorageImpl()).second)
      bytes += static_cast<int64_t>(tensor.storage().nbytes());
  return bytes;
}

void release_memory(const torch::Tensor& tensor) {
  const auto& storage = tensor.storage();
  storage.set_data_ptr_noswap(at::DataPtr(nullptr, tensor.device()));
  storage.set_nbytes(0);
}

void take_memory(const torch::Tensor& tensor) {
  const auto& storage = tensor.storage();
  const size_t bytes = tensor.nbytes();
  storage.set_data_ptr_noswap(storage.allocator()->allocate(bytes));
  storage.set_nbytes(bytes);
}

torch::Tensor flattened(const torch::Tensor& tensor) { return tensor.as_strided({tensor.numel()}, {1}); }

}  // namespace penstock::detail
