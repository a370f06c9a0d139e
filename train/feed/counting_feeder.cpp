// Counting feeder: batches without tensors, for ranks that hold no first stage.
#include "train/feed/counting_feeder.h"

#include "loader/rows/sample_order.h"

namespace penstock {
namespace {

class CountingFeeder final : public Feeder {
 public:
  explicit CountingFeeder(const Partition& partition) : partition_(partition) {}

  void start_epoch(int64_t epoch, int64_t first_batch) override {
    epoch_ = epoch;
    next_ = first_batch;
  }

  std::optional<DeviceBatch> next() override {
    if (next_ >= partition_.batch_count()) return std::nullopt;
    const Partition::Rows rows = partition_.rows(next_);
    DeviceBatch batch;
    batch.epoch = epoch_;
    batch.index = next_++;
    batch.first_position = rows.first_position;
    batch.rows = partition_.rows_per_rank();
    batch.count = rows.count;
    batch.global_count = rows.global_count;
    return batch;
  }

  int64_t batches_per_epoch() const override { return partition_.batch_count(); }
  uint64_t samples_per_epoch() const override { return partition_.sample_count(); }
  LoaderStatistics statistics() const override { return {}; }

 private:
  Partition partition_;
  int64_t epoch_ = 0, next_ = 0;
};

}  // namespace

std::unique_ptr<Feeder> make_counting_feeder(const Dataset& dataset, const LoaderOptions& options) {
  return std::make_unique<CountingFeeder>(partition_of(dataset, options));
}

}  // namespace penstock
