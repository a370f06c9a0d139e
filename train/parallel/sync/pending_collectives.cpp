// PendingCollectives: waits and times.
#include "train/parallel/sync/pending_collectives.h"

#include <utility>

namespace penstock::detail {

void PendingCollectives::restart() {
  for (auto& work : works_)
    timed_.push_back(
        {std::move(work),
         after_backward_ == AfterBackward::kAll || (after_backward_ == AfterBackward::kLast && &work == &works_.back()),
         step_});
  works_.clear();
  kept_.clear();
  waited_count_ = 0;
  // On a device they end when it gets there, which nobody waits for.
  for (; !timed_.empty(); timed_.pop_front()) {
    const auto under_way_ms = timed_.front().work->under_way_ms();
    if (!under_way_ms) break;
    recorder_.add_collective(*under_way_ms, timed_.front().is_after_backward, timed_.front().step);
  }
}

void PendingCollectives::add(std::unique_ptr<Comm::Work> work, const torch::Tensor& kept) {
  step_ = recorder_.step();
  works_.push_back(std::move(work));
  kept_.push_back(kept);
}

void PendingCollectives::wait_for(size_t count) {
  if (waited_count_ >= count) return;
  const Recorder::Communication communication(recorder_);
  for (; waited_count_ < count; ++waited_count_) {
    works_[waited_count_]->wait();
    kept_[waited_count_].reset();
  }
}

}  // namespace penstock::detail
