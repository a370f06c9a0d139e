// download(): transfer, hash, and note how far it came.
#include "loader/cache/download.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/cache/progress.h"
#include "loader/far/hedged_transfer.h"
#include "loader/far/link_stats.h"
#include "loader/files/checksum.h"

namespace penstock::detail {
namespace {

constexpr size_t kReadBytes = 1 << 20;
// A TLS record has 16 KiB, and a pwrite() for each of them costs more than the copy. Fits the second cache of a core,
// so that the hash and the kernel read it from there.
constexpr size_t kGatherBytes = 256 << 10;
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

/// A shard on its way. The file and the hash have the bytes up to progress_.done, in order; those in gathered_ follow.
class Arrival {
 public:
  Arrival(const FileFacts& facts, const CacheFolder::Place& place) : facts_(facts), place_(place) {
    gathered_.reserve(kGatherBytes);
    restart();
  }

  void restart() {
    gathered_.clear();
    progress_ = {};
    std::memcpy(progress_.magic, kProgressMagic, sizeof kProgressMagic);
    sum_.emplace(!facts_.sha256.empty());
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
      sum_->add({buffer.data(), static_cast<size_t>(count)});
      progress_.done += static_cast<uint64_t>(count);
      beat();
    }
  }

  /// Takes the bytes that follow the last ones.
  void take(std::span<const uint8_t> bytes, const std::string& etag) {
    if (etag.size() < sizeof progress_.etag) std::memcpy(progress_.etag, etag.c_str(), etag.size() + 1);
    if (gathered_.size() + bytes.size() > kGatherBytes) flush();
    if (bytes.size() >= kGatherBytes)
      write(bytes);
    else
      gathered_.insert(gathered_.end(), bytes.begin(), bytes.end());
    beat();
  }

  void flush() {
    write(gathered_);
    gathered_.clear();
  }

  /// Whatever ends a transfer, what came stays for the next one.
  void keep() {
    flush();
    note();
  }

  void beat() {
    ++progress_.beat;
    if (now_ns() - noted_ns_ >= kNoteEvery_ns) keep();
  }

  const Progress& progress() const { return progress_; }
  /// Once all is there.
  std::string finish_sum() { return sum_->finish(); }

 private:
  void write(std::span<const uint8_t> bytes) {
    write_all(place_.file.descriptor(), bytes, progress_.done, place_.path);
    sum_->add(bytes);
    progress_.done += bytes.size();
  }

  /// After the bytes, so that a process that is killed leaves no more than is there.
  void note() {
    write_progress(place_.file.descriptor(), facts_.byte_count, progress_);
    noted_ns_ = now_ns();
  }

  const FileFacts& facts_;
  const CacheFolder::Place& place_;
  std::optional<FileSum> sum_;
  Progress progress_{};
  std::vector<uint8_t> gathered_;
  int64_t noted_ns_ = 0;
};

}  // namespace

void download(Origin& origin, const std::string& address, const FileFacts& facts, const CacheFolder::Place& place,
              const DownloadWatch& watch) {
  const auto left = read_progress(place.file.descriptor(), facts.byte_count);
  Arrival arrival(facts, place);
  if (left) arrival.resume(*left);
  const TransferCallbacks callbacks{
      .sink =
          [&](uint64_t offset, std::span<const uint8_t> bytes, const ObjectFacts& object) {
            arrival.take(bytes, object.etag);
            watch.on_done(offset + bytes.size());
          },
      .on_wait =
          [&] {
            arrival.beat();
            return !watch.is_ending.load(std::memory_order_relaxed);
          }};
  int change_count = 0, wrong_count = 0;
  for (;;) {
    try {
      if (arrival.progress().done < facts.byte_count)
        hedged_transfer(origin,
                        {.address = address,
                         .begin = arrival.progress().done,
                         .end = facts.byte_count,
                         .etag = arrival.progress().etag,
                         .byte_count = facts.byte_count,
                         .on_new_connection = wrong_count > 0},
                        callbacks, range_times(), watch.is_waited_for);
      arrival.flush();
    } catch (const ObjectChanged&) {
      if (++change_count > 1) throw;
      count_retry("changed");
      arrival.restart();
      continue;
    } catch (...) {
      arrival.keep();
      throw;
    }
    const std::string found = arrival.finish_sum();
    if (found == facts.sum()) return;
    count_retry("checksum");
    if (++wrong_count > 1)
      throw corrupt_error(concat(address, ": ", facts.sum_name(), " is ", found, ", the manifest says ", facts.sum(),
                                 ", twice; upload the shard again, or pack it again"));
    arrival.restart();
  }
}

}  // namespace penstock::detail
