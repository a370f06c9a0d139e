// Tensor memory: what tensors take, and storages that lose their memory and get memory again.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace penstock::detail {

/// Bytes of the storages behind `tensors`, each counted once. One that was given back has 0 bytes, and so has an
/// undefined tensor.
int64_t storage_bytes(const std::vector<torch::Tensor>& tensors);

/// Gives a tensor's memory back; its sizes stay, and those of its views.
void release_memory(const torch::Tensor& tensor);
/// The inverse, for a tensor that lies at the beginning of its storage and fills it: new memory of any content, in the
/// same storage.
void take_memory(const torch::Tensor& tensor);

/// A tensor's memory as one dimension. Requires a dense tensor.
torch::Tensor flattened(const torch::Tensor& tensor);

}  // namespace penstock::detail
