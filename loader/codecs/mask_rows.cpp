// MaskRows: reads the chunks of a PNG, unpacks its lines and undoes their filters (PNG, third edition, sections 5 and
// 9).
#include "loader/codecs/mask_rows.h"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "core/error.h"
#include "core/text.h"
#include "loader/files/picture_checks.h"

namespace penstock {
namespace {

constexpr size_t kSignatureBytes = 8, kHeadBytes = 8, kCrcBytes = 4;

struct Chunk {
  std::string_view name;
  std::span<const uint8_t> data;
};

uint32_t big_endian(const uint8_t* at) {
  return static_cast<uint32_t>(at[0]) << 24 | static_cast<uint32_t>(at[1]) << 16 | static_cast<uint32_t>(at[2]) << 8 |
         at[3];
}

/// Takes the first chunk off `bytes`. An empty name: there is no whole chunk.
Chunk take_chunk(std::span<const uint8_t>& bytes) {
  if (bytes.size() < kHeadBytes + kCrcBytes) return {};
  const size_t length = big_endian(bytes.data());
  if (length > bytes.size() - kHeadBytes - kCrcBytes) return {};
  const Chunk chunk{{reinterpret_cast<const char*>(bytes.data() + 4), 4}, bytes.subspan(kHeadBytes, length)};
  bytes = bytes.subspan(kHeadBytes + length + kCrcBytes);
  return chunk;
}

/// Whether IHDR says 8 bits, grey or with a palette, and not interlaced.
bool is_plain(const Chunk& header) {
  constexpr size_t kSize = 13;
  if (header.name != "IHDR" || header.data.size() != kSize) return false;
  const uint8_t depth = header.data[8], color = header.data[9], interlace = header.data[12];
  return depth == 8 && (color == 0 || color == 3) && interlace == 0;
}

uint8_t paeth(int left, int up, int upper_left) {
  const int guess = left + up - upper_left;
  const int to_left = std::abs(guess - left), to_up = std::abs(guess - up), to_both = std::abs(guess - upper_left);
  return static_cast<uint8_t>(to_left <= to_up && to_left <= to_both ? left : to_up <= to_both ? up : upper_left);
}

constexpr size_t kBlock = 8, kLongBlock = 32;  // pixels

template <size_t kSize>
bool are_all(uint8_t value, const uint8_t* block) {
  uint64_t differences = 0;
  for (size_t i = 0; i < kSize; i += sizeof(uint64_t)) {
    uint64_t bits = 0;
    std::memcpy(&bits, block + i, sizeof bits);
    differences |= bits ^ (value * 0x0101010101010101U);
  }
  return differences == 0;
}

/// Undoes the filter of a line of one byte per pixel. `up` is the line above, zeros for the first one.
///
/// Lines of masks are nearly all zeros, and then a pixel need not wait for the one before it: with kSub the pixels are
/// equal to the one at the left; with kPaeth, once the one at the left has the value of the one above it, they are
/// those above; with kAverage, where those above are equal to the one at the left, so are they. Pixel by pixel, the
/// filters took four fifths of the time.
class Unfilter {
 public:
  Unfilter(const uint8_t* line, const uint8_t* up, size_t width, uint8_t* to)
      : line_(line), up_(up), width_(width), to_(to) {}

  void undo(uint8_t filter) {
    switch (filter) {
      case 0:
        std::memcpy(to_, line_, width_);
        return;
      case 1:
        return each([this](auto size, size_t i) { return fill<size>(i); },
                    [this](size_t i) { return line_[i] + left_; });
      case 2:
        for (size_t i = 0; i < width_; ++i) to_[i] = static_cast<uint8_t>(line_[i] + up_[i]);
        return;
      case 3:
        return each([this](auto size, size_t i) { return are_all<size>(left_, up_ + i) && fill<size>(i); },
                    [this](size_t i) { return line_[i] + (left_ + up_[i]) / 2; });
      case 4:
        return each([this](auto size, size_t i) { return left_ == upper_left_ && copy<size>(i); },
                    [this](size_t i) { return line_[i] + paeth(left_, up_[i], upper_left_); });
      default:
        throw corrupt_error(concat("PNG: filter ", static_cast<int>(filter), "; expected 0 to 4"));
    }
  }

 private:
  template <size_t kSize>
  using Size = std::integral_constant<size_t, kSize>;

  /// `block` makes as many pixels, whose bytes are 0, or returns false; `pixel` gives one.
  template <class Block, class Pixel>
  void each(const Block& block, const Pixel& pixel) {
    for (size_t i = 0; i < width_;) {
      if (i + kLongBlock <= width_ && are_all<kLongBlock>(0, line_ + i) && block(Size<kLongBlock>(), i)) {
        i += kLongBlock;
        continue;
      }
      if (i + kBlock <= width_ && are_all<kBlock>(0, line_ + i) && block(Size<kBlock>(), i)) {
        i += kBlock;
        continue;
      }
      for (const size_t end = std::min(i + kBlock, width_); i < end; ++i) {
        to_[i] = left_ = static_cast<uint8_t>(pixel(i));
        upper_left_ = up_[i];
      }
    }
  }

