// ReadAhead: a thread that follows the batches.
#include "loader/batch/read_ahead.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/machine.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

uint64_t stored_bytes(const Dataset& dataset) {
  uint64_t bytes = 0;
  for (const auto& shard : dataset.manifest().shards) bytes += shard.byte_count;
  return bytes;
}

int64_t batches_per_shard(const Dataset& dataset, const LoaderOptions& options) {
  return static_cast<int64_t>(dataset.size()) / std::max(dataset.shard_count(), 1) / options.batch_size;
}

ShardSchedule schedule_of(const Dataset& dataset, const SampleOrder& order, const LoaderOptions& options) {
  const auto batches = static_cast<uint64_t>(order.partition().batch_count());
  const uint64_t positions = std::max<uint64_t>(batches, 1) * static_cast<uint64_t>(options.batch_size);
  const auto uses_of = [&](int64_t epoch) { return order.shard_uses(dataset, epoch); };
  // One shard for each lane: that is as long as a lane takes to use up one.
  const auto lanes = static_cast<size_t>(options.shuffle.lanes);
  if (dataset.room_shards() != UINT64_MAX) return {uses_of, positions, lanes};
  ShardSchedule::Budget budget;
  uint64_t largest = 0;
  for (const auto& shard : dataset.manifest().shards) {
    budget.shard_bytes.push_back(shard.byte_count);
    largest = std::max(largest, shard.byte_count);
  }
  const MostInUse most = most_in_use(uses_of(0), budget.shard_bytes);
  budget.most_bytes = std::max(most.bytes + lanes * largest, std::min(2 * most.bytes, available_memory() / 2));
  return {uses_of, positions, std::max(lanes, most.count), std::move(budget)};
}

}  // namespace

bool reads_ahead(const Dataset& dataset, const SampleOrder& order, const LoaderOptions& options) {
  if (options.read_ahead == ReadAheadChoice::kOff) return false;
  if (!order.has_window()) {
    if (options.read_ahead == ReadAheadChoice::kAuto) return false;
    throw config_error(concat("loader: read-ahead on with shuffle ", options.shuffle.text(), " of ",
                              dataset.shard_count(), " shards, which uses all of them at once; expected shuffle ",
                              "shards(...) with a smaller window"));
  }
  return options.read_ahead == ReadAheadChoice::kOn || dataset.room_shards() != UINT64_MAX ||
         stored_bytes(dataset) > available_memory();
}

ReadAhead::ReadAhead(const Dataset& dataset, const SampleOrder& order, const LoaderOptions& options)
    : dataset_(dataset),
      batch_positions_(static_cast<uint64_t>(options.batch_size)),
      made_ahead_(static_cast<uint64_t>(options.prefetch) * batch_positions_),
      is_far_(dataset.room_shards() != UINT64_MAX),
      most_behind_(std::max<int64_t>(options.prefetch, batches_per_shard(dataset, options))),
      schedule_(schedule_of(dataset, order, options)),
      thread_([this] { work(); }) {}

ReadAhead::~ReadAhead() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void ReadAhead::go_to(int64_t sequence, int64_t limit) {
  {
    const MutexLock lock(mutex_);
    // A far set has the limit of its cache, and its thread may wait for the link for minutes.
    taken_.wait(mutex_, [&]() PENSTOCK_REQUIRES(mutex_) {
      return is_far_ || wanted_ < 0 || sequence - first_wanted_ <= most_behind_;
    });
    if (wanted_ < 0) first_wanted_ = sequence;
    wanted_ = sequence;
    limit_ = limit;
  }
  wake_.notify_one();
}

/// What is used up is dropped before more is read, also while a thread that is late has much to read.
void ReadAhead::work() {
  for (;;) {
    MutexLock lock(mutex_);
    wake_.wait(mutex_, [&]() PENSTOCK_REQUIRES(mutex_) { return ends_ || wanted_ >= 0 || !to_read_.empty(); });
    if (ends_) return;
    if (wanted_ < 0) {
      lock.unlock();
      read_next();
      continue;
    }
    const uint64_t done = static_cast<uint64_t>(std::exchange(wanted_, -1)) * batch_positions_;
    uint64_t limit = 0;  // batches that there is no end of have no limit
    if (__builtin_mul_overflow(static_cast<uint64_t>(limit_), batch_positions_, &limit)) limit = ~uint64_t{0};
    lock.unlock();
    taken_.notify_one();
    take(schedule_.go_to(done, done + made_ahead_, limit));
  }
}

void ReadAhead::take(const ShardSchedule::Step& step) {
  for (const uint32_t shard : step.drop) {
    if (dataset_.drop(static_cast<int>(shard))) ++dropped_count_;
    std::erase(to_read_, shard);
  }
  to_read_.insert(to_read_.end(), step.fetch.begin(), step.fetch.end());
}

void ReadAhead::read_next() {
  try {
    dataset_.read_ahead(static_cast<int>(to_read_.front()));
    ++read_count_;
  } catch (const Error&) {  // the row that needs the shard says it
  }
  to_read_.pop_front();
}

}  // namespace penstock::detail
