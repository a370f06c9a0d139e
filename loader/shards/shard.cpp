// ShardReader: a mapped shard, checked once when it is opened.
#include "loader/shards/shard.h"

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/files/map_guard.h"
#include "loader/files/read_from.h"
#include "loader/files/safetensors.h"
#include "loader/jpeg/store/codebook.h"
#include "loader/shards/field_table.h"

namespace penstock {

namespace detail {

/// Byte strings of any length: row i is bytes[offsets[i] .. offsets[i + 1]). Without offsets, every row is empty.
struct Ragged {
  std::span<const uint64_t> offsets;
  std::span<const uint8_t> bytes;
  std::span<const uint8_t> at(size_t row) const {
    if (offsets.empty()) return {};
    const uint64_t begin = offsets[row], end = offsets[row + 1];
    if (begin > end || end > bytes.size()) return {};  // zeros in place of a page; Map::check_columns() reports it
    return bytes.subspan(begin, end - begin);
  }
  std::span<const uint64_t> column(size_t row) const { return offsets.empty() ? offsets : offsets.subspan(row, 2); }
};

}  // namespace detail

struct ShardReader::Map {
  Safetensors file;
  size_t size = 0;
  std::span<const uint64_t> ids;
  std::span<const int64_t> labels;
  std::span<const uint16_t> extents;  // N x 3: height, width, channels
  std::span<const uint8_t> encodings;
  std::span<const uint32_t> checksums;
  std::span<const uint8_t> orientations;  // one entry per sample; empty: all are 1
  detail::Ragged pictures;                // without offsets: the pictures are one tensor, `images`
  uint64_t image_bytes = 0;               // bytes of one picture of `images`
  uint64_t bytes_offset = 0;              // where the pictures begin in the file
  detail::Ragged indexes, paths;
  std::unique_ptr<const detail::Codebook> codebook;
  detail::FieldTable fields;

  Map(Safetensors opened, const std::vector<FieldType>& types);
  std::string where() const { return file.path().string(); }
  std::string where(size_t row) const;
  Sample sample(size_t row) const;

  using Check = void (Safetensors::*)(std::span<const uint8_t> used, const std::string& where) const;
  void check_columns(size_t row, Check check) const;
  void check_sample(size_t row, Check check) const;

