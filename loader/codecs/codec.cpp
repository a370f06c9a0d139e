// Which codec a sample needs.
#include "loader/codecs/codec.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>

#include "loader/detail/codecs.h"
#include "loader/jpeg/jpeg_scratch.h"

namespace penstock {

DecodeScratch::DecodeScratch() = default;
DecodeScratch::~DecodeScratch() = default;
DecodeScratch::DecodeScratch(DecodeScratch&&) noexcept = default;
DecodeScratch& DecodeScratch::operator=(DecodeScratch&&) noexcept = default;

detail::JpegScratch& DecodeScratch::jpeg() {
  if (!jpeg_) jpeg_ = std::make_unique<detail::JpegScratch>();
  return *jpeg_;
}

const Codec& codec_for(Encoding encoding) {
  switch (encoding) {
    case Encoding::kRaw:
      return detail::raw_codec();
    case Encoding::kPng:
      return detail::png_codec();
    case Encoding::kJpeg:
      return detail::jpeg_codec();
    case Encoding::kCoefficients:
      return detail::coefficient_codec();
  }
  throw corrupt_error(
      concat("encoding is ", static_cast<int>(encoding), "; expected 0 (raw), 1 (PNG), 2 (JPEG) or 3 (coefficients)"));
}

Encoding detect_encoding(std::span<const uint8_t> bytes) {
  constexpr std::array<uint8_t, 8> kPng{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  constexpr std::array<uint8_t, 3> kJpeg{0xFF, 0xD8, 0xFF};
  const auto begins_with = [&](std::span<const uint8_t> signature) {
    return bytes.size() >= signature.size() && std::equal(signature.begin(), signature.end(), bytes.begin());
  };
  if (begins_with(kPng)) return Encoding::kPng;
  if (begins_with(kJpeg)) return Encoding::kJpeg;
  std::ostringstream first;
  first << std::hex << std::setfill('0');
  for (const uint8_t byte : bytes.first(std::min<size_t>(bytes.size(), 8))) first << std::setw(2) << int{byte};
  throw corrupt_error(concat(bytes.size(), " bytes that begin with \"", first.str(),
                             "\"; expected a PNG (89504e470d0a1a0a) or a JPEG (ffd8ff)"));
}

}  // namespace penstock
