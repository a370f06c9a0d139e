// ShardReader: a mapped shard, checked once when it is opened.
#include "loader/shard.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/safetensors.h"
#include "loader/shard_writer.h"

namespace penstock {

struct ShardReader::Map {
  Safetensors file;
  size_t size = 0;
  std::span<const uint64_t> ids;
  std::span<const int64_t> labels;
  std::span<const uint16_t> extents;  // N x 3: height, width, channels
  std::span<const uint8_t> encodings;
  std::span<const uint32_t> checksums;
  std::span<const uint64_t> offsets;  // N + 1, of `bytes`; empty when the pictures are one tensor, `images`
  uint64_t image_bytes = 0;           // of one picture of `images`
  std::span<const uint8_t> bytes;
  uint64_t bytes_offset = 0;  // of `bytes` in the file

  explicit Map(const std::filesystem::path& path);
  std::string where() const { return file.path().string(); }
  std::string where(size_t row) const;
  Sample sample(size_t row) const;

 private:
  template <class Element>
  std::span<const Element> column(const std::string& name, const std::string& dtype, std::vector<uint64_t> shape) const;
  void find_pictures();
  void check_offsets() const;
  void check_row(size_t row) const;
  void check_image(size_t row, const Sample& found) const;
};

ShardReader::Map::Map(const std::filesystem::path& path) : file(path) {
  const auto version = file.metadata().find(kShardVersionKey);
  if (version == file.metadata().end() || version->second != kShardVersion) {
    throw corrupt_error(concat(where(), ": ", kShardVersionKey, " in the header's metadata is ",
                               version == file.metadata().end() ? "missing" : "\"" + version->second + "\"",
                               "; expected a shard of format version ", kShardVersion));
  }
  size = file.get("id", "U64", {Safetensors::kAny}).shape[0];
  ids = column<uint64_t>("id", "U64", {size});
  labels = column<int64_t>("label", "I64", {size});
  extents = column<uint16_t>("extent", "U16", {size, 3});
  encodings = column<uint8_t>("encoding", "U8", {size});
  checksums = column<uint32_t>("crc32c", "U32", {size});
  find_pictures();
  for (size_t row = 0; row < size; ++row) check_row(row);
}

template <class Element>
std::span<const Element> ShardReader::Map::column(const std::string& name, const std::string& dtype,
                                                  std::vector<uint64_t> shape) const {
  const auto& tensor = file.get(name, dtype, shape);
  if (tensor.byte_offset % sizeof(Element) != 0) {
    throw corrupt_error(concat(where(), ": tensor \"", name, "\" begins at byte ", tensor.byte_offset,
                               "; expected a multiple of ", sizeof(Element)));
  }
  return {reinterpret_cast<const Element*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(Element)};
}

void ShardReader::Map::find_pictures() {
  const auto* images = file.find("images");
  if ((images != nullptr) == (file.find("bytes") != nullptr)) {
    throw corrupt_error(concat(where(), ": ", images ? "both" : "neither", " of the tensors \"images\" and \"bytes\"",
                               "; expected one of them"));
  }
  const auto any = Safetensors::kAny;
  const auto& tensor = images ? file.get("images", "U8", {size, any, any, any}) : file.get("bytes", "U8", {any});
  bytes = tensor.bytes;
  bytes_offset = tensor.byte_offset;
  if (images) {
    image_bytes = size == 0 ? 0 : bytes.size() / size;
  } else {
    offsets = column<uint64_t>("offset", "U64", {size + 1});
    check_offsets();
  }
}

void ShardReader::Map::check_offsets() const {
  const auto fall = std::adjacent_find(offsets.begin(), offsets.end(), std::greater<>());
  if (fall != offsets.end()) {
    throw corrupt_error(concat(where(), ": tensor \"offset\" falls from ", fall[0], " to ", fall[1], " at row ",
                               fall - offsets.begin(), "; expected ascending offsets"));
  }
  if (offsets.front() != 0 || offsets.back() != bytes.size()) {
    throw corrupt_error(concat(where(), ": tensor \"offset\" runs from ", offsets.front(), " to ", offsets.back(),
                               "; expected 0 to ", bytes.size(), ", the size of \"bytes\""));
  }
}

/// Whatever a codec or render() will rely on without looking.
void ShardReader::Map::check_row(size_t row) const {
  if (encodings[row] > static_cast<uint8_t>(Encoding::kJpeg)) {
    throw corrupt_error(
        concat(where(row), ": encoding is ", int{encodings[row]}, "; expected 0 (raw), 1 (PNG) or 2 (JPEG)"));
  }
  const Sample found = sample(row);
  const auto [height, width, channels] = found.extent;
  const bool is_picture = height > 0 && width > 0 && (channels == 1 || channels == 3);
  if (!is_picture || int64_t{height} * width > kMaxPixels) {
    throw corrupt_error(concat(where(row), ": extent is ", height, " x ", width, " x ", channels,
                               "; expected 1 or 3 channels and at most ", kMaxPixels, " pixels"));
  }
  if (offsets.empty()) check_image(row, found);
  const auto raw_bytes = static_cast<uint64_t>(height) * width * channels;
  if (found.encoding == Encoding::kRaw && found.bytes.size() != raw_bytes) {
    throw corrupt_error(concat(where(row), ": ", found.bytes.size(), " bytes of pixels; expected ", raw_bytes, " for ",
                               height, " x ", width, " x ", channels));
  }
}

/// A row of `images` has the tensor's own size.
void ShardReader::Map::check_image(size_t row, const Sample& found) const {
  const auto& [height, width, channels] = found.extent;
  const auto& shape = file.find("images")->shape;
  if (found.encoding != Encoding::kRaw || shape[1] != static_cast<uint64_t>(height) ||
      shape[2] != static_cast<uint64_t>(width) || shape[3] != static_cast<uint64_t>(channels)) {
    throw corrupt_error(concat(where(row), ": encoding ", int{encodings[row]}, ", extent ", height, " x ", width, " x ",
                               channels, "; expected raw pictures of ", shape[1], " x ", shape[2], " x ", shape[3],
                               ", as tensor \"images\" has"));
  }
}

Sample ShardReader::Map::sample(size_t row) const {
  const uint64_t begin = offsets.empty() ? row * image_bytes : offsets[row];
  const uint64_t end = offsets.empty() ? begin + image_bytes : offsets[row + 1];
  const uint16_t* extent = &extents[row * 3];
  return {.id = ids[row],
          .label = labels[row],
          .extent = {extent[0], extent[1], extent[2]},
          .encoding = static_cast<Encoding>(encodings[row]),
          .crc32c = checksums[row],
          .bytes = bytes.subspan(begin, end - begin),
          .byte_offset = bytes_offset + begin};
}

std::string ShardReader::Map::where(size_t row) const {
  const Sample found = sample(row);
  return concat(where(), ": sample ", row, " (id ", found.id, ") at byte ", found.byte_offset);
}

ShardReader::ShardReader(const std::filesystem::path& path) : map_(std::make_unique<const Map>(path)) {}
ShardReader::~ShardReader() = default;
ShardReader::ShardReader(ShardReader&&) noexcept = default;
ShardReader& ShardReader::operator=(ShardReader&&) noexcept = default;

size_t ShardReader::size() const { return map_->size; }
Sample ShardReader::at(size_t row) const { return map_->sample(row); }
const std::filesystem::path& ShardReader::path() const { return map_->file.path(); }
std::string ShardReader::where(size_t row) const { return map_->where(row); }

void ShardReader::check_crc(size_t row) const {
  const Sample sample = at(row);
  const uint32_t found = sample_checksum(sample);
  if (found == sample.crc32c) return;
  throw corrupt_error(
      concat(where(row), ": crc32c is ", std::hex, found, ", the shard says ", sample.crc32c, "; pack it again"));
}

}  // namespace penstock
