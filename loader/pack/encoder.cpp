// Encoder: gives pixels where they are wanted, otherwise a JPEG, baseline if possible, in the best form that gives it
// back.
#include "loader/pack/encoder.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "core/error.h"
#include "core/parallel.h"
#include "core/rng.h"
#include "core/text.h"
#include "loader/codecs/png_levels.h"
#include "loader/codecs/png_metadata.h"
#include "loader/codecs/png_writer.h"
#include "loader/jpeg/base/geometry.h"
#include "loader/jpeg/base/header.h"
#include "loader/jpeg/entropy/huffman.h"
#include "loader/jpeg/entropy/mend_end.h"
#include "loader/jpeg/entropy/rebuild.h"
#include "loader/jpeg/entropy/seek_index.h"
#include "loader/jpeg/entropy/transcode.h"
#include "loader/jpeg/entropy/write_jpeg.h"
#include "loader/jpeg/store/codebook.h"
#include "loader/jpeg/store/codebook_training.h"
#include "loader/jpeg/store/coefficient_sample.h"
#include "loader/jpeg/store/sample_range.h"
#include "loader/jpeg/store/store_source.h"
#include "loader/jpeg/store/store_writer.h"

namespace penstock::detail {
namespace {

constexpr uint64_t kTrainingPictures = 256;
constexpr size_t kTrainingBlocks = 400000;             // takes 0.8 s of one core
constexpr int kMaxJpegSide = 65500;                    // pixels; libjpeg's limit
constexpr uint64_t kRawShareKey = 0x7261772d73686172;  // key of the hash that chooses the pictures

Extent oriented(const Extent& stored, int orientation) {
  return orientation < 5 ? stored : Extent{stored.width, stored.height, stored.channels};
}

/// The EXIF orientation where it is to be honoured, otherwise 1.
uint8_t orientation_of(const Encoded& picture, bool honours_exif) {
  return honours_exif ? codec_for(picture.encoding).orientation(picture.bytes) : uint8_t{1};
}

/// All pixels, valid until `scratch` is used again.
Picture whole_picture(const Encoded& picture, DecodeScratch& scratch) {
  const Sample sample{.extent = picture.extent, .encoding = picture.encoding, .bytes = picture.bytes};
  const DecodeRequest whole{.region = {0, 0, picture.extent.width, picture.extent.height},
                            .channels = picture.extent.channels};
  return codec_for(picture.encoding).decode(sample, whole, scratch);
}

/// The decoded picture turned upright and resized to `target`: H x W x C of its own type, which `layout` has.
std::vector<uint8_t> upright_pixels(const Picture& picture, int orientation, const Extent& target,
                                    Layout layout = Layout::kU8Nhwc) {
  Plan plan = Plan::upright(orientation, picture.height, picture.width);
  if (plan.output_height != target.height || plan.output_width != target.width) {
    const auto scale = [](int from, int to) { return static_cast<double>(from) / to; };
    plan.resample(Affine::scaling(scale(plan.output_width, target.width), scale(plan.output_height, target.height)),
                  target.height, target.width);
    plan.filter = Filter::kAntialias;
  }
  std::vector<uint8_t> pixels(rendered_bytes(layout, target));
  render(picture, plan, {}, layout, pixels.data());
  return pixels;
}

/// `upright` with its short side reduced to `resize_short`, the other in proportion, rounded to nearest.
Extent reduced(const Extent& upright, int resize_short) {
  const int short_side = std::min(upright.height, upright.width);
  if (resize_short == 0 || short_side <= resize_short) return upright;
  const auto side = [&](int length) {
    return length == short_side
               ? resize_short
               : static_cast<int>(std::lround(static_cast<double>(length) * resize_short / short_side));
  };
  return {side(upright.height), side(upright.width), upright.channels};
}

}  // namespace

std::string stored_path(const std::string& path, const Encoded& encoded) {
  if (path.empty() || !encoded.is_other_kind) return path;
  const std::string& extension = file_extension(encoded.encoding, encoded.extent.channels);
  return path.ends_with(extension) ? path : path + extension;
}

Encoder::Encoder(const StorageOptions& options, std::shared_ptr<const Codebook> codebook, ErrorKind deep_error)
    : options_(options),
      deep_error_(deep_error),
      codebook_(std::move(codebook)),
      writer_(codebook_ ? std::make_unique<const StoreWriter>(*codebook_) : nullptr) {}

Encoder::~Encoder() = default;

Encoded Encoder::encode(uint64_t id, SourceSample&& source, DecodeScratch& scratch) const {
  if (source.encoding != Encoding::kJpeg) return stored(id, std::move(source), scratch);
  const JpegHeader header = parse_jpeg_header(source.bytes);
  const bool is_warned = header.has_warning;
  const Extent extent = source.extent;
  SourceSample mended{
      .bytes = options_.transcodes ? mended_end(source.bytes, header.scan_begin) : std::vector<uint8_t>(),
      .encoding = source.encoding,
      .extent = extent};
  Encoded picture;
  if (mended.bytes.empty()) {
    picture = stored(id, std::move(source), scratch);
  } else {
    try {
      picture = checked_jpeg(id, std::move(source), scratch);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorrupt) throw;
      try {
        picture = checked_jpeg(id, std::move(mended), scratch);
      } catch (const Error&) {
        throw error;  // the pixels are not whole either
      }
      picture.is_transcoded = !is_raw(picture.encoding) && options_.encode != Encode::kJpeg && picture.extent == extent;
    }
  }
  picture.is_warned = is_warned;
  return picture;
}

