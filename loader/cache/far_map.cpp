// FarMap: addresses that stay, memory that comes and goes.
#include "loader/cache/far_map.h"

#include <sys/mman.h>

#include <chrono>
#include <exception>
#include <thread>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/cache/ahead.h"
#include "loader/far/link_stats.h"
#include "loader/files/checksum.h"
#include "loader/files/interrupt.h"

namespace penstock::detail {
namespace {

constexpr auto kMapStep = std::chrono::milliseconds(1);
constexpr int kMapStepsPerQuestion = 100;

/// Counts its life as a wait for a shard, if that is long enough to be one.
class Stall {
 public:
  ~Stall() {
    constexpr double kLeast_ms = 1;
    if (const double ms = ms_since(begin_ns_); ms >= kLeast_ms) count_stall(ms);
  }

 private:
  int64_t begin_ns_ = now_ns();
};

}  // namespace

FarMap::FarMap(const FarShard& shard, ShardCache& cache) : FileMap(shard.address), shard_(shard), cache_(cache) {
  const size_t size = shard_.facts.byte_count;
  if (size == 0) throw corrupt_error(concat(shard_.address, ": 0 bytes by the manifest; expected a shard"));
  void* const range = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) throw errno_error(shard_.address, concat("expected ", size, " bytes of address space"));
  bytes_ = {static_cast<const uint8_t*>(range), size};
  needs_hold_ = true;
  cache_.add(shard_.facts.sum(), *this);
}

FarMap::~FarMap() {
  cache_.remove(shard_.facts.sum(), *this);
  guard_.reset();
  munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

void FarMap::hold() const {
  if ((state_.fetch_add(kOneHold, std::memory_order_acquire) & kMapped) != 0) return;
  try {
    bring();
  } catch (...) {
    state_.fetch_sub(kOneHold, std::memory_order_release);
    throw;
  }
}

void FarMap::release() const noexcept { state_.fetch_sub(kOneHold, std::memory_order_release); }

void FarMap::bring() const {
  const Stall stall;
  // Another loader's thread may have it for as long as its fetch takes.
  for (int step = 1; !mutex_.try_lock(); ++step) {
    std::this_thread::sleep_for(kMapStep);
    if (step % kMapStepsPerQuestion == 0 && is_interrupted())
      throw io_error(concat(shard_.address, ": is being fetched; expected somebody who still waits for it"));
  }
  const MutexLock lock(mutex_, std::adopt_lock);
  if ((state_.load(std::memory_order_acquire) & kMapped) != 0) return;
  Ahead::instance().need_now();
  map_file(cache_.get(shard_));
  state_.fetch_or(kMapped, std::memory_order_release);
}

void FarMap::map_file(OpenFile file) const {
  void* const range = const_cast<uint8_t*>(bytes_.data());
  if (mmap(range, bytes_.size(), PROT_READ, MAP_SHARED | MAP_FIXED, file.descriptor(), 0) == MAP_FAILED)
    throw errno_error(shard_.address, "expected to map its file in the cache");
  guard_ = std::make_unique<MapGuard>(bytes_);
  is_sound_ = false;
  file_ = std::move(file);
}

/// The file may be in use by this object's own holder: its mutex is held while it waits for room, and then this one is
/// not taken.
void FarMap::drop_unless_read() {
  if (!mutex_.try_lock()) return;
  const MutexLock lock(mutex_, std::adopt_lock);
  uint64_t idle = kMapped;
  if (!state_.compare_exchange_strong(idle, 0, std::memory_order_acq_rel)) return;
  unmap_file();
}

void FarMap::read_ahead() const { Ahead::instance().fetch_next(shard_); }

void FarMap::drop() const {
  Ahead::instance().forget(shard_.facts.sum());
  cache_.leave(shard_.facts.sum());
}

void FarMap::unmap_file() const {
  guard_.reset();
  void* const range = const_cast<uint8_t*>(bytes_.data());
  mmap(range, bytes_.size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  file_ = OpenFile();
}

void FarMap::check_read(std::span<const uint8_t> used, const std::string& where) const {
  // Only what is mapped can have been read; a hold that costs no fetch keeps the guard meanwhile.
  if ((state_.fetch_add(kOneHold, std::memory_order_acquire) & kMapped) != 0) {
    if (const auto offset = first_fault(used)) {
      release();
      throw io_error(concat(where, ": byte ", *offset, " of its file in the cache ", cache_.folder().string(),
                            " cannot be read; expected a disk without errors"));
    }
  }
  release();
}

/// Requires a hold of a shard that is mapped. That keeps `guard_` as it is, which changes only while nobody holds the
/// shard, so that this reads it without the mutex.
std::optional<size_t> FarMap::first_fault(std::span<const uint8_t> used) const PENSTOCK_NO_THREAD_SAFETY_ANALYSIS {
  return guard_ ? guard_->first_fault(used) : std::nullopt;
}

void FarMap::check_file(std::span<const uint8_t> used, const std::string& where) const {
  check_read(used, where);
  // At the end of an epoch all bytes are asked for without an error, and reading all shards again would take too long.
  const bool has_error = used.size() < bytes_.size() || std::current_exception() != nullptr;
  if (!has_error || is_sound_) return;
  if ((state_.fetch_add(kOneHold, std::memory_order_acquire) & kMapped) != 0) {
    try {
      check_shard(where);
    } catch (...) {
      release();
      throw;
    }
  }
  release();
}

/// Requires a hold of a shard that is mapped.
void FarMap::check_shard(const std::string& where) const {
  const std::string found = sum_of(bytes_, shard_.facts);
  is_sound_ = found == shard_.facts.sum();
  if (is_sound_) return;
  cache_.remove_damaged(shard_.facts.sum());
  throw io_error(concat(where, ": its shard was damaged in the cache ", cache_.folder().string(), ": ",
                        shard_.facts.sum_name(), " is ", found, ", and was ", shard_.facts.sum(),
                        " when it was fetched; expected a disk without errors. It is ",
                        "removed there: the next run fetches it again"));
}

}  // namespace penstock::detail
