// Codec: which codec a sample needs, and what codecs say about themselves.
#include "loader/codecs/codec.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iomanip>
#include <sstream>
#include <utility>

#include "core/bytes.h"
#include "core/error.h"
#include "core/registry.h"
#include "core/text.h"
#include "loader/codecs/jpeg_scratch.h"

namespace penstock {

DecodeScratch::DecodeScratch() = default;
DecodeScratch::~DecodeScratch() = default;
DecodeScratch::DecodeScratch(DecodeScratch&&) noexcept = default;
DecodeScratch& DecodeScratch::operator=(DecodeScratch&&) noexcept = default;

detail::JpegScratch& DecodeScratch::jpeg() {
  if (!jpeg_) jpeg_ = std::make_unique<detail::JpegScratch>();
  return *jpeg_;
}

namespace {

struct Entry {
  CodecTraits traits;
  const Codec* codec;
};

/// One entry per value of Encoding; null: it has no codec. The array is there before any codec registers itself, and as
/// long as the program runs, whose last threads may still decode.
constinit std::array<const Entry*, 256> entries{};

/// All known encodings: "0 (raw), 1 (PNG), 2 (JPEG)".
std::string known_encodings() {
  std::vector<std::string> known;
  for (size_t i = 0; i < entries.size(); ++i)
    if (entries[i]) known.push_back(concat(i, " (", entries[i]->traits.name, ")"));
  return join(known);
}

const Entry& entry_of(Encoding encoding) {
  const auto& entry = entries[static_cast<uint8_t>(encoding)];
  if (entry) return *entry;
  throw corrupt_error(concat("encoding is ", static_cast<int>(encoding), "; expected one of ", known_encodings()));
}

std::string hex(std::span<const uint8_t> bytes) {
  std::ostringstream text;
  text << std::hex << std::setfill('0');
  for (const uint8_t byte : bytes) text << std::setw(2) << int{byte};
  return text.str();
}

}  // namespace

RegisteredCodec::RegisteredCodec(Encoding encoding, CodecTraits traits, const Codec& codec) {
  auto& entry = entries[static_cast<uint8_t>(encoding)];
  const bool is_new = entry == nullptr;
  const std::string whose = is_new ? "" : concat(" is that of ", entry->traits.name);
  detail::on_registered("codec", concat(traits.name, " (encoding ", static_cast<int>(encoding), whose, ")"), is_new);
  if (is_new) entry = new Entry{std::move(traits), &codec};
}

const Codec& codec_for(Encoding encoding) { return *entry_of(encoding).codec; }
const CodecTraits& codec_traits(Encoding encoding) { return entry_of(encoding).traits; }

const std::string& file_extension(Encoding encoding, int channels) {
  static const std::string array = ".npy";
  const bool is_array = is_raw(encoding) && is_raster(pixels_of(encoding), channels);
  return is_array ? array : codec_traits(encoding).extensions.front();
}

namespace {

/// The name of a format that nothing here reads, so that a message can say it; "" for any other bytes.
std::string_view unread_format(std::span<const uint8_t> bytes) {
  struct Known {
    size_t at;
    std::string_view bytes, name;
  };
  static constexpr std::array kKnown{Known{4, "ftyphei", "HEIC"},
                                     Known{4, "ftyphev", "HEIC"},
                                     Known{4, "ftypmif1", "HEIC"},
                                     Known{4, "ftypmsf1", "HEIC"},
                                     Known{4, "ftypavi", "AVIF"},
                                     Known{4, "JXL \r\n", "JPEG XL"},
                                     Known{0, "\xff\x0a", "JPEG XL"},
                                     Known{4, "jP  \r\n", "JPEG 2000"},
                                     Known{0, "\xff\x4f\xff\x51", "JPEG 2000"},
                                     Known{0, "8BPS", "PSD"},
                                     Known{0, "%PDF", "PDF"},
                                     Known{0, "v/1\x01", "OpenEXR"},
                                     Known{0, "SIMPLE  =", "FITS"},
                                     Known{0, "qoif", "QOI"}};
  const std::string_view text = as_text(bytes);
  for (const auto& [at, signature, name] : kKnown)
    if (text.size() > at && text.substr(at).starts_with(signature)) return name;
  return {};
}

}  // namespace

Encoding detect_encoding(std::span<const uint8_t> bytes) {
  std::vector<std::string> known;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i] || entries[i]->traits.signature.empty()) continue;
    const auto& [name, extensions, signature, is_scalable, is_lossless] = entries[i]->traits;
    const bool is_it =
        bytes.size() >= signature.size() && std::equal(signature.begin(), signature.end(), bytes.begin());
    if (is_it) return static_cast<Encoding>(i);
    known.push_back(concat("a ", name, " (", hex(signature), ")"));
  }
  if (const auto format = unread_format(bytes); !format.empty())
    throw corrupt_error(concat("is ", format, ", which is not read; expected a JPEG or a PNG: convert it first"));
  throw corrupt_error(concat(bytes.size(), " bytes that begin with ",
                             in_quotes(hex(bytes.first(std::min<size_t>(bytes.size(), 8)))), "; expected ",
                             join(known, " or ")));
}

bool has_picture_extension(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return c < 128 ? std::tolower(c) : c; });
  return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) {
    if (!entry) return false;
    const auto& extensions = entry->traits.extensions;
    return std::find(extensions.begin(), extensions.end(), ending) != extensions.end();
  });
}

}  // namespace penstock
