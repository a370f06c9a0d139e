// ShardPart: some rows of a shard that is far away, which come before the rest of it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "loader/shards/shard_slot.h"

namespace penstock::detail {

/// A shard of which only the header, the columns and the bytes of some rows are in memory: three round trips in place
/// of all its bytes. What came is checked as far as it is handed out: the structure as of any shard, and the crc32c of
/// each row, which covers all that a row is made of, its entries of the columns with it, and those of its fields. The
/// shard's XXH3 is that of the whole, which comes later and is checked then.
///
/// Memory: that of the ranges, in whole pages; kMostBytes for all parts of a process together. It is freed when no
/// sample holds it and nobody has the part.
/// Thread-safety: immutable after finish().
class ShardPart {
 public:
  static constexpr int64_t kMostBytes = int64_t{64} << 20;
  /// Ranges with no more than this between them are fetched as one: at 100 MB/s it takes 2.6 ms, and a request more
  /// takes a round trip. A shard that is not larger is left to be fetched whole.
  static constexpr uint64_t kGapBytes = 256 << 10;

  /// Header and columns, for these rows. Null where it is not worth its requests or cannot be done: the whole is at
  /// hand or small, or the memory of the process is used up. Throws what fetching and opening a shard throw.
  static std::shared_ptr<ShardPart> open(const ShardSlot& slot, std::vector<size_t> rows);
  /// What is missing of the rows after open(), in pieces, which any threads may bring. False where the memory is used
  /// up.
  size_t piece_count() const { return pieces_.size(); }
  bool bring(size_t piece);
  /// To be called when all pieces are there. Throws corrupt_error where a row or one of its fields has another crc32c.
  void finish();

  static int64_t free_bytes();  ///< What is left of kMostBytes.

  bool has(size_t row) const;
  /// Only rows that it has may be read. Their samples keep the part.
  const OpenShard& shard() const { return *shard_; }

 private:
  struct Piece {
    uint64_t begin, end;  // bytes of the shard
  };
  class Map;
  static std::vector<Piece> joined(std::vector<Piece> wanted);
  static std::vector<Piece> columns_of(const FileMap& map, size_t header_bytes);
  void find_pieces(const std::vector<Piece>& columns);

  std::vector<size_t> rows_;  // ascending
  size_t field_count_ = 0;
  std::unique_ptr<const RandomAccessFile> source_;  // until finish()
  std::vector<Piece> pieces_;
  Map* map_ = nullptr;  // of shard_
  std::unique_ptr<const OpenShard> shard_;
};

}  // namespace penstock::detail
