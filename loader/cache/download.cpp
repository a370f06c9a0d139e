// download(): transfer, hash, and note how far it came.
#include "loader/cache/download.h"

#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/far/link_stats.h"
#include "loader/far/transfer.h"

namespace penstock::detail {
namespace {

constexpr size_t kReadBytes = 1 << 20;
constexpr int64_t kNoteEvery_ns = 100'000'000;

void write_all(int descriptor, std::span<const uint8_t> bytes, uint64_t offset, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw errno_error(path.string(), "expected to write a shard into the cache");
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
}

/// A shard on its way. The hash covers the bytes up to progress_.done, in order.
class Arrival {
 public:
  Arrival(const FileFacts& facts, const CacheFolder::Place& place)
      : facts_(facts), place_(place), state_(XXH3_createState(), &XXH3_freeState) {
    restart();
  }

  void restart() {
    progress_ = {};
    std::memcpy(progress_.magic, kProgressMagic, sizeof kProgressMagic);
    XXH3_128bits_reset(state_.get());
    note();
  }

  /// Takes up what another download has left. Its bytes are hashed here; should they be wrong, the sum says so.
  void resume(const Progress& left) {
    progress_.beat = left.beat;
    std::memcpy(progress_.etag, left.etag, sizeof progress_.etag);
    std::vector<uint8_t> buffer(kReadBytes);
    while (progress_.done < left.done) {
      const size_t wanted = std::min<uint64_t>(buffer.size(), left.done - progress_.done);
      const ssize_t count = pread(place_.file.descriptor(), buffer.data(), wanted, static_cast<off_t>(progress_.done));
      if (count <= 0) return restart();
      XXH3_128bits_update(state_.get(), buffer.data(), static_cast<size_t>(count));
      progress_.done += static_cast<uint64_t>(count);
      beat();
    }
  }

  void take(uint64_t offset, std::span<const uint8_t> bytes, const std::string& etag) {
    write_all(place_.file.descriptor(), bytes, offset, place_.path);
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
    progress_.done = offset + bytes.size();
    if (etag.size() < sizeof progress_.etag) std::memcpy(progress_.etag, etag.c_str(), etag.size() + 1);
    beat();
  }

  void beat() {
    ++progress_.beat;
    if (now_ns() - noted_ns_ >= kNoteEvery_ns) note();
  }

  const Progress& progress() const { return progress_; }
  std::string xxh3() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    std::string hex;
    for (const unsigned char byte : canonical.digest)
      hex += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
    return hex;
  }

 private:
  /// After the bytes, so that a process that is killed leaves no more than is there.
  void note() {
    write_progress(place_.file.descriptor(), facts_.byte_count, progress_);
    noted_ns_ = now_ns();
  }

  const FileFacts& facts_;
  const CacheFolder::Place& place_;
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
  Progress progress_{};
  int64_t noted_ns_ = 0;
};

}  // namespace

void download(Origin& origin, const std::string& address, const FileFacts& facts, const CacheFolder::Place& place,
              const std::atomic<bool>& is_ending, const std::function<void(uint64_t)>& on_done) {
  const auto left = read_progress(place.file.descriptor(), facts.byte_count);
  Arrival arrival(facts, place);
  if (left) arrival.resume(*left);
  const TransferCallbacks callbacks{
      .sink =
          [&](uint64_t offset, std::span<const uint8_t> bytes, const ObjectFacts& object) {
            arrival.take(offset, bytes, object.etag);
            on_done(offset + bytes.size());
          },
      .on_wait =
          [&] {
            arrival.beat();
            return !is_ending.load(std::memory_order_relaxed);
          }};
  int change_count = 0, wrong_count = 0;
  for (;;) {
    try {
      if (arrival.progress().done < facts.byte_count)
        transfer(origin,
                 {.address = address,
                  .begin = arrival.progress().done,
                  .end = facts.byte_count,
                  .etag = arrival.progress().etag,
                  .byte_count = facts.byte_count,
                  .on_new_connection = wrong_count > 0},
                 callbacks);
    } catch (const ObjectChanged& changed) {
      if (++change_count > 1)
        throw corrupt_error(concat(address, ": changed while it was read: ", changed.fact,
                                   "; expected shards that stay as the manifest says"));
      count_retry("changed");
      arrival.restart();
      continue;
    }
    const std::string found = arrival.xxh3();
    if (found == facts.xxh3) return;
    count_retry("checksum");
    if (++wrong_count > 1)
      throw corrupt_error(concat(address, ": xxh3 is ", found, ", the manifest says ", facts.xxh3,
                                 ", twice; upload the shard again, or pack it again"));
    arrival.restart();
  }
}

}  // namespace penstock::detail
