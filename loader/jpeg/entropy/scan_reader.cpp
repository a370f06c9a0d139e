// ScanReader: keeps a window of bytes without stuffed zeros, handles restart markers, and checks the end of a scan.
#include "loader/jpeg/entropy/scan_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

// A window of 8 KB and the tables (2 x 8 KB in most pictures) leave room for the coefficients in an L1 cache of 32 KB.
constexpr size_t kWindowBytes = 8192;
constexpr ptrdiff_t kSafeBytes = kMaxMcuBytes + 32;
// After an error, mcu_ has this number, which is after every MCU, so that the next user must rewind or seek first.
constexpr int64_t kBroken = int64_t{1} << 40;
static_assert(kWindowBytes > 2 * kSafeBytes);

}  // namespace

ScanReader::ScanReader() : window_(kWindowBytes + kBitPadding) {}

void ScanReader::open(const JpegHeader& header, const JpegGeometry& geometry, std::span<const uint8_t> bytes) {
  tables_.block_count = 0;
  for (int i = 0; i < header.component_count; ++i) {
    const auto& component = header.components[i];
    auto& dc_table = dc_tables_[component.dc_table];
    auto& ac_table = ac_tables_[component.ac_table];
    dc_table.build(header.dc[component.dc_table], true);
    ac_table.build(header.ac[component.ac_table], false);
    for (int block = 0; block < component.h * component.v; ++block)
      tables_.blocks[tables_.block_count++] = {&dc_table, &ac_table, i};
  }
  if (tables_.block_count != geometry.mcu_blocks)
    throw bug_error(concat("ScanReader: ", tables_.block_count, " blocks per MCU; expected ", geometry.mcu_blocks,
                           ", as the geometry says"));
  bytes_ = bytes;
  scan_begin_ = header.scan_begin;
  restart_interval_ = header.restart_interval;
  rewind();
}

void ScanReader::rewind() {
  mcu_ = 0;
  dc_ = {};
  start_segment(std::min(scan_begin_, bytes_.size()), bytes_.size());
}

void ScanReader::seek(int64_t mcu, uint64_t bit, uint64_t stop_bit, const DcPredictors& dc) {
  const uint64_t stop = stop_bit / 8 + (stop_bit % 8 != 0);
  mcu_ = mcu;
  dc_ = dc;
  if (bit / 8 < scan_begin_ || bit > stop_bit || stop > bytes_.size())
    fail("is outside of the sample according to its seek index");
  start_segment(bit / 8, stop);
  stop_bits_ = 8 * stop - stop_bit;
  first_bit_ = bit % 8;
  if (first_bit_ > 0) at_ = {window_.data() + 1, uint64_t{window_[0]} << (56 + first_bit_), 8 - first_bit_};
}

void ScanReader::start_segment(size_t begin, size_t stop) {
  next_byte_ = begin;
  stop_ = stop;
  stop_bits_ = first_bit_ = 0;
  has_marker_ = false;
  dropped_ = 0;
  window_end_ = window_.data();
  at_ = {window_.data(), 0, 0};
  fill();
}

/// Moves what is left of the window to its begin, and fills the rest of the window.
void ScanReader::fill() {
  uint8_t* const begin = window_.data();
  // The 8 bytes before `next` are kept, because their bits may still be in the buffer and unread() may go back to them.
  const uint8_t* keep = at_.next - std::min<ptrdiff_t>(8, at_.next - begin);
  const auto drop = keep - begin;
  std::memmove(begin, keep, static_cast<size_t>(window_end_ - keep));
  dropped_ += static_cast<uint64_t>(drop);
  at_.next -= drop;
  uint8_t* out = window_end_ - drop;
  uint8_t* const full = begin + kWindowBytes;
  while (out < full && next_byte_ < stop_ && !has_marker_) {
    const uint8_t* in = bytes_.data() + next_byte_;
    const size_t room = std::min(static_cast<size_t>(full - out), stop_ - next_byte_);
    const auto* marker = static_cast<const uint8_t*>(std::memchr(in, 0xFF, room));
    const size_t count = marker ? static_cast<size_t>(marker - in) : room;
    std::memcpy(out, in, count);
    out += count;
    next_byte_ += count;
    if (!marker) continue;
    has_marker_ = next_byte_ + 1 >= bytes_.size() || bytes_[next_byte_ + 1] != 0;
    if (has_marker_) break;
    *out++ = 0xFF;
    next_byte_ += 2;
  }
  window_end_ = out;
  std::memset(out, 0xFF, kBitPadding);
}

void ScanReader::read(int mcu_count, const McuRun& run) {
  const int block_count = tables_.block_count;
  McuRun left = run;
  while (mcu_count > 0) {
    int count = mcu_count;
    if (restart_interval_ > 0) {
      const auto begun = static_cast<int>(mcu_ % restart_interval_);
      if (begun == 0 && mcu_ > 0) next_segment();
      count = std::min(count, restart_interval_ - begun);
    }
    const uint8_t* safe_end = is_whole() ? window_end_ + kBitPadding : window_end_ - kSafeBytes;
    const int done = decode_mcus(tables_, at_, dc_, count, safe_end, left);
    if (done < 0) fail("cannot be decoded");
    if (done < count) fill();
    mcu_ += done;
    mcu_count -= done;
    if (left.blocks == nullptr) continue;
    left.blocks += ptrdiff_t{done} * block_count * kBlockSize;
    left.rows += ptrdiff_t{done} * block_count;
  }
}

void ScanReader::skip(int64_t mcu_count) {
  constexpr int64_t kMost = 1 << 30;
  for (; mcu_count > 0; mcu_count -= std::min(mcu_count, kMost))
    read(static_cast<int>(std::min(mcu_count, kMost)), {nullptr, nullptr});
}

bool ScanReader::is_whole() const { return has_marker_ || next_byte_ >= stop_; }

int64_t ScanReader::bits_left() const { return 8 * (window_end_ - at_.next) + static_cast<int64_t>(at_.bit_count); }

uint64_t ScanReader::bits_read() const {
  return 8 * (dropped_ + static_cast<uint64_t>(at_.next - window_.data())) - at_.bit_count - first_bit_;
}

bool ScanReader::is_at_stop() {
  if (!is_whole()) fill();
  return is_whole() && !has_marker_ && bits_left() == static_cast<int64_t>(stop_bits_);
}

void ScanReader::check_padding() {
  if (!is_whole()) fill();
  if (!is_whole() || !has_marker_ || bits_left() < 0 || bits_left() > 7)
    fail("is where the coded data should end, but it ends elsewhere");
}

int ScanReader::marker_at(size_t* end) const {
  size_t at = next_byte_;
  while (at < bytes_.size() && bytes_[at] == 0xFF) ++at;
  *end = at + 1;
  return at < bytes_.size() ? bytes_[at] : -1;
}

void ScanReader::next_segment() {
  check_padding();
  size_t begin = 0;
  if (marker_at(&begin) != 0xD0 + static_cast<int>((mcu_ / restart_interval_ - 1) % 8))
    fail("should follow a restart marker, but does not");
  dc_ = {};
  start_segment(begin, bytes_.size());
}

void ScanReader::check_end() {
  check_padding();
  size_t end = 0;
  if (marker_at(&end) != 0xD9) fail("should be followed by the end of the picture, but is not");
}

void ScanReader::fail(const char* fact) {
  throw corrupt_error(concat("JPEG: MCU ", std::exchange(mcu_, kBroken), " ", fact, "; expected a whole picture"));
}

}  // namespace penstock::detail
