// ShardPart: header, columns, rows, in this order.
#include "loader/shards/shard_part.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/mutex.h"
#include "core/text.h"
#include "loader/files/files.h"
#include "loader/files/safetensors.h"
#include "loader/shards/shard_writer.h"

namespace penstock::detail {
namespace {

std::atomic<int64_t> g_left_bytes{ShardPart::kMostBytes};

}  // namespace

/// Addresses for a whole file, of which only what bring() was asked for has memory; the rest reads as zeros. Who holds
/// it keeps the part that it belongs to.
class ShardPart::Map final : public FileMap {
 public:
  Map(const std::filesystem::path& path, uint64_t byte_count) : FileMap(path) {
    void* const range =
        mmap(nullptr, byte_count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
      throw errno_error(path.string(), concat("expected ", byte_count, " bytes of address space"));
    madvise(range, byte_count, MADV_NOHUGEPAGE);  // a huge page would be 2 MiB for a row of 3 KB
    memory_ = static_cast<uint8_t*>(range);
    bytes_ = {memory_, byte_count};
    needs_hold_ = true;
  }
  ~Map() override {
    g_left_bytes += used_bytes_;
    munmap(memory_, bytes_.size());
  }

  /// False where the memory of the process is used up.
  bool bring(const RandomAccessFile& source, const Piece& range) {
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const auto taken =
        static_cast<int64_t>((range.end - 1) / page - range.begin / page + 1) * static_cast<int64_t>(page);
    used_bytes_ += taken;
    if ((g_left_bytes -= taken) < 0) return false;
    const std::span<uint8_t> out(memory_ + range.begin, range.end - range.begin);
    if (source.read(range.begin, out) == out.size()) return true;
    throw io_error(concat(path().string(), ": ends before byte ", range.end, "; expected ", bytes_.size(), " bytes"));
  }

  void belongs_to(std::weak_ptr<const void> part) const {
    const MutexLock lock(mutex_);
    part_ = std::move(part);
  }

 private:
  void hold() const override {
    const MutexLock lock(mutex_);
    if (hold_count_++ == 0) kept_ = part_.lock();
  }
  void release() const noexcept override {
    std::shared_ptr<const void> last;  // this object may end with it, after the lock
    const MutexLock lock(mutex_);
    if (--hold_count_ == 0) last = std::move(kept_);
  }

  uint8_t* memory_;
  std::atomic<int64_t> used_bytes_{0};
  mutable Mutex mutex_;
  mutable int64_t hold_count_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  mutable std::weak_ptr<const void> part_ PENSTOCK_GUARDED_BY(mutex_);
  mutable std::shared_ptr<const void> kept_ PENSTOCK_GUARDED_BY(mutex_);
};

/// Sorted, and as one where there are no more than kGapBytes between them.
std::vector<ShardPart::Piece> ShardPart::joined(std::vector<Piece> wanted) {
  std::sort(wanted.begin(), wanted.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  std::vector<Piece> pieces;
  for (const Piece& piece : wanted) {
    if (pieces.empty() || piece.begin > pieces.back().end + kGapBytes)
      pieces.push_back(piece);
    else
      pieces.back().end = std::max(pieces.back().end, piece.end);
  }
  return pieces;
}

/// Where the columns are: all tensors but those that have other bytes for each row. Nothing for a header that is longer
/// than `header_bytes`, all that is there of it.
std::vector<ShardPart::Piece> ShardPart::columns_of(const FileMap& map, size_t header_bytes) {
  uint64_t found = 0;
  std::memcpy(&found, map.bytes().data(), sizeof found);
  if (found > header_bytes - sizeof found) return {};
  const Safetensors header(std::make_unique<FileMap>(map.path(), map.bytes()));
  std::vector<Piece> columns;
  for (const auto& tensor : header.tensors()) {
    const bool is_of_rows = tensor.name == "images" || tensor.name == "bytes" || tensor.name == "index" ||
                            tensor.name == "path" || tensor.name == "padding" || tensor.name.starts_with("field.");
    if (!is_of_rows && !tensor.bytes.empty())
      columns.push_back({tensor.byte_offset, tensor.byte_offset + tensor.bytes.size()});
  }
  return joined(std::move(columns));
}

std::shared_ptr<ShardPart> ShardPart::open(const ShardSlot& slot, std::vector<size_t> rows) {
  const ExpectedFile file = slot.expected();
  const uint64_t byte_count = file.facts.byte_count;
  const size_t field_count = slot.manifest().fields.size(), header_bytes = shard_header_bytes(field_count);
  if (byte_count <= std::max<uint64_t>(kGapBytes, header_bytes)) return nullptr;
  auto source = files_of(file.path).open_parts(file.path, file.facts);
  if (!source) return nullptr;
  auto map = std::make_unique<Map>(file.path, byte_count);
  if (!map->bring(*source, {0, header_bytes})) return nullptr;
  const auto columns = columns_of(*map, header_bytes);
  if (columns.empty()) return nullptr;
  for (const Piece& piece : columns)
    if (!map->bring(*source, piece)) return nullptr;
  auto part = std::make_shared<ShardPart>();
  part->map_ = map.get();
  part->shard_ = std::make_unique<const OpenShard>(std::move(map), slot.manifest(), slot.entry());
  part->field_count_ = field_count;
  part->source_ = std::move(source);
  std::sort(rows.begin(), rows.end());
  part->rows_ = std::move(rows);
  part->find_pieces(columns);
  part->map_->belongs_to(part);
  return part;
}

/// What the rows have besides what came with the columns.
void ShardPart::find_pieces(const std::vector<Piece>& columns) {
  std::vector<Piece> wanted;
  const auto add = [&](const void* data, size_t size) {
    const auto begin = static_cast<uint64_t>(static_cast<const uint8_t*>(data) - map_->bytes().data());
    const auto has = [&](const Piece& piece) { return piece.begin <= begin && begin + size <= piece.end; };
    if (size > 0 && std::none_of(columns.begin(), columns.end(), has)) wanted.push_back({begin, begin + size});
  };
  for (const size_t row : rows_) {
    const Sample sample = shard_->reader().at(row);
    add(sample.bytes.data(), sample.bytes.size());
    add(sample.seek_index.data(), sample.seek_index.size());
    add(sample.path.data(), sample.path.size());
    for (size_t number = 0; number < field_count_; ++number) {
      const FieldBytes value = shard_->reader().field(row, number);
      add(value.data(), value.size());
    }
  }
  pieces_ = joined(std::move(wanted));
}

bool ShardPart::bring(size_t piece) { return map_->bring(*source_, pieces_[piece]); }

void ShardPart::finish() {
  for (const size_t row : rows_) {
    shard_->check_once(row);
    for (size_t number = 0; number < field_count_; ++number) shard_->check_field_once(row, number);
  }
  source_.reset();
}

int64_t ShardPart::free_bytes() { return g_left_bytes; }

bool ShardPart::has(size_t row) const { return std::binary_search(rows_.begin(), rows_.end(), row); }

}  // namespace penstock::detail