/// Decodes what stays a file as well, because CMYK is stored without a look at its scan.
Encoded Encoder::checked_jpeg(uint64_t id, SourceSample&& source, DecodeScratch& scratch) const {
  Encoded picture = stored(id, std::move(source), scratch);
  if (picture.encoding == Encoding::kJpeg) whole_picture(picture, scratch);
  return picture;
}

Encoded Encoder::stored(uint64_t id, SourceSample&& source, DecodeScratch& scratch) const {
  Encoded picture = prepare(id, std::move(source), scratch);
  if (picture.encoding == Encoding::kJpeg) store(picture);
  return picture;
}

Encoded Encoder::prepare(uint64_t id, SourceSample&& source, DecodeScratch& scratch) const {
  const auto& [height, width, channels] = source.extent;
  if (int64_t{height} * width > options_.max_pixels) {
    throw corrupt_error(concat("picture of ", height, " x ", width, " pixels; expected at most ", options_.max_pixels,
                               " (max-pixels)"));
  }
  Encoded picture{std::move(source.bytes), source.encoding, source.extent};
  picture.is_other_kind = source.is_converted;
  picture.turned_by = source.turned_by;
  if (is_raw(picture.encoding)) return checked_raw(std::move(picture));
  picture.orientation = picture.turned_by = orientation_of(picture, options_.honours_exif);
  if (options_.pixels != PixelType::kU8) return with_all_bits(std::move(picture), scratch);
  const bool was_deep = picture.encoding == Encoding::kPng && is_deep_png(picture.bytes);
  if (was_deep) flatten(picture, scratch);
  const bool to_raw = becomes_raw(id);
  const Extent upright = oriented(picture.extent, picture.orientation);
  const bool is_reshaped = reduced(upright, options_.resize_short) != upright || options_.encode == Encode::kJpeg;
  if (was_deep && options_.sixteen_bit == SixteenBit::kKeep && (to_raw || is_reshaped))
    throw config_error(concat("picture of 16 bits per channel with sixteen-bit keep, which would become ",
                              to_raw ? "raw pixels" : "a JPEG",
                              " of 8; expected --pixels u16, which keeps all bits, or --sixteen-bit drop"));
  if (to_raw || is_reshaped)
    reshape(to_raw, picture, scratch);
  else if (picture.encoding == Encoding::kJpeg)
    transcode(picture);
  return picture;
}

/// Raw pixels are stored as they are. A file of another type counts as broken, so that it can be left out.
Encoded Encoder::checked_raw(Encoded&& picture) const {
  const PixelType found = pixels_of(picture.encoding);
  if (found == options_.pixels) return std::move(picture);
  throw Error(picture.is_other_kind ? ErrorKind::kCorrupt : ErrorKind::kConfig,
              concat("picture of ", pixels_text(found, picture.extent.channels), "; expected ",
                     pixel_type_name(options_.pixels), ", or pixels ", pixel_type_name(found)));
}

