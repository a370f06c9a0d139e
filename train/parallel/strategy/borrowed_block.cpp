// BorrowedBlock: other memory under the tensors of a block.
#include "train/parallel/strategy/borrowed_block.h"

#include "train/nn/model.h"
#include "train/parallel/strategy/model_part.h"

namespace penstock::detail {
namespace {

bool has_no_memory(const torch::Tensor& tensor) { return tensor.numel() > 0 && tensor.storage().nbytes() == 0; }

}  // namespace

BorrowedBlock::BorrowedBlock(Model& model, size_t block, const torch::Device& device) {
  at::NoGradGuard no_grad;
  for (const auto& item : model.named_parameters()) {
    if (block_of(model, item.key()) != block) continue;
    if (item.value().requires_grad()) trained_.push_back(item.value());
    if (has_no_memory(item.value()))
      replace(item.value(), torch::empty_like(item.value(), device).normal_(0, 0.05));
    else if (item.value().device() != device)
      replace(item.value(), item.value().to(device));
  }
  for (const auto& item : model.named_buffers())
    if (block_of(model, item.key()) == block)
      replace(item.value(), has_no_memory(item.value())
                                ? torch::ones_like(item.value(), device)
                                : item.value().to(device, /*non_blocking=*/false, /*copy=*/true));
}

BorrowedBlock::~BorrowedBlock() {
  for (auto& [tensor, data] : originals_) tensor.set_data(data);
}

void BorrowedBlock::replace(torch::Tensor tensor, const torch::Tensor& data) {
  originals_.emplace_back(tensor, tensor.detach());
  tensor.set_data(data.detach());
}

}  // namespace penstock::detail
