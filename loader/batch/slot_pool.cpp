// SlotPool: blocks are handed out last in, first out, because the last one may still be in the cache.
#include "loader/batch/slot_pool.h"

#include <utility>

#include "core/error.h"
#include "core/limits.h"
#include "core/number_text.h"
#include "core/text.h"

namespace penstock::detail {
SlotPool::SlotPool(SlotAllocator allocator, size_t block_bytes, int expected_count)
    : allocator_(std::move(allocator)),
      block_bytes_(block_bytes),
      expected_count_(static_cast<size_t>(expected_count)) {
  spare_.reserve(expected_count_);  // so that give_back() never allocates
}

SlotPool::~SlotPool() {
  for (auto* const block : spare_) allocator_.release(block, block_bytes_);
}

std::byte* SlotPool::take() {
  size_t number = 0;
  {
    const MutexLock lock(mutex_);
    if (!spare_.empty()) {
      auto* const block = spare_.back();
      spare_.pop_back();
      return block;
    }
    number = block_count_ + 1;
  }
  auto* const block = static_cast<std::byte*>(allocator_.allocate(block_bytes_));
  if (block == nullptr) {
    const std::string which = number <= expected_count_ ? concat("batch ", number, " of ", expected_count_)
                                                        : concat("batch ", number, " that is held");
    throw memory_error("loader", concat(which, ", ", byte_text(block_bytes_), " each"),
                       "a smaller batch size (--batch-size) or less --prefetch");
  }
  const MutexLock lock(mutex_);
  ++block_count_;
  return block;
}

void SlotPool::give_back(std::byte* block) noexcept {
  {
    const MutexLock lock(mutex_);
    if (spare_.size() < expected_count_) {
      spare_.push_back(block);
      return;
    }
    --block_count_;
  }
  allocator_.release(block, block_bytes_);
}

size_t SlotPool::byte_count() const {
  const MutexLock lock(mutex_);
  return block_bytes_ * block_count_;
}

}  // namespace penstock::detail
