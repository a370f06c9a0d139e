// PlanPrefetcher: one window is in use, and the next one is planned.
#include "train/resident/plan_prefetcher.h"

#include <algorithm>
#include <utility>

namespace penstock {

PlanPrefetcher::PlanPrefetcher(const Shape& shape, Plan plan, const torch::Device& device)
    : shape_(shape),
      plan_(std::move(plan)),
      device_(device),
      most_batches_(std::max(shape.window_bytes / shape.batch_bytes, int64_t{1})),
      batches_(std::min(kFirstBatches, most_batches_)) {}

void PlanPrefetcher::start_epoch(int64_t epoch, int64_t first_batch) {
  epoch_ = epoch, next_batch_ = first_batch;
  window_ = {};
  if (ahead_.valid() && ahead_epoch_ == epoch && ahead_first_batch_ == first_batch) return;
  if (ahead_.valid()) ahead_.wait();  // one call at a time; what it throws is of batches that nobody asks for
  begin(epoch, first_batch);
}

std::optional<PlannedBatch> PlanPrefetcher::next() {
  if (next_batch_ >= shape_.batches_per_epoch) return std::nullopt;
  if (next_batch_ >= window_.end()) take_window();
  const int64_t in_window = next_batch_++ - window_.first_batch;
  PlannedBatch planned = window_.batches[static_cast<size_t>(in_window)];
  planned.bytes = window_.bytes.narrow(0, in_window * shape_.batch_bytes, shape_.batch_bytes);
  return planned;
}

/// Plans from there on, while the window before it is used.
void PlanPrefetcher::begin(int64_t epoch, int64_t first_batch) {
  ahead_epoch_ = epoch, ahead_first_batch_ = first_batch;
  const int64_t count = std::clamp<int64_t>(shape_.batches_per_epoch - first_batch, 0, batches_);
  batches_ = std::min(2 * batches_, most_batches_);
  // Where the system gives no thread, get() plans instead.
  ahead_ = std::async(std::launch::async | std::launch::deferred,
                      [=, this] { return plan_window(epoch, first_batch, count); });
}

PlanPrefetcher::PlanWindow PlanPrefetcher::plan_window(int64_t epoch, int64_t first_batch, int64_t count) const {
  const c10::DeviceGuard guard(device_);  // pinned memory belongs to the context of the current device
  PlanWindow window{.first_batch = first_batch, .batches = {}, .bytes = {}};
  window.bytes =
      torch::empty({count * shape_.batch_bytes}, torch::dtype(torch::kUInt8).pinned_memory(device_.is_cuda()));
  auto* to = static_cast<std::byte*>(window.bytes.data_ptr());
  for (int64_t i = 0; i < count; ++i, to += shape_.batch_bytes)
    window.batches.push_back(plan_(epoch, first_batch + i, to));
  return window;
}

/// Waits for the window that is being planned, has the next one planned, and copies this one to the device.
void PlanPrefetcher::take_window() {
  window_ = ahead_.get();
  if (window_.end() < shape_.batches_per_epoch)
    begin(epoch_, window_.end());
  else if (shape_.epoch_count < 0 || epoch_ + 1 < shape_.epoch_count)
    begin(epoch_ + 1, 0);
  window_.bytes = window_.bytes.to(device_, /*non_blocking=*/true);
}

}  // namespace penstock
