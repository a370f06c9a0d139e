// ShardPart: header, columns, rows, in this order.
#include "loader/shards/shard_part.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "loader/files/files.h"
#include "loader/files/safetensors.h"
#include "loader/shards/shard_writer.h"

namespace penstock::detail {
namespace {

std::atomic<int64_t> g_left_bytes{ShardPart::kMostBytes};

struct Range {
  uint64_t begin, end;
};

/// Addresses for a whole file, of which only what bring() was asked for has memory; the rest reads as zeros. Who holds
/// it keeps the part that it belongs to.
class PartMap final : public FileMap {
 public:
  PartMap(const std::filesystem::path& path, uint64_t byte_count) : FileMap(path) {
    void* const range =
        mmap(nullptr, byte_count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
      throw errno_error(path.string(), concat("expected ", byte_count, " bytes of address space"));
    madvise(range, byte_count, MADV_NOHUGEPAGE);  // a huge page would be 2 MiB for a row of 3 KB
    memory_ = static_cast<uint8_t*>(range);
    bytes_ = {memory_, byte_count};
    needs_hold_ = true;
  }
  ~PartMap() override {
    g_left_bytes += used_bytes_;
    munmap(memory_, bytes_.size());
  }

  /// False where the memory of the process is used up.
  bool bring(const RandomAccessFile& source, const Range& range) {
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const auto taken =
        static_cast<int64_t>((range.end - 1) / page - range.begin / page + 1) * static_cast<int64_t>(page);
    used_bytes_ += taken;
    if ((g_left_bytes -= taken) < 0) return false;
    const std::span<uint8_t> out(memory_ + range.begin, range.end - range.begin);
    if (source.read(range.begin, out) == out.size()) return true;
    throw io_error(concat(path().string(), ": ends before byte ", range.end, "; expected ", bytes_.size(), " bytes"));
  }

  void belongs_to(std::weak_ptr<const void> part) const { part_ = std::move(part); }

 private:
  void hold() const override {
    const std::lock_guard lock(mutex_);
    if (hold_count_++ == 0) kept_ = part_.lock();
  }
  void release() const noexcept override {
    std::shared_ptr<const void> last;  // this object may end with it, after the lock
    const std::lock_guard lock(mutex_);
    if (--hold_count_ == 0) last = std::move(kept_);
  }

  uint8_t* memory_;
  int64_t used_bytes_ = 0;
  mutable std::mutex mutex_;  // of what follows
  mutable int64_t hold_count_ = 0;
  mutable std::weak_ptr<const void> part_;
  mutable std::shared_ptr<const void> kept_;
};

/// Where the columns are: between the pictures and what has other bytes for each row. Nothing for an unusual file.
Range columns_of(const FileMap& map) {
  const auto bytes = map.bytes();
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  if (header_bytes > kShardHeaderBytes - sizeof header_bytes) return {0, 0};
  const Safetensors header(std::make_unique<FileMap>(map.path(), bytes));
  const auto* const images = header.find("images");
  const auto* const pictures = images != nullptr ? images : header.find("bytes");
  if (pictures == nullptr) return {0, 0};
  Range columns{pictures->byte_offset + pictures->bytes.size(), bytes.size()};
  for (const char* name : {"index", "path"})
    if (const auto* tensor = header.find(name)) columns.end = std::min(columns.end, tensor->byte_offset);
  return columns;
}

/// Those of the rows that are not among the columns, each at most kGapBytes longer than it must be.
std::vector<Range> ranges_of(const ShardReader& shard, const FileMap& map, const std::vector<size_t>& rows) {
  std::vector<Range> wanted;
  const auto add = [&](const void* data, size_t size) {
    const auto begin = static_cast<uint64_t>(static_cast<const uint8_t*>(data) - map.bytes().data());
    if (size > 0) wanted.push_back({begin, begin + size});
  };
  for (const size_t row : rows) {
    const Sample sample = shard.at(row);
    add(sample.bytes.data(), sample.bytes.size());
    add(sample.seek_index.data(), sample.seek_index.size());
    add(sample.path.data(), sample.path.size());
  }
  std::sort(wanted.begin(), wanted.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> merged;
  for (const Range& range : wanted) {
    if (merged.empty() || range.begin > merged.back().end + ShardPart::kGapBytes)
      merged.push_back(range);
    else
      merged.back().end = std::max(merged.back().end, range.end);
  }
  return merged;
}

}  // namespace

std::shared_ptr<const ShardPart> ShardPart::fetch(const ShardSlot& slot, std::vector<size_t> rows) {
  const ExpectedFile file = slot.expected();
  const uint64_t byte_count = file.facts.byte_count;
  if (!slot.manifest().fields.empty() || byte_count <= std::max<uint64_t>(kGapBytes, kShardHeaderBytes)) return nullptr;
  const auto source = files_of(file.path).open_parts(file.path, file.facts);
  if (!source) return nullptr;
  auto owned = std::make_unique<PartMap>(file.path, byte_count);
  PartMap& map = *owned;
  if (!map.bring(*source, {0, kShardHeaderBytes})) return nullptr;
  const Range columns = columns_of(map);
  if (columns.begin >= columns.end || !map.bring(*source, columns)) return nullptr;
  const auto part = std::make_shared<ShardPart>();
  part->shard_ = std::make_unique<const OpenShard>(std::move(owned), slot.manifest(), slot.entry());
  const ShardReader& shard = part->shard_->reader();
  std::sort(rows.begin(), rows.end());
  for (const Range& range : ranges_of(shard, map, rows))
    if (!map.bring(*source, range)) return nullptr;
  for (const size_t row : rows) part->shard_->check_once(row);
  part->rows_ = std::move(rows);
  map.belongs_to(part);
  return part;
}

int64_t ShardPart::free_bytes() { return g_left_bytes; }

bool ShardPart::has(size_t row) const { return std::binary_search(rows_.begin(), rows_.end(), row); }

}  // namespace penstock::detail
