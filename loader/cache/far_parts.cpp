// FarParts: one transfer per part.
#include "loader/cache/far_parts.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "loader/far/transfer.h"

namespace penstock::detail {
namespace {

constexpr int kMostAttempts = 3;  // a service that is in trouble is not asked for what comes with the shard as well

}  // namespace

size_t FarParts::read(uint64_t offset, std::span<uint8_t> out) const {
  const uint64_t end = std::min(size(), offset + out.size());
  if (offset >= end) return 0;
  TransferWish wish{
      .address = shard_.address, .begin = offset, .end = end, .byte_count = size(), .most_attempts = kMostAttempts};
  {
    const std::lock_guard lock(mutex_);
    wish.etag = etag_;
  }
  const TransferCallbacks callbacks{
      .sink = [&](uint64_t at, std::span<const uint8_t> bytes, const ObjectFacts& object) {
        if (!object.is_range)
          throw io_error(concat(shard_.address, ": came whole; expected the range that was asked for"));
        std::copy(bytes.begin(), bytes.end(), out.begin() + static_cast<ptrdiff_t>(at - offset));
      }};
  try {
    const ObjectFacts object = transfer(*shard_.origin, wish, callbacks);
    const std::lock_guard lock(mutex_);
    etag_ = object.etag;
  } catch (const ObjectChanged& changed) {
    throw io_error(
        concat(shard_.address, ": changed while it was read: ", changed.fact, "; expected shards that stay"));
  }
  return end - offset;
}

}  // namespace penstock::detail