  template <size_t kSize>
  bool fill(size_t i) {
    std::memset(to_ + i, left_, kSize);
    upper_left_ = up_[i + kSize - 1];
    return true;
  }
  template <size_t kSize>
  bool copy(size_t i) {
    std::memcpy(to_ + i, up_ + i, kSize);
    left_ = upper_left_ = up_[i + kSize - 1];
    return true;
  }

  const uint8_t *line_, *up_;
  size_t width_;
  uint8_t* to_;
  uint8_t left_ = 0, upper_left_ = 0;
};

/// Never shorter again, because bytes that are new are cleared.
void grow(std::vector<uint8_t>& bytes, size_t size) {
  if (bytes.size() < size) bytes.resize(size);
}

}  // namespace

struct MaskRows::Inflater {
  inflate_state state;
  std::vector<uint8_t> lines;   // each a byte that names its filter, then a byte per pixel
  std::vector<uint8_t> packed;  // of more than one IDAT chunk

  /// Unpacks `line_count` lines of `width` pixels from the IDAT chunks in `chunks`. Their Adler-32 is not looked at, as
  /// the CRCs of chunks are not. All at once, because ISA-L's stream copies what it unpacks once more.
  void unpack(std::span<const uint8_t> chunks, size_t line_count, size_t width) {
    constexpr size_t kZlibHeadBytes = 2;  // before the deflate stream
    const std::span<const uint8_t> stream = joined(chunks);
    const size_t head = std::min(kZlibHeadBytes, stream.size()), byte_count = line_count * (1 + width);
    grow(lines, byte_count);
    isal_inflate_init(&state);
    state.crc_flag = ISAL_DEFLATE;
    state.next_out = lines.data();
    state.avail_out = static_cast<uint32_t>(byte_count);
    // ISA-L's interface is not const; it only reads.
    state.next_in = const_cast<uint8_t*>(stream.data() + head);
    state.avail_in = static_cast<uint32_t>(stream.size() - head);
    const int code = byte_count == 0 ? ISAL_DECOMP_OK : isal_inflate_stateless(&state);
    if (code != ISAL_DECOMP_OK && code != ISAL_END_INPUT && code != ISAL_OUT_OVERFLOW)
      throw corrupt_error(concat("PNG: its lines cannot be unpacked (ISA-L ", code, "); expected a whole mask"));
    if (state.avail_out > 0)
      throw corrupt_error(concat("PNG: ", byte_count - state.avail_out, " bytes of lines; expected ", byte_count));
  }

 private:
  /// The data of all IDAT chunks: where they are if there is one, otherwise copied to `packed`.
  std::span<const uint8_t> joined(std::span<const uint8_t> chunks) {
    std::span<const uint8_t> first;
    size_t count = 0;
    for (Chunk chunk = take_chunk(chunks); !chunk.name.empty() && chunk.name != "IEND"; chunk = take_chunk(chunks)) {
      if (chunk.name != "IDAT") continue;
      if (++count == 1) {
        first = chunk.data;
        continue;
      }
      if (count == 2) packed.assign(first.begin(), first.end());
      packed.insert(packed.end(), chunk.data.begin(), chunk.data.end());
    }
    return count < 2 ? first : packed;
  }
};

MaskRows::MaskRows() : inflater_(std::make_unique<Inflater>()) {}
MaskRows::~MaskRows() = default;
MaskRows::MaskRows(MaskRows&&) noexcept = default;
MaskRows& MaskRows::operator=(MaskRows&&) noexcept = default;

MaskView MaskRows::decode(std::span<const uint8_t> png, int height, int width, const Region& needed) {
  std::span<const uint8_t> rest = png.subspan(std::min(png.size(), kSignatureBytes));
  const Chunk header = take_chunk(rest);
  const bool has_size = is_plain(header) && big_endian(header.data.data()) == static_cast<uint32_t>(width) &&
                        big_endian(header.data.data() + 4) == static_cast<uint32_t>(height);
  if (!has_size) {  // another kind of PNG, or one with something to say
    others_ = decode_mask(png, height, width);
    return {others_.bits, others_.bytes, others_.words, others_.longs};
  }
  detail::check_pixels(height, width);
  const auto columns = static_cast<size_t>(width);
  const auto rows = static_cast<size_t>(std::clamp(needed.y + needed.height, 0, height));
  // A pixel depends on those at the left and above alone.
  const auto needed_columns = static_cast<size_t>(std::clamp(needed.x + needed.width, 0, width));
  inflater_->unpack(rest, rows, columns);
  const size_t pixel_count = static_cast<size_t>(height) * columns;
  grow(pixels_, pixel_count);
  const std::vector<uint8_t> above_first(columns);
  const uint8_t* up = above_first.data();
  for (size_t row = 0; row < rows; ++row) {
    const uint8_t* const line = inflater_->lines.data() + row * (1 + columns);
    uint8_t* const to = pixels_.data() + row * columns;
    Unfilter(line + 1, up, needed_columns, to).undo(line[0]);
    up = to;
  }
  return {.bits = 8, .bytes = {pixels_.data(), pixel_count}};
}

}  // namespace penstock
