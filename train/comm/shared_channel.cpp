// SharedChannel: where records begin, and what is written before it is told.
#include "train/comm/shared_channel.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "train/comm/shared_memory.h"

namespace penstock::detail {
namespace {

constexpr uint64_t kRing = SharedChannel::kMemory - kCacheLine;

constexpr uint64_t kMany = 16;  // messages; a schedule of as many micro-batches finds room without a wait
constexpr uint64_t kUsual = uint64_t{64} << 10;  // bytes; a small message is followed by larger ones

/// The bytes of a record: its head takes a cache line, and the message whole ones.
uint64_t record_bytes(uint64_t message) { return kCacheLine + (message + kCacheLine - 1) / kCacheLine * kCacheLine; }

}  // namespace

SharedChannel::Record* SharedChannel::record(uint64_t place) {
  return reinterpret_cast<Record*>(memory_ + kCacheLine + place % kRing);
}

bool SharedChannel::write(int tag, std::span<const std::byte> message) {
  if (write_now(tag, message)) return true;
  head().wants_room.store(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return write_now(tag, message);  // the reader may have made room before it could see that it is wanted
}

bool SharedChannel::write_now(int tag, std::span<const std::byte> message) {
  const uint64_t bytes = record_bytes(message.size());
  uint64_t place = head().written.load(std::memory_order_relaxed);
  const uint64_t used = place - head().read.load(std::memory_order_acquire);
  const uint64_t offset = place % kRing, rest = kRing - offset;
  // Until the reader has passed over the rest, the writer has the room before `offset` alone, of which `used` is
  // unread.
  const bool has_room_there = offset >= 2 * used + kMany * std::max(bytes, kUsual);
  const bool goes_back = rest < bytes || has_room_there || (used == 0 && offset >= kRing / 2);
  if (used + bytes + (goes_back ? rest : 0) > kRing) return false;
  if (goes_back) {
    new (record(place)) Record{.bytes = rest, .tag = 0, .is_rest = 1};
    place += rest;
  }
  new (record(place)) Record{.bytes = message.size(), .tag = tag, .is_rest = 0};
  if (!message.empty()) std::memcpy(memory_ + kCacheLine + place % kRing + kCacheLine, message.data(), message.size());
  head().written.store(place + bytes, std::memory_order_release);
  return true;
}

std::optional<SharedChannel::Message> SharedChannel::front() {
  for (;;) {
    const uint64_t place = head().read.load(std::memory_order_relaxed);
    if (place == head().written.load(std::memory_order_acquire)) return std::nullopt;
    const Record& first = *record(place);
    if (!first.is_rest) return Message{first.tag, {memory_ + kCacheLine + place % kRing + kCacheLine, first.bytes}};
    head().read.store(place + first.bytes, std::memory_order_release);
  }
}

bool SharedChannel::pop() {
  const uint64_t place = head().read.load(std::memory_order_relaxed);
  head().read.store(place + record_bytes(record(place)->bytes), std::memory_order_seq_cst);
  return head().wants_room.exchange(0) != 0;
}

}  // namespace penstock::detail
