// Picture files: found, read, and made into samples.
#include "loader/sources/picture_files.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "core/bytes.h"
#include "core/choice.h"
#include "core/error.h"
#include "core/number_text.h"
#include "core/regular_file.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/codecs/field_picture.h"
#include "loader/codecs/npy.h"
#include "loader/files/checksum.h"
#include "loader/files/input_file.h"
#include "loader/files/orientation.h"
#include "loader/import/mask_png.h"
#include "loader/import/picture_formats.h"
#include "loader/import/upright.h"

namespace penstock::detail {
namespace {

namespace fs = std::filesystem;

/// The largest file that is read. A PNG takes up to 8 bytes per pixel (four channels of 16 bits, not compressed) and
/// may have up to kMaxPixels of them; a ninth byte per pixel is for metadata. That is 2.4 GB.
constexpr uint64_t kMaxPictureBytes = 9 * uint64_t{kMaxPixels};

/// Runs `body` on the file's bytes, and puts the file's name before what it throws.
template <class Body>
auto with_file(const fs::path& path, const Body& body) {
  auto bytes = read_file(path, kMaxPictureBytes);
  try {
    return body(std::move(bytes));
  } catch (const Error& error) {
    throw Error(error.kind(), concat(path.string(), ": ", error.what()));
  }
}

}  // namespace

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_picture(const fs::path& path) {
  if (is_picture_name(path)) return true;
  std::array<char, 16> first{};
  std::ifstream file(path, std::ios::binary);
  file.read(first.data(), first.size());
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(first.data()),
                                       static_cast<size_t>(file.gcount()));
  try {
    detect_encoding(bytes.first(std::min<size_t>(bytes.size(), 8)));
    return true;
  } catch (const Error&) {
    const auto* format = foreign_format_of(bytes);
    return format != nullptr && format->is_certain;
  }
}

namespace {

class Below {
 public:
  Below(const fs::path& root, IgnoredFiles& ignored) : root_(root), ignored_(ignored) {}