 private:
  void parse(const std::vector<FieldType>& types);
  template <class Element>
  std::span<const Element> column(const std::string& name, const std::string& dtype, std::vector<uint64_t> shape) const;
  void find_pictures();
  void find_extras();
  detail::Ragged ragged(const std::string& name, const std::string& offset_name) const;
  void check_row(size_t row) const;
  void check_image(size_t row, const Sample& found) const;
};

ShardReader::Map::Map(Safetensors opened, const std::vector<FieldType>& types) : file(std::move(opened)) {
  const FileHold hold = file.hold();
  read_from(file, [&] { parse(types); });
}

void ShardReader::Map::parse(const std::vector<FieldType>& types) {
  const auto version = file.metadata().find(kShardVersionKey);
  if (version == file.metadata().end() || version->second != kShardVersion) {
    throw corrupt_error(concat(where(), ": ", kShardVersionKey, " in the header's metadata is ",
                               version == file.metadata().end() ? "missing" : in_quotes(version->second),
                               "; expected a shard of format version ", kShardVersion));
  }
  size = file.get("id", "U64", {Safetensors::kAny}).shape[0];
  ids = column<uint64_t>("id", "U64", {size});
  labels = column<int64_t>("label", "I64", {size});
  extents = column<uint16_t>("extent", "U16", {size, 3});
  encodings = column<uint8_t>("encoding", "U8", {size});
  checksums = column<uint32_t>("crc32c", "U32", {size});
  find_pictures();
  find_extras();
  fields = detail::FieldTable(file, types, size);
  for (size_t row = 0; row < size; ++row) check_row(row);
}

template <class Element>
std::span<const Element> ShardReader::Map::column(const std::string& name, const std::string& dtype,
                                                  std::vector<uint64_t> shape) const {
  const auto& tensor = file.get(name, dtype, shape);
  if (tensor.byte_offset % sizeof(Element) != 0) {
    throw corrupt_error(concat(where(), ": tensor ", in_quotes(name), " begins at byte ", tensor.byte_offset,
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
  const bool is_known = images && (images->dtype == "U16" || images->dtype == "F32");
  const auto& tensor = images ? file.get("images", is_known ? images->dtype : "U8", {size, any, any, any})
                              : file.get("bytes", "U8", {any});
  bytes_offset = tensor.byte_offset;
  if (images) {
    pictures.bytes = tensor.bytes;
    image_bytes = size == 0 ? 0 : tensor.bytes.size() / size;
  } else {
    pictures = ragged("bytes", "offset");
  }
}

/// Finds the tensors that not every shard has.
void ShardReader::Map::find_extras() {
  if (file.find("orientation")) orientations = column<uint8_t>("orientation", "U8", {size});
  if (file.find("index")) indexes = ragged("index", "index_offset");
  if (file.find("path")) paths = ragged("path", "path_offset");
  if (!file.find("codebook")) return;
  try {
    codebook = std::make_unique<const detail::Codebook>(
        detail::Codebook::parse(file.get("codebook", "U8", {Safetensors::kAny}).bytes));
  } catch (const Error& error) {
    throw Error(error.kind(), concat(where(), ": tensor \"codebook\": ", error.what()));
  }
}

detail::Ragged ShardReader::Map::ragged(const std::string& name, const std::string& offset_name) const {
  const detail::Ragged found{column<uint64_t>(offset_name, "U64", {size + 1}),
                             file.get(name, "U8", {Safetensors::kAny}).bytes};
  const auto& offsets = found.offsets;
  const auto fall = std::adjacent_find(offsets.begin(), offsets.end(), std::greater<>());
  if (fall != offsets.end()) {
    throw corrupt_error(concat(where(), ": tensor ", in_quotes(offset_name), " falls from ", fall[0], " to ", fall[1],
                               " at row ", fall - offsets.begin(), "; expected ascending offsets"));
  }
  if (offsets.front() != 0 || offsets.back() != found.bytes.size()) {
    throw corrupt_error(concat(where(), ": tensor ", in_quotes(offset_name), " runs from ", offsets.front(), " to ",
                               offsets.back(), "; expected 0 to ", found.bytes.size(), ", the size of ",
                               in_quotes(name)));
  }
  return found;
}

/// Checks what codecs and render() rely on without looking.
void ShardReader::Map::check_row(size_t row) const {
  const Sample found = sample(row);
  try {
    codec_for(found.encoding);
  } catch (const Error& error) {
    throw Error(error.kind(), concat(where(row), ": ", error.what()));
  }
  const auto [height, width, channels] = found.extent;
  const bool has_any_channels = is_raw(found.encoding) && channels >= 1 && channels <= kMaxChannels;
  const bool is_picture = height > 0 && width > 0 && (channels == 1 || channels == 3 || has_any_channels);
  if (!is_picture || int64_t{height} * width > kMaxPixels) {
    throw corrupt_error(concat(where(row), ": extent is ", height, " x ", width, " x ", channels, "; expected ",
                               is_raw(found.encoding) ? concat("1 to ", kMaxChannels) : "1 or 3",
                               " channels and at most ", kMaxPixels, " pixels"));
  }
  if (pictures.offsets.empty()) check_image(row, found);
  const auto raw_bytes = static_cast<uint64_t>(height) * width * channels * level_bytes(pixels_of(found.encoding));
  if (is_raw(found.encoding) && found.bytes.size() != raw_bytes) {
    throw corrupt_error(concat(where(row), ": ", found.bytes.size(), " bytes of pixels; expected ", raw_bytes, " for ",
                               height, " x ", width, " x ", channels));
  }
  if (found.orientation < 1 || found.orientation > 8)
    throw corrupt_error(concat(where(row), ": orientation is ", int{found.orientation}, "; expected 1 to 8"));
  if (found.encoding == Encoding::kCoefficients && !codebook)
    throw corrupt_error(concat(where(row), ": encoding is 3 (coefficients); expected the tensor \"codebook\" with it"));
}

/// Checks a row of `images`, which must have the size that the tensor states.
void ShardReader::Map::check_image(size_t row, const Sample& found) const {
  const auto& [height, width, channels] = found.extent;
  const auto& dtype = file.find("images")->dtype;
  const auto& shape = file.find("images")->shape;
  if (!is_raw(found.encoding) || dtype_name(dtype_of(pixels_of(found.encoding))) != dtype ||
      shape[1] != static_cast<uint64_t>(height) || shape[2] != static_cast<uint64_t>(width) ||
      shape[3] != static_cast<uint64_t>(channels)) {
    throw corrupt_error(concat(where(row), ": encoding ", int{encodings[row]}, ", extent ", height, " x ", width, " x ",
                               channels, "; expected raw pictures of ", shape[1], " x ", shape[2], " x ", shape[3],
                               ", ", dtype, ", as tensor \"images\" has"));
  }
}

Sample ShardReader::Map::sample(size_t row) const {
  const bool is_image = pictures.offsets.empty();
  const auto bytes = is_image ? pictures.bytes.subspan(row * image_bytes, image_bytes) : pictures.at(row);
  const uint16_t* extent = &extents[row * 3];
  const auto path = paths.at(row);
  return {.id = ids[row],
          .label = labels[row],
          .extent = {extent[0], extent[1], extent[2]},
          .encoding = static_cast<Encoding>(encodings[row]),
          .crc32c = checksums[row],
          .bytes = bytes,
          .byte_offset = bytes_offset + (is_image ? row * image_bytes : pictures.offsets[row]),
          .orientation = orientations.empty() ? uint8_t{1} : orientations[row],
          .seek_index = indexes.at(row),
          .path = as_text(path),
          .codebook = codebook.get()};
}

/// Checks those parts of the columns that sample() reads for a row.
void ShardReader::Map::check_columns(size_t row, Check check) const {
  const auto check_part = [&](const auto& column) {
    (file.*check)({reinterpret_cast<const uint8_t*>(column.data()), column.size_bytes()},
                  concat(where(), ": sample ", row));
  };
  check_part(ids.subspan(row, 1));
  check_part(labels.subspan(row, 1));
  check_part(extents.subspan(row * 3, 3));
  check_part(encodings.subspan(row, 1));
  check_part(checksums.subspan(row, 1));
  if (!orientations.empty()) check_part(orientations.subspan(row, 1));
  for (const detail::Ragged* part : {&pictures, &indexes, &paths}) check_part(part->column(row));
}

void ShardReader::Map::check_sample(size_t row, Check check) const {
  check_columns(row, check);
  (file.*check)(sample(row).bytes, where(row));
  for (const detail::Ragged* part : {&indexes, &paths}) (file.*check)(part->at(row), where(row));
  fields.for_each_part(row, [&](std::span<const uint8_t> part) { (file.*check)(part, where(row)); });
}

std::string ShardReader::Map::where(size_t row) const {
  const Sample found = sample(row);
  return concat(where(), ": sample ", row, " (id ", found.id, ") at byte ", found.byte_offset);
}

ShardReader::ShardReader(const std::filesystem::path& path, const std::vector<FieldType>& fields)
    : map_(std::make_unique<const Map>(Safetensors(path), fields)) {}
ShardReader::ShardReader(const std::filesystem::path& path, const std::vector<FieldType>& fields,
                         const FileFacts& facts)
    : map_(std::make_unique<const Map>(Safetensors(path, facts), fields)) {}
ShardReader::ShardReader(std::unique_ptr<const FileMap> map, const std::vector<FieldType>& fields)
    : map_(std::make_unique<const Map>(Safetensors(std::move(map)), fields)) {}
ShardReader::~ShardReader() = default;
ShardReader::ShardReader(ShardReader&&) noexcept = default;
ShardReader& ShardReader::operator=(ShardReader&&) noexcept = default;

size_t ShardReader::size() const { return map_->size; }
uint64_t ShardReader::byte_count() const { return map_->file.byte_count(); }

FileHold ShardReader::hold() const { return map_->file.hold(); }
bool ShardReader::needs_hold() const { return map_->file.needs_hold(); }

Sample ShardReader::at(size_t row) const {
  FileHold held = hold();
  Sample sample = map_->sample(row);
  sample.hold = std::move(held);
  if (detail::has_map_faults()) map_->check_columns(row, &Safetensors::check_read);
  return sample;
}

FieldBytes ShardReader::field(size_t row, size_t number) const {
  const FileHold held = hold();
  const FieldBytes bytes = map_->fields.at(row, number);
  if (detail::has_map_faults()) map_->check_columns(row, &Safetensors::check_read);
  return bytes;
}

uint64_t ShardReader::most_entries(size_t number) const {
  const FileHold held = hold();
  uint64_t most = 0;
  read_from(map_->file, [&] { most = map_->fields.most_entries(number); });
  return most;
}

void ShardReader::check_field_crc(size_t row, size_t number) const {
  const FileHold held = hold();
  const FieldBytes bytes = field(row, number);
  const uint32_t found = detail::field_checksum(map_->ids[row], bytes), stored = map_->fields.checksum(row, number);
  if (found == stored) return map_->file.check_read(bytes, where(row));
  map_->file.check_file(bytes, where(row));
  throw corrupt_error(concat(where(row), ": field ", in_quotes(map_->fields.name(number)), ": crc32c is ", std::hex,
                             found, ", the shard says ", stored, "; pack it again"));
}

void ShardReader::check_read(size_t row) const {
  if (!detail::has_map_faults()) return;
  const FileHold held = hold();
  map_->check_sample(row, &Safetensors::check_read);
}
void ShardReader::check_file(size_t row) const {
  const FileHold held = hold();
  map_->check_sample(row, &Safetensors::check_file);
}
void ShardReader::check_file() const { map_->file.check_file(); }
void ShardReader::read_ahead() const { map_->file.read_ahead(); }
void ShardReader::drop() const { map_->file.drop(); }

const std::filesystem::path& ShardReader::path() const { return map_->file.path(); }
std::string ShardReader::where(size_t row) const {
  const FileHold held = hold();
  return map_->where(row);
}

void ShardReader::check_crc(size_t row) const {
  const Sample sample = at(row);
  const uint32_t found = sample_checksum(sample);
  if (found == sample.crc32c) return check_read(row);
  check_file(row);
  throw corrupt_error(
      concat(where(row), ": crc32c is ", std::hex, found, ", the shard says ", sample.crc32c, "; pack it again"));
}

}  // namespace penstock
