// HostFallback: rows are collected in page-locked memory, and copied in runs of neighbours.
#include "train/resident/host_fallback.h"

#include <cstring>
#include <utility>

namespace penstock {
namespace {

LoaderOptions leaving_out(LoaderOptions options, std::function<bool(uint64_t)> is_on_device) {
  options.leaves_out = std::move(is_on_device);
  return options;
}

}  // namespace

HostFallback::HostFallback(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline, LoaderOptions options,
                           std::function<bool(uint64_t index)> is_on_device)
    : loader_(std::move(dataset), pipeline, leaving_out(std::move(options), std::move(is_on_device))) {}

const Batch* HostFallback::next() {
  batch_.reset();
  batch_ = loader_.next();
  return batch_ ? &*batch_ : nullptr;
}

/// A copy from the slot itself would save 60 us per row of 600 KB, beside the milliseconds that decoding it took, and
/// would have to hold the slot until the device has read it. LibTorch does that for memory of its own.
void HostFallback::copy(std::span<const int64_t> rows, const torch::Tensor& images) const {
  if (rows.empty()) return;
  auto sizes = images.sizes().vec();
  sizes[0] = static_cast<int64_t>(rows.size());
  const auto staged = torch::empty(sizes, torch::dtype(images.scalar_type()).pinned_memory(images.device().is_cuda()));
  const size_t row_bytes = staged.nbytes() / rows.size();
  auto* to = static_cast<std::byte*>(staged.data_ptr());
  for (const int64_t row : rows) {
    std::memcpy(to, batch_->pixels().data() + static_cast<size_t>(row) * row_bytes, row_bytes);
    to += row_bytes;
  }
  for (size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    for (end = begin + 1; end < rows.size() && rows[end] == rows[end - 1] + 1;) ++end;
    const auto count = static_cast<int64_t>(end - begin);
    images.narrow(0, rows[begin], count)
        .copy_(staged.narrow(0, static_cast<int64_t>(begin), count), /*non_blocking=*/true);
  }
}

}  // namespace penstock
