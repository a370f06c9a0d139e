// SharedChannel: messages from one process to another in memory that both see.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace penstock::detail {

/// A ring of records, each in one piece:
///
///     | tag, bytes | the message ...    | tag, bytes | the message | rest: passed over, the next one begins at 0
///
/// One process writes and one reads; neither locks. When there is room for many messages at the beginning of the ring,
/// the writer goes back there, so that only the pages of some tens of messages are touched.
class SharedChannel {
 public:
  /// The bytes of memory that a channel takes. Its pages are touched as they are used.
  static constexpr size_t kMemory = (32 << 20) + 4096;
  /// The bytes of the longest message: with its head less than half of the ring, so that it fits into an
  /// empty ring wherever the last one ended.
  static constexpr size_t kLongest = 16 << 20;

  /// `memory` was zeros when the first of the two came, and begins a cache line.
  explicit SharedChannel(std::byte* memory) : memory_(memory) {}

  /// Returns whether there was room; where there was none, the next pop() returns true. Requires at most kLongest
  /// bytes.
  bool write(int tag, std::span<const std::byte> message);

  struct Message {
    int tag;
    std::span<const std::byte> bytes;  // until pop()
  };
  /// The oldest message, or none.
  std::optional<Message> front();
  /// Requires that front() gave one. Returns whether the writer waits for room.
  bool pop();

 private:
  struct Head {
    std::atomic<uint64_t> written, read;  // bytes since the beginning
    std::atomic<uint32_t> wants_room;
  };
  struct Record {
    uint64_t bytes;
    int32_t tag;
    int32_t is_rest;  // up to the end of the ring, without a message
  };

  Head& head() { return *reinterpret_cast<Head*>(memory_); }
  Record* record(uint64_t place);
  bool write_now(int tag, std::span<const std::byte> message);

  std::byte* memory_;
};

}  // namespace penstock::detail