/// A file as raw pixels of u16, upright and reduced.
Encoded Encoder::with_all_bits(Encoded&& picture, DecodeScratch& scratch) const {
  if (options_.pixels != PixelType::kU16)
    throw corrupt_error(concat("picture of ", codec_traits(picture.encoding).name,
                               ", which has no f32; expected pixels ", "u8 or u16, or a TIFF or an array of f32"));
  std::vector<uint8_t> widened;
  Picture decoded;
  if (is_deep_png(picture.bytes)) {
    decoded = decode_deep_png(picture.bytes, scratch);
  } else {
    decoded = whole_picture(picture, scratch);
    const int level_count = decoded.width * decoded.channels;
    for (int row = 0; row < decoded.height; ++row)
      for (int i = 0; i < level_count; ++i)  // 257 v: both bytes are v
        widened.insert(widened.end(), 2, decoded.pixels[row * decoded.row_stride + i]);
    decoded.pixels = widened.data();
    decoded.row_stride = ptrdiff_t{level_count} * 2;
    decoded.type = PixelType::kU16;
  }
  const Extent target = reduced(oriented(picture.extent, picture.orientation), options_.resize_short);
  return {.bytes = upright_pixels(decoded, picture.orientation, target, Layout::kU16Nhwc),
          .encoding = Encoding::kRawU16,
          .extent = target,
          .turned_by = picture.orientation,
          .is_other_kind = true};
}

bool Encoder::becomes_raw(uint64_t id) const {
  if (options_.encode == Encode::kRaw) return true;
  return options_.raw_share > 0 && Rng(kRawShareKey, 0, id, 0).uniform() < options_.raw_share;
}

/// What becomes of a PNG of 16 bits.
void Encoder::flatten(Encoded& picture, DecodeScratch& scratch) const {
  if (options_.sixteen_bit == SixteenBit::kKeep) return;
  if (options_.sixteen_bit == SixteenBit::kRefuse) {
    throw Error(
        deep_error_,
        "picture of 16 bits per channel; expected 8, or shardprep pack --sixteen-bit drop (stores the high bytes) or "
        "keep (stores all bits, of which batches have the high bytes), or --pixels u16 (stores u16, which batches "
        "have)");
  }
  const auto decoded = whole_picture(picture, scratch);
  const auto exif = read_png_metadata(picture.bytes).exif;
  picture.bytes =
      write_png({decoded.pixels, static_cast<size_t>(decoded.row_stride) * decoded.height}, picture.extent, 8, exif);
}

/// Decodes, turns upright, reduces, and compresses again unless pixels are wanted.
void Encoder::reshape(bool to_raw, Encoded& picture, DecodeScratch& scratch) const {
  const Picture decoded = whole_picture(picture, scratch);
  const Extent target = reduced(oriented(picture.extent, picture.orientation), options_.resize_short);
  if (!to_raw && std::max(target.height, target.width) > kMaxJpegSide) {
    throw corrupt_error(concat("picture of ", target.height, " x ", target.width,
                               " pixels, which is to become a JPEG; expected sides of at most ", kMaxJpegSide));
  }
  std::vector<uint8_t> pixels = upright_pixels(decoded, picture.orientation, target);
  if (to_raw) {
    picture = {.bytes = std::move(pixels),
               .encoding = Encoding::kRaw,
               .extent = target,
               .turned_by = picture.orientation,
               .is_other_kind = true};
  } else {
    const Picture upright{
        pixels.data(), ptrdiff_t{target.width} * target.channels, target.height, target.width, target.channels, 0, 0};
    const bool is_other_kind = picture.is_other_kind || picture.encoding != Encoding::kJpeg;
    picture = {.bytes = write_jpeg(upright, options_.quality),
               .encoding = Encoding::kJpeg,
               .extent = target,
               .turned_by = picture.orientation,
               .is_other_kind = is_other_kind};
  }
}

/// Turns a JPEG that is not one sequential scan into one. Restart markers stay, because the coefficient store gives
/// them back; store() removes them from a picture that gets a seek index instead.
void Encoder::transcode(Encoded& picture) const {
  if (!options_.transcodes || parse_jpeg_header(picture.bytes).is_one_scan) return;
  become_baseline(picture);
}

