// build_seek_index() writes a seek index, and SeekIndex reads it.
#include "loader/jpeg/entropy/seek_index.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "core/text.h"
#include "loader/jpeg/base/bit_writer.h"
#include "loader/jpeg/entropy/scan_reader.h"

namespace penstock::detail {
namespace {

constexpr size_t kFixedBytes = 12, kPredictorBytes = 3, kPaddingBytes = 7;
constexpr uint8_t kVersion = 1;
constexpr size_t kMaxJpegBytes = size_t{1} << 29;  // a u32 can count the bits of a shorter file
static_assert(std::endian::native == std::endian::little);

template <class T>
T number_at(std::span<const uint8_t> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

void append(std::vector<uint8_t>& bytes, uint32_t value, int byte_count) {
  for (int i = 0; i < byte_count; ++i) bytes.push_back(static_cast<uint8_t>(value >> 8 * i));
}

/// The position of the bit that is `bit_count` bits of data after the bit at position `bit`.
uint64_t advanced(std::span<const uint8_t> bytes, uint64_t bit, uint64_t bit_count) {
  uint64_t left = (bit % 8 + bit_count) / 8;  // bytes of data still to pass
  uint64_t at = bit / 8;
  while (left > 0 && at < bytes.size()) {  // a truncated scan may end in the middle of a code
    const void* marker = std::memchr(bytes.data() + at, 0xFF, std::min<size_t>(left, bytes.size() - at));
    if (marker == nullptr) {
      at += left;
      break;
    }
    const uint64_t before = static_cast<uint64_t>(static_cast<const uint8_t*>(marker) - bytes.data()) - at;
    at += before + 2;
    left -= before + 1;
  }
  return 8 * at + (bit + bit_count) % 8;
}

/// What an index is made from: the numbers of R x P points.
struct Points {
  std::vector<uint32_t> row_bits;
  std::vector<uint32_t> lengths;
  std::vector<DcPredictors> dc;
};

Points find_points(const JpegHeader& header, const JpegGeometry& geometry, std::span<const uint8_t> bytes, int every) {
  ScanReader reader;
  reader.open(header, geometry, bytes);
  Points points;
  uint64_t bit = 8 * uint64_t{header.scan_begin}, bits_read = 0;
  for (int row = 0; row < geometry.mcu_rows; ++row) {
    points.row_bits.push_back(static_cast<uint32_t>(bit));
    for (int column = 0; column < geometry.mcu_columns; column += every) {
      points.dc.push_back(reader.dc());
      reader.skip(std::min(every, geometry.mcu_columns - column));
      const uint64_t next = advanced(bytes, bit, reader.bits_read() - bits_read);
      points.lengths.push_back(static_cast<uint32_t>(next - bit));
      bit = next;
      bits_read = reader.bits_read();
    }
  }
  reader.check_end();
  return points;
}

/// The least of some numbers, and the width in bits of their differences from it.
struct Range {
  int64_t least = INT64_MAX, greatest = INT64_MIN;
  void add(int64_t value) {
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  }
  int width() const { return std::bit_width(static_cast<uint64_t>(greatest - least)); }
};

[[noreturn]] void fail(const std::string& fact) {
  throw corrupt_error(concat("seek index: ", fact, "; expected the index of this picture"));
}

}  // namespace

std::vector<uint8_t> build_seek_index(const JpegHeader& header, const JpegGeometry& geometry,
                                      std::span<const uint8_t> bytes, int every) {
  if (every < 1 || every > 255) throw bug_error(concat("build_seek_index: every is ", every, "; expected 1 to 255"));
  if (header.restart_interval != 0)
    throw bug_error(concat("build_seek_index: a restart interval of ", header.restart_interval, "; expected none"));
  if (bytes.size() >= kMaxJpegBytes)
    throw corrupt_error(concat("JPEG of ", bytes.size(), " bytes; expected fewer than ", kMaxJpegBytes));
  const Points points = find_points(header, geometry, bytes, every);
  const int count = geometry.component_count;
  Range lengths;
  std::array<Range, 4> dc;
  for (const uint32_t length : points.lengths) lengths.add(length);
  for (const auto& predictors : points.dc)
    for (int i = 0; i < count; ++i) dc[i].add(predictors[i]);

  std::vector<uint8_t> index{kVersion, static_cast<uint8_t>(every), static_cast<uint8_t>(count),
                             static_cast<uint8_t>(lengths.width())};
  append(index, static_cast<uint32_t>(geometry.mcu_columns), 2);
  append(index, static_cast<uint32_t>(geometry.mcu_rows), 2);
  append(index, static_cast<uint32_t>(lengths.least), 4);
  for (int i = 0; i < count; ++i) {
    index.push_back(static_cast<uint8_t>(dc[i].width()));
    append(index, static_cast<uint32_t>(dc[i].least), 2);
  }
  for (const uint32_t bit : points.row_bits) append(index, bit, 4);
  auto point_bits = static_cast<size_t>(lengths.width());
  for (int i = 0; i < count; ++i) point_bits += static_cast<size_t>(dc[i].width());
  const size_t bits_begin = index.size(), bits_end = bits_begin + (point_bits * points.lengths.size() + 7) / 8;
  index.resize(bits_end + 8);  // which the writer needs
  BitWriter writer(index.data() + bits_begin);
  for (size_t point = 0; point < points.lengths.size(); ++point) {
    writer.put(static_cast<uint32_t>(points.lengths[point] - lengths.least), lengths.width());
    for (int i = 0; i < count; ++i) writer.put(static_cast<uint32_t>(points.dc[point][i] - dc[i].least), dc[i].width());
  }
  index.resize(bits_end + kPaddingBytes);
  return index;
}

SeekIndex::SeekIndex(std::span<const uint8_t> bytes, const JpegGeometry& geometry)
    : bytes_(bytes), row_count_(geometry.mcu_rows), component_count_(geometry.component_count) {
  rows_begin_ = kFixedBytes + kPredictorBytes * static_cast<size_t>(component_count_);
  if (bytes.size() < rows_begin_) fail(concat("has ", bytes.size(), " bytes"));
  if (bytes[0] != kVersion) fail(concat("is of version ", int{bytes[0]}));
  every_ = bytes[1];
  length_width_ = record_width_ = bytes[3];
  if (every_ < 1 || length_width_ > 32) fail(concat("every ", every_, " MCUs, lengths of ", length_width_, " bits"));
  const int columns = number_at<uint16_t>(bytes, 4), rows = number_at<uint16_t>(bytes, 6);
  if (bytes[2] != component_count_ || columns != geometry.mcu_columns || rows != row_count_)
    fail(concat("is of ", int{bytes[2]}, " components, ", rows, " x ", columns, " MCUs"));
  least_length_ = number_at<uint32_t>(bytes, 8);
  for (int i = 0; i < component_count_; ++i) {
    const size_t at = kFixedBytes + kPredictorBytes * static_cast<size_t>(i);
    predictors_[i] = {bytes[at], number_at<int16_t>(bytes, at + 1)};
    if (predictors_[i].width > 16) fail(concat("predictors of ", predictors_[i].width, " bits"));
    record_width_ += predictors_[i].width;
  }
  row_points_ = (columns + every_ - 1) / every_;
  records_begin_ = rows_begin_ + 4 * static_cast<size_t>(row_count_);
  const uint64_t record_bits = uint64_t{1} * row_count_ * row_points_ * record_width_;
  const uint64_t expected = records_begin_ + (record_bits + 7) / 8 + kPaddingBytes;
  if (bytes.size() != expected) fail(concat("has ", bytes.size(), " bytes where its header says ", expected));
}

uint64_t SeekIndex::field(uint64_t bit, int width) const {
  // The field may begin where the records end.
  if (width == 0) return 0;
  // kPaddingBytes ensures that there are 8 bytes.
  const auto eight = number_at<uint64_t>(bytes_, records_begin_ + bit / 8);
  return eight >> bit % 8 & ((uint64_t{1} << width) - 1);
}

uint64_t SeekIndex::record_bit(const Point& point) const {
  return (uint64_t{1} * point.row * row_points_ + point.k) * record_width_;
}

void SeekIndex::read_predictors(Point& point) const {
  uint64_t bit = record_bit(point) + length_width_;
  for (int i = 0; i < component_count_; ++i) {
    const auto [width, least] = predictors_[i];
    point.dc[i] = static_cast<int16_t>(least + static_cast<int>(field(bit, width)));
    bit += width;
  }
}

SeekIndex::Point SeekIndex::row_begin(int row) const {
  Point point{row, 0, number_at<uint32_t>(bytes_, rows_begin_ + 4 * static_cast<size_t>(row)), {}};
  read_predictors(point);
  return point;
}

void SeekIndex::advance(Point& point) const {
  point.bit += least_length_ + field(record_bit(point), length_width_);
  ++point.k;
  const bool is_row_end = point.k == row_points_;
  if (is_row_end && point.row + 1 == row_count_) return;
  if (is_row_end && point.bit != row_begin(point.row + 1).bit)
    fail(concat("MCU row ", point.row, " ends at bit ", point.bit, " and not where the next begins"));
  read_predictors(point);
}

void check_seek_index(const JpegHeader& header, std::span<const uint8_t> bytes, std::span<const uint8_t> index) {
  const JpegGeometry geometry(header);
  const SeekIndex found(index, geometry);
  const auto rebuilt = build_seek_index(header, geometry, bytes, found.every());
  const SeekIndex expected(rebuilt, geometry);
  const int row_points = (geometry.mcu_columns + found.every() - 1) / found.every();
  for (int row = 0; row < geometry.mcu_rows; ++row) {
    auto point = found.row_begin(row), right = expected.row_begin(row);
    for (;;) {
      if (point.bit != right.bit || point.dc != right.dc)
        fail(concat("point ", point.k, " of MCU row ", row, " is bit ", point.bit, " where the scan has bit ",
                    right.bit, point.bit == right.bit ? " with other DC predictors" : ""));
      if (point.k == row_points) break;
      found.advance(point);
      expected.advance(right);
    }
  }
}

}  // namespace penstock::detail
