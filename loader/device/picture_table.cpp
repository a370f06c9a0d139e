// DevicePictures: reads headers, and collects the tables that pictures share.
#include "loader/device/picture_table.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/files/picture_checks.h"
#include "loader/jpeg/store/codebook.h"
#include "loader/jpeg/store/coefficient_sample.h"
#include "loader/jpeg/store/store_source.h"

namespace penstock {

namespace detail {
namespace {

DeviceCodebook device_codebook(const Codebook& codebook) {
  const CodebookTables& tables = codebook.tables();
  DeviceCodebook device;
  static_assert(sizeof device.widths == sizeof tables.widths && sizeof device.order == sizeof tables.order);
  std::memcpy(device.widths, &tables.widths, sizeof device.widths);
  std::memcpy(device.order, &tables.order, sizeof device.order);
  for (int entry = 0; entry < CodebookTables::kCount; ++entry)
    device.mask_bits[entry] = static_cast<uint8_t>(tables.heads[entry].mask_bits());
  return device;
}

/// The number of an equal element of `all`, to which it is appended if there is none.
template <class T>
uint32_t number_of(const T& wanted, std::vector<T>& all) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const T& one) { return std::memcmp(&one, &wanted, sizeof one) == 0; });
  const auto number = static_cast<uint32_t>(found - all.begin());
  if (found == all.end()) all.push_back(wanted);
  return number;
}

/// Throws corrupt_error where the pixels are not as many as the sample's size says.
StoredPicture raw_picture(const Sample& sample) {
  const auto& [height, width, channels] = sample.extent;
  check_pixels(height, width);
  if (const size_t expected = static_cast<size_t>(height) * static_cast<size_t>(width) * static_cast<size_t>(channels);
      sample.bytes.size() != expected)
    throw corrupt_error(concat(sample.bytes.size(), " bytes of raw pixels; expected ", expected, " for ", height, " x ",
                               width, " x ", channels));
  return {.height = static_cast<uint16_t>(height),
          .width = static_cast<uint16_t>(width),
          .channels = static_cast<uint8_t>(channels),
          .orientation = sample.orientation,
          .is_raw = true};
}

}  // namespace

JpegGeometry StoredPicture::geometry() const {
  JpegHeader header;
  header.height = height, header.width = width, header.component_count = channels;
  for (int i = 0; i < channels; ++i) header.components[i].h = h[i], header.components[i].v = v[i];
  return JpegGeometry(header);
}

}  // namespace detail

DevicePictures::DevicePictures() : state_(std::make_unique<State>()) {}
DevicePictures::~DevicePictures() = default;

DevicePictures::Added DevicePictures::add(const Sample& sample) {
  if (const PixelType type = pixels_of(sample.encoding); is_raster(type, sample.extent.channels))
    throw config_error(concat("has ", pixels_text(type, sample.extent.channels),
                              "; expected 1 or 3 channels of u8 for pictures that stay on the device"));
  if (sample.encoding == Encoding::kRaw) return state_->append(detail::raw_picture(sample), sample.bytes);
  if (sample.encoding != Encoding::kCoefficients || sample.codebook == nullptr)
    throw config_error(concat("is stored as ", codec_traits(sample.encoding).name,
                              "; expected raw pixels or JPEG coefficients, as shardprep pack --encode raw and --encode "
                              "coef store them"));
  const auto parts = detail::CoefficientSample::parse(sample.bytes);
  return state_->append(state_->of_coefficients(sample, parts.store, parts.jpeg_header()), parts.store);
}

detail::StoredPicture DevicePictures::State::of_coefficients(const Sample& sample, std::span<const uint8_t> store,
                                                             const detail::JpegHeader& header) {
  const Extent extent = detail::jpeg_extent(header);
  detail::check_pixels(extent.height, extent.width);
  detail::check_extent(extent, sample.extent);
  const detail::StoreSource checked(store, detail::JpegGeometry(header), *sample.codebook);  // its tables fit

  const auto known = codebook_numbers.find(sample.codebook);
  detail::StoredPicture picture{
      .height = static_cast<uint16_t>(header.height),
      .width = static_cast<uint16_t>(header.width),
      .channels = static_cast<uint8_t>(header.component_count),
      .orientation = sample.orientation,
      .is_ycc = header.color != detail::JpegColor::kRgb,
      .codebook = known != codebook_numbers.end()
                      ? known->second
                      : detail::number_of(detail::device_codebook(*sample.codebook), codebooks)};
  codebook_numbers.emplace(sample.codebook, picture.codebook);
  for (int i = 0; i < header.component_count; ++i) {
    const detail::JpegComponent& component = header.components[i];
    picture.h[i] = static_cast<uint8_t>(component.h), picture.v[i] = static_cast<uint8_t>(component.v);
    const auto& factors = header.quant[component.quant_table];
    const auto [at, is_new] = quant_numbers.emplace(factors, static_cast<uint32_t>(quant_tables.size()));
    picture.quant[i] = at->second;
    if (!is_new) continue;
    auto& table = quant_tables.emplace_back();
    std::transform(factors.begin(), factors.end(), table.factors, [](uint16_t f) { return static_cast<int16_t>(f); });
  }
  return picture;
}

DevicePictures::Added DevicePictures::State::append(detail::StoredPicture picture, std::span<const uint8_t> store) {
  picture.store = byte_count, picture.store_bytes = store.size();
  pictures.push_back(picture);
  byte_count += detail::stored_bytes(picture.store_bytes);
  return {pictures.size() - 1, store, picture.store};
}

size_t DevicePictures::size() const { return state_->pictures.size(); }
uint64_t DevicePictures::byte_count() const { return state_->byte_count; }
uint64_t DevicePictures::byte_count_of(uint64_t sample_bytes) { return detail::stored_bytes(sample_bytes); }

Plan DevicePictures::whole(size_t number) const {
  const auto& picture = state_->pictures[number];
  return Plan::upright(picture.orientation, picture.height, picture.width);
}

std::span<const std::byte> DevicePictures::codebooks() const { return std::as_bytes(std::span(state_->codebooks)); }
std::span<const std::byte> DevicePictures::quant_tables() const {
  return std::as_bytes(std::span(state_->quant_tables));
}

}  // namespace penstock
