// SlotPool: blocks are handed out last in, first out, because the last one may still be in the cache.
#include "loader/batch/slot_pool.h"

#include <utility>

#include "core/error.h"
#include "core/limits.h"
#include "core/number_text.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

constexpr size_t kAlignment = 64;

size_t rounded_up(size_t byte_count) { return (byte_count + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

SlotPool::SlotPool(SlotAllocator allocator, const BatchShape& shape, int expected_count)
    : allocator_(std::move(allocator)), shape_(shape), expected_count_(static_cast<size_t>(expected_count)) {
  const auto row_count = static_cast<size_t>(shape.rows);
  if (__builtin_mul_overflow(row_count, shape.row_bytes, &pixel_bytes_) || pixel_bytes_ > size_t{1} << 46)
    throw config_error(
        concat("loader: a batch has ", shape.rows, " rows of ", shape.row_bytes, " bytes; expected under 64 TiB"));
  pixel_bytes_ = rounded_up(pixel_bytes_);
  const size_t label_bytes = (sizeof(int64_t) + sizeof(float)) * (shape.mixes ? 2 : 1);
  block_bytes_ = pixel_bytes_ + rounded_up(row_count * (label_bytes + sizeof(uint64_t)));
  spare_.reserve(expected_count_);  // so that give_back() never allocates
}

SlotPool::~SlotPool() {
  for (const auto& block : spare_) allocator_.release(block.pixels, block_bytes_);
}

SlotArrays SlotPool::take() {
  size_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      const SlotArrays block = spare_.back();
      spare_.pop_back();
      return block;
    }
    number = block_count_ + 1;
  }
  auto* const memory = static_cast<std::byte*>(allocator_.allocate(block_bytes_));
  if (memory == nullptr) {
    const std::string which = number <= expected_count_ ? concat("batch ", number, " of ", expected_count_)
                                                        : concat("batch ", number, " that is held");
    throw memory_error("loader", concat(which, ", ", byte_text(block_bytes_), " each"),
                       "a smaller batch size (--batch-size) or less --prefetch");
  }
  const std::lock_guard lock(mutex_);
  ++block_count_;
  return arrays_in(memory);
}

void SlotPool::give_back(const SlotArrays& block) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (spare_.size() < expected_count_) {
      spare_.push_back(block);
      return;
    }
    --block_count_;
  }
  allocator_.release(block.pixels, block_bytes_);
}

size_t SlotPool::byte_count() const {
  const std::lock_guard lock(mutex_);
  return block_bytes_ * block_count_;
}

SlotArrays SlotPool::arrays_in(std::byte* memory) const {
  const auto row_count = static_cast<size_t>(shape_.rows);
  auto* const labels = reinterpret_cast<int64_t*>(memory + pixel_bytes_);
  auto* const ids = reinterpret_cast<uint64_t*>(labels + row_count);
  auto* const second_labels = shape_.mixes ? reinterpret_cast<int64_t*>(ids + row_count) : nullptr;
  auto* const weights =
      shape_.mixes ? reinterpret_cast<float*>(second_labels + row_count) : reinterpret_cast<float*>(ids + row_count);
  return {memory, labels, ids, weights, second_labels, shape_.mixes ? weights + row_count : nullptr};
}

}  // namespace penstock::detail
