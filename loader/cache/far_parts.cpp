// FarParts: one transfer per part, or two where it is slow.
#include "loader/cache/far_parts.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "loader/far/hedged_transfer.h"

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
    const MutexLock lock(mutex_);
    wish.etag = etag_;
  }
  std::string etag;
  const TransferCallbacks callbacks{
      .sink = [&](uint64_t at, std::span<const uint8_t> bytes, const ObjectFacts& object) {
        if (!object.is_range)
          throw io_error(concat(shard_.address, ": came whole; expected the range that was asked for"));
        std::copy(bytes.begin(), bytes.end(), out.begin() + static_cast<ptrdiff_t>(at - offset));
        etag = object.etag;
      }};
  try {
    hedged_transfer(*shard_.origin, wish, callbacks, range_times(), [] { return true; });
    const MutexLock lock(mutex_);
    etag_ = etag;
  } catch (const ObjectChanged& changed) {  // nothing is known to be corrupt: the shard may come as it should be
    throw io_error(changed.what());
  }
  return end - offset;
}

}  // namespace penstock::detail
