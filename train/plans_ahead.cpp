// PlansAhead: one stretch is in use, and the next one is planned.
#include "train/plans_ahead.h"

#include <algorithm>
#include <utility>

namespace penstock {

PlansAhead::PlansAhead(Loader& ids, Plan plan, int channels, const torch::Device& device, int64_t stretch_bytes)
    : ids_(ids), plan_(std::move(plan)), channels_(channels), device_(device) {
  const auto& options = ids.options();
  rows_per_batch_ = (options.batch_size + options.world_size - 1) / options.world_size;
  const int64_t batch_bytes = make_room_for_plans(1, channels, torch::kCPU).rows.nbytes() * rows_per_batch_;
  batches_per_stretch_ = std::max(stretch_bytes / batch_bytes, int64_t{1});
}

void PlansAhead::start_epoch(int64_t epoch, int64_t first_batch) {
  epoch_ = epoch, next_batch_ = first_batch;
  stretch_ = {};
  if (ahead_.valid() && ahead_epoch_ == epoch && ahead_first_batch_ == first_batch) return;
  if (ahead_.valid()) ahead_.wait();  // one call at a time; what it throws is of batches that nobody asks for
  begin(epoch, first_batch, /*goes_on=*/false);
}

std::optional<PlansAhead::Planned> PlansAhead::next() {
  if (next_batch_ >= ids_.batches_per_epoch()) return std::nullopt;
  const auto count = static_cast<int64_t>(stretch_.batches.size());
  if (next_batch_ >= stretch_.first_batch + count) take_stretch();
  const int64_t in_stretch = next_batch_++ - stretch_.first_batch;
  Planned planned{stretch_.batches[static_cast<size_t>(in_stretch)], stretch_.plans};
  planned.plans.rows = stretch_.plans.rows.narrow(0, in_stretch * rows_per_batch_, planned.batch.count);
  return planned;
}

/// Plans from there on, while the stretch before it is used. With `goes_on` the batch is the one after the last that
/// was planned.
void PlansAhead::begin(int64_t epoch, int64_t first_batch, bool goes_on) {
  ahead_epoch_ = epoch, ahead_first_batch_ = first_batch;
  // Where the system gives no thread, get() plans instead.
  ahead_ = std::async(std::launch::async | std::launch::deferred,
                      [=, this] { return plan_stretch(epoch, first_batch, goes_on); });
}

PlansAhead::Stretch PlansAhead::plan_stretch(int64_t epoch, int64_t first_batch, bool goes_on) {
  const c10::DeviceGuard guard(device_);  // pinned memory belongs to the context of the current device
  if (!goes_on) ids_.start_epoch(epoch, first_batch);
  const int64_t left = ids_.batches_per_epoch() - first_batch;
  const int64_t count = std::min(left, batches_per_stretch_);
  Stretch stretch{.first_batch = first_batch, .batches = {}, .plans = {}, .ends_epoch = count == left};
  stretch.plans = make_room_for_plans(count * rows_per_batch_, channels_, device_);
  std::vector<PlannedRow> rows;
  for (int64_t i = 0; i < count; ++i) {
    const auto ids = ids_.next();
    plan_(*ids, rows);
    pack_plans_into(stretch.plans, i * rows_per_batch_, rows);
    DeviceBatch batch;
    batch.epoch = ids->epoch(), batch.index = ids->index(), batch.first_position = ids->first_position();
    batch.rows = ids->rows(), batch.count = ids->count(), batch.global_count = ids->global_count();
    stretch.batches.push_back(batch);
  }
  if (stretch.ends_epoch) ids_.next();  // nothing: the loader is at the next epoch then
  return stretch;
}

/// Waits for the stretch that is being planned, has the next one planned, and copies this one to the device.
void PlansAhead::take_stretch() {
  stretch_ = ahead_.get();
  const int64_t epoch_count = ids_.options().epoch_count;
  if (!stretch_.ends_epoch)
    begin(epoch_, stretch_.first_batch + static_cast<int64_t>(stretch_.batches.size()), /*goes_on=*/true);
  else if (epoch_count < 0 || epoch_ + 1 < epoch_count)
    begin(epoch_ + 1, 0, /*goes_on=*/false);
  stretch_.plans.rows = stretch_.plans.rows.to(device_, /*non_blocking=*/true);
}

}  // namespace penstock
