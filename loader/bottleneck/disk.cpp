// Disk: direct reads at random places, timed, and what they gave in words.
#include "loader/bottleneck/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <thread>

#include "core/clock.h"
#include "core/error.h"
#include "core/number_text.h"
#include "core/rng.h"
#include "core/text.h"
#include "loader/files/read_from.h"
#include "loader/jpeg/entropy/write_jpeg.h"

namespace penstock {
namespace {

constexpr size_t kPieceBytes = 128 * 1024, kDirectAlignment = 4096;
constexpr int64_t kTimed_ns = 125'000'000;
constexpr int kReaders = 8, kTurns = 2;

/// Files opened past the page cache (O_DIRECT), as one sequence of pieces.
class Pieces {
 public:
  explicit Pieces(const std::vector<std::filesystem::path>& files) {
    for (const auto& file : files) {
      const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
      struct stat status {};
      const bool is_whole = fd >= 0 && fstat(fd, &status) == 0;
      const auto count = is_whole ? static_cast<uint64_t>(status.st_size) / kPieceBytes : 0;
      if (count == 0) {
        if (fd >= 0) close(fd);
        continue;
      }
      files_.push_back({fd, count_});
      count_ += count;
    }
  }
  ~Pieces() {
    for (const File& file : files_) close(file.fd);
  }
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  uint64_t count() const { return count_; }
  bool read(uint64_t piece, void* memory) const {
    const auto after = std::upper_bound(files_.begin(), files_.end(), piece,
                                        [](uint64_t value, const File& file) { return value < file.first_piece; });
    const File& file = *std::prev(after);
    const auto offset = static_cast<off_t>((piece - file.first_piece) * kPieceBytes);
    return pread(file.fd, memory, kPieceBytes, offset) == static_cast<ssize_t>(kPieceBytes);
  }

 private:
  struct File {
    int fd;
    uint64_t first_piece;
  };
  std::vector<File> files_;
  uint64_t count_ = 0;
};

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

/// Bytes per second of `reader_count` readers together; 0 when a read failed.
double rate_of(const Pieces& pieces, int reader_count) {
  std::atomic<uint64_t> read_bytes{0};
  std::atomic<bool> has_failed{false};
  const int64_t start_ns = now_ns();
  const auto work = [&](int reader) {
    const std::unique_ptr<void, FreeMemory> memory(std::aligned_alloc(kDirectAlignment, kPieceBytes));
    Rng rng(/*seed=*/0, static_cast<uint32_t>(reader_count), static_cast<uint64_t>(reader), 0);
    do {
      const uint64_t piece = rng.next() % pieces.count();
      if (!memory || !pieces.read(piece, memory.get())) has_failed = true;
      read_bytes += kPieceBytes;
    } while (!has_failed && now_ns() - start_ns < kTimed_ns);
  };
  {
    std::vector<std::jthread> readers;
    for (int reader = 1; reader < reader_count; ++reader) readers.emplace_back(work, reader);
    work(0);
  }
  return has_failed ? 0 : static_cast<double>(read_bytes) * 1e9 / static_cast<double>(now_ns() - start_ns);
}

constexpr uint64_t kEstimatedSamples = 16;
constexpr int kQuality = 90;
constexpr double kCoefficientBytes = 1.11;  // per byte of a JPEG (docs/reports/performance.md)

constexpr double kUsedUp = 0.9;  // share of what the storage gives; the rest is noise and file headers

std::string bytes_of(double bytes) { return byte_text(static_cast<uint64_t>(std::llround(bytes))); }

}  // namespace

std::optional<DiskRate> measure_disk(const std::vector<std::filesystem::path>& files) {
  const Pieces pieces(files);
  if (pieces.count() == 0) return std::nullopt;
  try {
    std::vector<DiskRate> turns;
    for (int turn = 0; turn < kTurns; ++turn) {
      const double one = rate_of(pieces, 1);
      turns.push_back({one, one > 0 ? rate_of(pieces, kReaders) : 0});
      if (turns.back().most <= 0) break;
    }
    return best_of(turns);
  } catch (const std::system_error&) {  // no thread was left to start
    return std::nullopt;
  }
}

std::optional<DiskRate> best_of(const std::vector<DiskRate>& turns) {
  DiskRate best;
  for (const auto& [one, most] : turns) {
    if (most <= 0) return std::nullopt;
    best.one = std::max(best.one, one);
    best.most = std::max({best.most, one, most});
  }
  return best;
}

std::vector<std::filesystem::path> shard_files(const Dataset& dataset) {
  constexpr size_t kMostFiles = 256;  // measure_disk() has them open at once
  const auto& shards = dataset.manifest().shards;
  const size_t count = std::min(shards.size(), kMostFiles);
  std::vector<std::filesystem::path> files;
  for (size_t i = 0; i < count; ++i) files.push_back(dataset.folder() / shards[i * shards.size() / count].file);
  return files;
}

double coefficient_share(const Dataset& dataset, RankShards share) {
  const uint64_t begin = dataset.shard_begin(share.rank), size = dataset.shard_begin(share.rank + 1) - begin;
  const uint64_t count = std::min(kEstimatedSamples, size);
  uint64_t raw_count = 0;
  double stored = 0, compressed = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t index = begin + i * size / count;
    const auto add = [&] {
      const Sample sample = dataset.at(index);
      if (sample.encoding != Encoding::kRaw || is_raster(PixelType::kU8, sample.extent.channels)) return;
      const Extent& extent = sample.extent;
      const Picture picture{sample.bytes.data(), ptrdiff_t{extent.width} * extent.channels, extent.height, extent.width,
                            extent.channels};
      ++raw_count;
      stored += static_cast<double>(sample.bytes.size());
      compressed += kCoefficientBytes * static_cast<double>(detail::write_jpeg(picture, kQuality).size());
    };
    try {
      read_from(dataset, index, add);
    } catch (const Error&) {
      return 0;
    }
  }
  return 2 * raw_count > count && compressed < stored ? compressed / stored : 0;
}

std::string storage_text(double most, double images_per_second, double image_bytes) {
  const double got = images_per_second * image_bytes;
  const std::string images = image_bytes > 0 ? " in images of " + bytes_of(image_bytes) : "";
  if (most <= 0)
    return "the loader waited for the storage" + (got > 0 ? concat(", which gave ", bytes_of(got), "/s", images) : "");
  const bool is_used_up = got <= 0 || got >= kUsedUp * most;
  return concat(bytes_of(most), "/s is what the storage gives",
                is_used_up ? "" : concat(", ", bytes_of(got), "/s of it"), images);
}

}  // namespace penstock
