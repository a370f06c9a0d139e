// MapGuard: turns a page of a mapped file that cannot be read into zeros and a mark, so that the process does not end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace penstock::detail {

/// How many faults there were in guarded maps that still exist.
extern std::atomic<uint64_t> map_fault_count;

/// Whether a guarded map has a page that could not be read. Costs one load, so that it can be asked after every sample.
/// Covers what this thread read before the call.
inline bool has_map_faults() {
  std::atomic_thread_fence(std::memory_order_acquire);
  return map_fault_count.load(std::memory_order_relaxed) != 0;
}

/// Puts the guards' handler back in its place where the program has installed one of its own since (Python's
/// faulthandler.enable() does). The program's handler then gets all faults that are not in guarded maps. Does nothing
/// before the first guard. Costs one system call, about 150 ns; a Loader calls it once per batch.
///
/// A handler of the program may call the one that it has replaced, which is the guards' own. So that this ends, each
/// time the handler is put back it is another function, up to 8 of them.
void keep_map_handler();

/// Guards a read-only map of a file as long as this object lives. The kernel sends SIGBUS to a thread that reads a page
/// which the file no longer has (somebody has cut it short) or which the disk does not give. The first guard of a
/// process installs a handler that puts a page of zeros in that place and marks it, so that the thread goes on. Code
/// that reads a map asks has_map_faults() afterwards, and first_fault() when there are any.
///
/// Faults at addresses outside of all guarded maps go to the handler that was installed before, or end the process as
/// usual. A handler that the program installs later replaces this one, until keep_map_handler() is called.
///
/// Memory: one bit per page. Thread-safety: any number of threads may read, and fault, at once, while others make and
/// destroy guards of other maps.
class MapGuard {
 public:
  /// `map` begins at a page and is not empty.
  explicit MapGuard(std::span<const uint8_t> map);
  ~MapGuard();  ///< Requires that the memory is still mapped and that nobody reads it any more.
  MapGuard(const MapGuard&) = delete;
  MapGuard& operator=(const MapGuard&) = delete;

  /// The first byte of `used`, a part of the map, that is in a page which could not be read, as an offset in the map.
  /// Nothing when all pages could be read.
  std::optional<size_t> first_fault(std::span<const uint8_t> used) const;

 private:
  struct Entry;
  friend struct MapHandler;
  Entry* entry_;
};

}  // namespace penstock::detail
