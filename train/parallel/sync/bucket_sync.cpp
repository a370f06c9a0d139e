// OrderedBuckets: starts and waits.
#include "train/parallel/sync/bucket_sync.h"

namespace penstock::detail {

OrderedBuckets::OrderedBuckets(const std::vector<torch::Tensor>& parameters,
                               const std::vector<std::vector<size_t>>& members, Recorder& recorder, int backward_count)
    : works_(recorder),
      bucket_count_(members.size()),
      countdown_(
          parameters, members, backward_count, [this](size_t) { start_complete(); }, [this] { after_gradient(); }) {}

void OrderedBuckets::begin() {
  works_.restart();
  started_count_ = 0;
  countdown_.restart();
}

void OrderedBuckets::finish() {
  start_rest();
  works_.wait_for(works_.count());
}

void OrderedBuckets::start_rest() {
  while (started_count_ < bucket_count_) start(started_count_++);
}

void OrderedBuckets::start_complete() {
  while (started_count_ < bucket_count_ && countdown_.is_complete(started_count_)) start(started_count_++);
}

}  // namespace penstock::detail
