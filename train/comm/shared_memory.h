// SharedMemory: pages that processes of one machine see, words in it to wait for, and who of them is still there.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace penstock::detail {

constexpr size_t kCacheLine = 64;                      // bytes
constexpr auto kLook = std::chrono::milliseconds(50);  // so often a rank that waits looks whether the others live

/// A file without a name (memfd_create(2)), mapped. It is not in /dev/shm, which containers often limit to 64 MB.
/// Thread-safety: const members for any thread.
class SharedMemory {
 public:
  /// Zeros. Nothing if the system gives none.
  static std::optional<SharedMemory> make(size_t bytes);
  /// What process `pid` has made, and has open as `file`. Nothing if this process may not see it.
  static std::optional<SharedMemory> of_process(int64_t pid, int file, size_t bytes);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  std::byte* data() const { return data_; }
  /// The descriptor; -1 after close_file().
  int file() const { return file_; }
  /// The pages stay, and can no longer be opened by other processes.
  void close_file();

  /// Takes `seat` until this object or the process ends, however it ends: the kernel's lock on a byte of the file.
  /// Returns whether it could. Requires the file to be open, here and below.
  bool take_seat(int seat) const;
  /// Whether another one has it.
  bool is_taken(int seat) const;

 private:
  SharedMemory(std::byte* data, size_t bytes, int file) : data_(data), bytes_(bytes), file_(file) {}
  static std::optional<SharedMemory> map(int file, size_t bytes);

  std::byte* data_;  // null: moved from
  size_t bytes_;
  int file_;
};

/// Sleeps until `word` is not `value` any more, somebody calls wake_all(), or the time has passed. May return early.
void wait_while(std::atomic<uint32_t>& word, uint32_t value, std::chrono::milliseconds time);
/// Wakes whoever waits for `word`, in any process.
void wake_all(std::atomic<uint32_t>& word);

}  // namespace penstock::detail