/// Returns false and changes nothing where no baseline JPEG can hold the coefficients.
bool Encoder::become_baseline(Encoded& picture) const {
  auto baseline = transcode_to_baseline(picture.bytes);
  if (baseline.empty()) return false;
  picture.bytes = std::move(baseline);
  picture.is_transcoded = true;
  return true;
}

/// A picture that libjpeg alone decodes, or whose samples are out of range, stays a file without a seek index, which
/// every DecodePath gives to libjpeg.
void Encoder::store(Encoded& picture) const {
  const JpegHeader header = parse_jpeg_header(picture.bytes);
  if (!header.is_decodable()) return;  // CMYK, or not transcoded
  if (options_.encode != Encode::kKeep && codebook_ && store_coefficients(header, picture)) return;
  if (header.restart_interval > 0) {
    // Only once, because the transcoded file has no restart markers.
    if (options_.transcodes && become_baseline(picture)) store(picture);
    return;
  }
  const JpegGeometry geometry(header);
  if (has_samples_in_range(header, geometry, picture.bytes))
    picture.seek_index = build_seek_index(header, geometry, picture.bytes);
}

/// Stores the coefficients, reads them back, and rebuilds the file from them. Returns false and changes nothing when
/// that gives another file and Encode::kAuto demands the same bytes, or when the picture has samples out of range.
bool Encoder::store_coefficients(const JpegHeader& header, Encoded& picture) const {
  constexpr uint8_t kEndOfImage[] = {0xFF, 0xD9};
  const JpegGeometry geometry(header);
  HuffmanSource coefficients(header, geometry, picture.bytes);
  RangeWatch watch(header, geometry, coefficients);
  const auto store = writer_->write(geometry, watch);
  if (!watch.is_in_range()) return false;
  const std::span<const uint8_t> file = picture.bytes;
  StoreSource stored(store, geometry, *codebook_);
  const auto scan = encode_scan(header, geometry, stored);
  const auto coded = file.subspan(header.scan_begin);
  const bool is_exact = coded.size() >= scan.size() && std::equal(scan.begin(), scan.end(), coded.begin());
  if (!is_exact && options_.encode == Encode::kAuto) return false;
  const CoefficientSample sample{file.first(header.scan_begin),
                                 is_exact ? coded.subspan(scan.size()) : std::span<const uint8_t>(kEndOfImage), store};
  picture.bytes = sample.bytes();
  picture.encoding = Encoding::kCoefficients;
  picture.is_transcoded |= !is_exact;
  return true;
}

std::shared_ptr<const Codebook> codebook_for(const Source& source, const StorageOptions& options, int jobs) {
  if (options.encode == Encode::kKeep || options.encode == Encode::kRaw || options.pixels != PixelType::kU8 ||
      source.raw_extent())
    return nullptr;
  const Encoder encoder(options, nullptr);
  const uint64_t count = std::min(source.size(), kTrainingPictures);
  std::vector<TrainingSample> samples(count);
  run_parallel(count, jobs, [&](size_t i, const std::atomic<bool>&) {
    const uint64_t id = i * source.size() / count;
    try {
      DecodeScratch scratch;
      const Encoded picture = encoder.prepare(id, source.read(id), scratch);
      if (picture.encoding != Encoding::kJpeg) return;
      const JpegHeader header = parse_jpeg_header(picture.bytes);
      if (!header.is_decodable()) return;
      const JpegGeometry geometry(header);
      HuffmanSource coefficients(header, geometry, picture.bytes);
      samples[i] = sample_blocks(geometry, coefficients, kTrainingBlocks / count);
    } catch (const Error&) {
      // Packing will report this picture, or skip it.
    } catch (const std::bad_alloc&) {
      // Packing will name this picture.
    }
  });
  TrainingSample all;
  for (const auto& sample : samples) all.append(sample);
  const bool is_empty = std::all_of(all.blocks.begin(), all.blocks.end(), [](const auto& b) { return b.size() == 0; });
  if (is_empty) return nullptr;
  return std::make_shared<const Codebook>(train_codebook(all, jobs));
}

}  // namespace penstock::detail
