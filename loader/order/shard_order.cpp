// ShardOrder: lanes, slots and groups over the axis of an epoch.
#include "loader/order/shard_order.h"

#include <algorithm>
#include <numeric>

#include "loader/order/mix.h"

namespace penstock {
namespace {

using detail::keyed_bits;
using detail::Wide;

constexpr uint64_t kShardKey = 0x5348415244, kSlotKey = 0x534C4F54, kRowKey = 0x524F57;  // keep the three orders apart

/// The last of ascending `begins` that is not after `value`. Of several that are equal, that is the one that is not
/// empty.
size_t piece_of(const std::vector<uint64_t>& begins, uint64_t value) {
  return static_cast<size_t>(std::upper_bound(begins.begin(), begins.end(), value) - begins.begin()) - 1;
}

}  // namespace

ShardOrder::ShardOrder(const std::vector<uint64_t>& sizes, int window, int lanes, uint64_t batch_size, uint64_t seed)
    : begins_{0}, lanes_(static_cast<uint64_t>(lanes)), batch_size_(batch_size), seed_(seed) {
  for (const uint64_t size : sizes) {
    begins_.push_back(begins_.back() + size);
    used_count_ += size > 0 ? 1 : 0;
  }
  const uint64_t shards_per_lane = (2 * used_count_ + lanes_) / (2 * lanes_);  // rounded
  slots_ = std::max<uint64_t>(static_cast<uint64_t>(window) / lanes_, 1);
  while (std::gcd(slots_, shards_per_lane) > 1) --slots_;  // 1 has no common factor with any number
}

ShardOrder::Epoch::Epoch(const ShardOrder& order, uint64_t epoch)
    : order_(order),
      epoch_(epoch),
      full_batches_(order.size() / order.batch_size_),
      last_rows_(order.size() % order.batch_size_),
      shards_(order.shard_count()),
      begins_{0} {
  const auto axis = Order::shuffled(order.shard_count(), keyed_bits(order.seed_, kShardKey), epoch);
  for (size_t place = 0; place < shards_.size(); ++place) {
    const auto shard = static_cast<uint32_t>(axis.at(place));
    shards_[place] = shard;
    begins_.push_back(begins_.back() + order.elements_of(shard));
  }
  for (uint64_t lane = 0, begin = 0; lane < order.lanes_; begin += lanes_[lane++].length)
    lanes_.push_back(lane_of(lane, begin));
}

ShardOrder::Epoch::Lane ShardOrder::Epoch::lane_of(uint64_t number, uint64_t begin) const {
  const auto width_of = [&](uint64_t rows) { return first_row(number + 1, rows) - first_row(number, rows); };
  const uint64_t width = width_of(order_.batch_size_), length = full_batches_ * width + width_of(last_rows_);
  return {begin, length, width, length / order_.slots_, length % order_.slots_};
}

uint64_t ShardOrder::Epoch::first_row(uint64_t lane, uint64_t rows) const {
  return static_cast<uint64_t>(Wide{lane} * rows / order_.lanes_);
}

/// The last group of a lane has as many slots as it has rows.
Order ShardOrder::Epoch::slot_order(uint64_t lane, uint64_t group) const {
  const Lane& own = lanes_[lane];
  return Order::shuffled(group < own.groups ? order_.slots_ : own.rest,
                         keyed_bits(order_.seed_ + kSlotKey, lane, group), epoch_);
}

Order ShardOrder::Epoch::row_order(uint32_t shard) const {
  return Order::shuffled(order_.elements_of(shard), keyed_bits(order_.seed_, kRowKey, shard), epoch_);
}

uint64_t ShardOrder::Epoch::at(uint64_t position) const {
  const uint64_t batch = position / order_.batch_size_, row = position % order_.batch_size_;
  const uint64_t rows = batch < full_batches_ ? order_.batch_size_ : last_rows_;
  const auto number = static_cast<uint64_t>((Wide{row + 1} * order_.lanes_ - 1) / rows);
  const Lane& lane = lanes_[number];
  const uint64_t own = batch * lane.width + (row - first_row(number, rows));
  const uint64_t group = own / order_.slots_, slot = slot_order(number, group).at(own % order_.slots_);
  const uint64_t place_on_axis = lane.begin + lane.start(slot) + group;
  const size_t place = piece_of(begins_, place_on_axis);
  const uint32_t shard = shards_[place];
  return order_.begins_[shard] + row_order(shard).at(place_on_axis - begins_[place]);
}

/// The position of group `group` of a slot.
uint64_t ShardOrder::Epoch::position_in(uint64_t lane, uint64_t slot, uint64_t group) const {
  const Lane& own = lanes_[lane];
  const uint64_t number = group * order_.slots_ + slot_order(lane, group).position_of(slot);
  const bool is_full = number < full_batches_ * own.width;
  const uint64_t batch = is_full ? number / own.width : full_batches_;
  const uint64_t row = first_row(lane, is_full ? order_.batch_size_ : last_rows_) + number - batch * own.width;
  return batch * order_.batch_size_ + row;
}

std::vector<ShardUse> ShardOrder::Epoch::uses(int first_lane, int end_lane) const {
  std::vector<ShardUse> found;
  for (auto number = static_cast<uint64_t>(first_lane); number < static_cast<uint64_t>(end_lane); ++number) {
    const Lane& lane = lanes_[number];
    for (uint64_t slot = 0; slot < order_.slots_; ++slot) {
      const uint64_t begin = lane.begin + lane.start(slot), end = lane.begin + lane.start(slot + 1);
      for (uint64_t from = begin, to = 0; from < end; from = to) {
        const size_t place = piece_of(begins_, from);
        to = std::min(end, begins_[place + 1]);
        found.push_back(
            {shards_[place], position_in(number, slot, from - begin), position_in(number, slot, to - 1 - begin)});
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const ShardUse& a, const ShardUse& b) { return a.first < b.first; });
  return found;
}

}  // namespace penstock