  std::vector<fs::path> pictures(const fs::path& folder) {
    visit(folder, fs::canonical(folder));
    std::sort(found_.begin(), found_.end(),
              [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
    return std::move(found_);
  }

 private:
  /// `place`: the folder without links.
  void visit(const fs::path& folder, const fs::path& place) {
    if (std::find(open_.begin(), open_.end(), place) != open_.end())
      throw io_error(concat(folder.string(), ": leads by a link to ", place.string(),
                            ", in which it lies; expected links to other folders"));
    open_.push_back(place);
    for (const auto& entry : fs::directory_iterator(folder)) {
      const fs::path& path = entry.path();
      if (path.filename().native()[0] == '.')
        ignore(path);
      else if (is_file(path))
        is_picture(path) ? found_.push_back(path) : ignore(path);
      else if (is_picture_name(path))
        throw io_error(concat(path.string(), ": no regular file; expected a picture, as its name says"));
      else if (is_folder(path))
        visit(path, entry.is_symlink() ? fs::canonical(path) : place / path.filename());
      else
        ignore(path);
    }
    open_.pop_back();
  }

  /// False also for a link that leads nowhere, or to itself.
  static bool is_folder(const fs::path& path) {
    std::error_code ignored;
    return fs::is_directory(path, ignored);
  }

  void ignore(const fs::path& path) { ignored_.add(path.lexically_relative(root_).string()); }

  const fs::path& root_;
  IgnoredFiles& ignored_;
  std::vector<fs::path> found_;
  std::vector<fs::path> open_;  // the folders that visit() is in
};

}  // namespace

std::vector<fs::path> pictures_below(const fs::path& folder, const fs::path& root, IgnoredFiles& ignored) {
  return Below(root, ignored).pictures(folder);
}

SourceSample read_picture(const fs::path& path) {
  return with_file(path, [](std::vector<uint8_t> bytes) { return picture_sample(std::move(bytes)); });
}

namespace {

/// What a field of kind picture holds: PNGs and JPEGs as they are, foreign formats as PNGs or arrays.
FieldValue second_picture_value(std::vector<uint8_t> bytes) {
  auto sample = picture_sample(std::move(bytes));
  if (!is_raw(sample.encoding)) return sample.bytes;  // a TIFF that no PNG holds becomes an array
  return codec_for(sample.encoding).file({.extent = sample.extent, .encoding = sample.encoding, .bytes = sample.bytes});
}

}  // namespace

FieldValue mask_value(std::vector<uint8_t> bytes) { return grey_mask_png(std::move(bytes)); }

FieldValue read_mask(const fs::path& path) {
  return with_file(path, [](std::vector<uint8_t> bytes) { return mask_value(std::move(bytes)); });
}

FieldValue read_second_picture(const fs::path& path) {
  return with_file(path, [](std::vector<uint8_t> bytes) {
    FieldValue value = second_picture_value(std::move(bytes));
    if (!is_npy(value) && detect_encoding(value) != Encoding::kPng)
      throw corrupt_error(concat("is a ", codec_traits(detect_encoding(value)).name,
                                 "; expected a PNG, WebP, TIFF, GIF, BMP or PNM for a field of kind picture"));
    return value;
  });
}

FieldValue field_file_value(const FieldType& type, FieldValue bytes) {
  if (foreign_format_of(bytes) == nullptr) return bytes;
  try {
    if (type.kind == FieldKind::kMask) return mask_value(std::move(bytes));
    if (type.kind == FieldKind::kPicture) return second_picture_value(std::move(bytes));
  } catch (const Error& error) {
    throw Error(error.kind(), concat("field ", in_quotes(type.name), ": ", error.what()));
  }
  return bytes;
}

namespace {

/// Pixels that no PNG holds, upright.
SourceSample raw_sample(ForeignPicture&& picture) {
  const PixelType type = picture.type();
  SourceSample sample{.bytes = std::move(picture.pixels),
                      .encoding = raw_encoding(type),
                      .extent = picture.extent,
                      .is_converted = true};
  sample.turned_by = stored_orientation(picture.exif, {});
  if (sample.turned_by == 1) return sample;
  auto& [height, width, channels] = sample.extent;
  const Picture lying{.pixels = sample.bytes.data(),
                      .row_stride = static_cast<ptrdiff_t>(level_bytes(type)) * width * channels,
                      .height = height,
                      .width = width,
                      .channels = channels,
                      .type = type};
  sample.bytes = upright_pixels(lying, sample.turned_by);
  if (sample.turned_by > 4) std::swap(height, width);
  return sample;
}

/// An array of NumPy, H x W x C.
SourceSample array_sample(std::span<const uint8_t> bytes) {
  DecodeScratch scratch;
  const Picture picture = decode_field_picture(bytes, scratch);
  const size_t size = static_cast<size_t>(picture.row_stride) * static_cast<size_t>(picture.height);
  return {.bytes = {picture.pixels, picture.pixels + size},
          .encoding = raw_encoding(picture.type),
          .extent = {picture.height, picture.width, picture.channels}};
}

}  // namespace

void Fingerprint::add(const fs::path& file) { add_text(file_fingerprint(file)); }

void Fingerprint::add_text(const std::string& added) {
  const std::string text = hash_ + added;
  hash_ = xxh3_hex(as_bytes(text));
}

std::optional<std::string> plain_path(const std::string& text) {
  const fs::path path(text);
  if (path.empty() || path.is_absolute() || !path.has_filename() || text.find('\0') != std::string::npos) return {};
  if (std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".." || part.empty(); }))
    return {};
  const fs::path plain = path.lexically_normal();
  return plain.has_filename() && plain != "." ? std::optional(plain.string()) : std::nullopt;
}

}  // namespace penstock::detail

namespace penstock {

void IgnoredFiles::add(const std::string& name) {
  if (++count <= kMostNamed) first.push_back(name);
}

std::string IgnoredFiles::text() const {
  if (count == 0) return "";
  const std::string more =
      count > first.size() && !first.empty() ? concat(" and ", grouped(count - first.size()), " more") : "";
  return concat(count_text(count, "file"), " ignored (no pictures, or outside of class folders)",
                first.empty() ? "" : ": ", one_line(join(first)), more);
}

SourceSample picture_sample(std::vector<uint8_t> bytes) {
  if (detail::is_npy(bytes)) return detail::array_sample(bytes);
  const auto* format = detail::foreign_format_of(bytes);
  const bool is_converted = format != nullptr;
  if (is_converted) {
    auto picture = format->decode(bytes, kMaxPixels);
    if (!picture.fits_png()) return detail::raw_sample(std::move(picture));
    bytes = detail::to_png(picture);
  }
  const Encoding encoding = detect_encoding(bytes);
  const Extent extent = codec_for(encoding).probe(bytes);
  return {.bytes = std::move(bytes), .encoding = encoding, .extent = extent, .is_converted = is_converted};
}

AnnotatedOn annotated_on(const std::string& where, const std::string& text) {
  if (text.empty()) return AnnotatedOn::kUnknown;
  return choice<AnnotatedOn>(where + ": annotations", text,
                             {{"raw", AnnotatedOn::kRaw}, {"upright", AnnotatedOn::kUpright}});
}

void check_picture_format(std::span<const uint8_t> bytes) {
  if (!detail::is_npy(bytes) && detail::foreign_format_of(bytes) == nullptr) detect_encoding(bytes);
}

}  // namespace penstock
