// HuffmanSource: decides which point of the seek index to start from and what to skip, and checks the place where
// reading stops.
#include "loader/jpeg/entropy/huffman.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {

void HuffmanSource::open(const JpegHeader& header, const JpegGeometry& geometry, std::span<const uint8_t> bytes,
                         std::optional<SeekIndex> index) {
  if (!header.is_decodable() || (index && header.restart_interval != 0))
    throw bug_error(
        "HuffmanSource: not for this kind of JPEG; expected one scan, and no restart markers with an index");
  index_ = index;
  byte_count_ = bytes.size();
  mcu_columns_ = geometry.mcu_columns;
  mcu_rows_ = geometry.mcu_rows;
  stop_ = {};
  stop_mcu_ = -1;
  reader_.open(header, geometry, bytes);
}

void HuffmanSource::read(int mcu_row, int begin, int end, const McuRun& run) {
  const int64_t target = int64_t{mcu_row} * mcu_columns_ + begin;
  if (index_)
    seek(mcu_row, begin, end);
  else if (reader_.mcu() > target)
    reader_.rewind();
  reader_.skip(target - reader_.mcu());
  reader_.read(end - begin, run);
  if (reader_.mcu() == int64_t{mcu_columns_} * mcu_rows_)
    reader_.check_end();
  else if (reader_.mcu() == stop_mcu_)
    check_stop();
}

/// Moves the reader to the last point at or before MCU `begin` of the row, unless the reader is already between that
/// point and `begin` and may read up to `end`. The next point at or after `end` becomes the stop.
///
/// An example: a row of 20 MCUs with a point every 8. Point 3 of this row is point 0 of the next one. The MCUs under
/// ... are skipped, those under ### are read.
///
///   MCU           0               8   10      14  16      20
///   point         0               1               2       3
///   read 10..13                   |...|#######|               starts at point 1; the stop is point 2
///   read 14..15                               |###|           goes on; at the stop, check_stop() compares
///   read 16..19                                   |#######|   20 is after the stop: starts at point 2, the stop is 3
void HuffmanSource::seek(int mcu_row, int begin, int end) {
  const int every = index_->every();
  const int first = begin / every, last = (end - 1) / every + 1;
  const int64_t row_mcu = int64_t{mcu_row} * mcu_columns_;
  const bool is_between = reader_.mcu() >= row_mcu + int64_t{first} * every && reader_.mcu() <= row_mcu + begin;
  if (stop_mcu_ >= row_mcu + end && is_between) return;
  const bool is_behind = stop_mcu_ < 0 || stop_.row != mcu_row || stop_.k > first;
  stop_mcu_ = -1;  // there is no valid stop until the points have been read without an error
  if (is_behind) stop_ = index_->row_begin(mcu_row);
  while (stop_.k < first) index_->advance(stop_);
  const SeekIndex::Point point = stop_;
  while (stop_.k < last) index_->advance(stop_);
  const int stop_column = std::min(last * every, mcu_columns_);
  // The end of the scan itself is found by its marker, as without an index.
  const bool is_end = mcu_row + 1 == mcu_rows_ && stop_column == mcu_columns_;
  reader_.seek(row_mcu + int64_t{first} * every, point.bit, is_end ? 8 * uint64_t{byte_count_} : stop_.bit, point.dc);
  stop_mcu_ = row_mcu + stop_column;
}

void HuffmanSource::check_stop() {
  if (reader_.is_at_stop() && reader_.dc() == stop_.dc) return;
  throw corrupt_error(concat("JPEG: MCU ", stop_mcu_, " does not begin where its seek index says, at bit ", stop_.bit,
                             " with these DC predictors; expected the index of this picture"));
}

}  // namespace penstock::detail
