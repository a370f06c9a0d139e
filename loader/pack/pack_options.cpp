// PackOptions: the ranges of options, the text that the manifest has of them, and outputs that are in the way.
#include "loader/pack/pack_options.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/files/files.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxShards = 99999;  // file names have five digits for them

void check_storage(const StorageOptions& storage) {
  constexpr int kMaxSide = 65535;
  if (storage.resize_short < 0 || storage.resize_short > kMaxSide)
    throw config_error(concat("pack: resize is ", storage.resize_short, "; expected 1 to ", kMaxSide, " pixels"));
  if (storage.quality < 1 || storage.quality > 100)
    throw config_error(concat("pack: quality is ", storage.quality, "; expected 1 to 100"));
  if (!(storage.raw_share >= 0 && storage.raw_share <= 1))
    throw config_error(concat("pack: raw-share is ", storage.raw_share, "; expected 0 to 1"));
  if (storage.max_pixels < 1 || storage.max_pixels > kMaxPixels)
    throw config_error(concat("pack: max-pixels is ", storage.max_pixels, "; expected 1 to ", kMaxPixels));
  if (storage.encode == Encode::kKeep && storage.raw_share > 0) {
    throw config_error(concat("pack: raw-share is ", storage.raw_share,
                              " with encode keep, which leaves files as they are; expected encode auto, coef or jpeg"));
  }
  if (storage.encode == Encode::kKeep && storage.resize_short > 0) {
    throw config_error(concat("pack: resize is ", storage.resize_short,
                              " with encode keep, which leaves files as they are; expected encode auto, jpeg or raw"));
  }
  if (storage.pixels == PixelType::kU8) return;
  const char* const pixels = pixel_type_name(storage.pixels);
  if (storage.encode != Encode::kAuto && storage.encode != Encode::kRaw)
    throw config_error(concat("pack: encode is ", encode_name(storage.encode), " with pixels ", pixels,
                              ", which are stored raw; expected encode auto or raw"));
  if (storage.sixteen_bit != SixteenBit::kRefuse)
    throw config_error(concat("pack: sixteen-bit is ", sixteen_bit_name(storage.sixteen_bit), " with pixels ", pixels,
                              ", which have all bits; expected one of the two"));
}

void check_part(const PackPart& part, int shard_count) {
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
  };
  if (part.has_own_rows()) {
    if (part.index < 0) throw config_error(concat("pack: part is ", part.index, "; expected 0 or more"));
    if (part.attempt.empty() || part.attempt.size() > 100 || !std::ranges::all_of(part.attempt, is_plain))
      throw config_error(concat("pack: attempt is ", in_quotes(part.attempt), "; expected 1 to 100 of a-z 0-9 _ -"));
  } else if (part.count < 1 || part.index < 0 || part.index >= part.count) {
    throw config_error(concat("pack: part is ", part.index, "/", part.count, "; expected 0/N to N-1/N"));
  } else if (part.count > shard_count) {
    throw config_error(concat("pack: part is one of ", part.count, " with shards ", shard_count,
                              "; expected as many shards as parts, or more, since a part is some of the shards"));
  }
}

void check_far_output(const PackOptions& options) {
  const Files& files = files_of(options.output);
  if (!files.takes_uploads())
    throw config_error(concat("pack: out is ", options.output.string(),
                              ", which is only read; expected a local folder, or an address of s3:// or gs://"));
  if (options.part)
    throw config_error(concat("pack: part is ", options.part->index, " with out ", options.output.string(),
                              "; expected parts in a local folder, where they can be merged"));
  const auto folder = options.output / options.split;
  if (!options.force && files.exists(folder / "manifest.json"))
    throw config_error(concat(folder.string(), ": exists already; expected a new address, or --force to replace it"));
}

}  // namespace

namespace detail {

void check_raw_source(const StorageOptions& storage, PixelType pixels, const std::string& name) {
  if (storage.pixels != pixels)
    throw config_error(concat("pack: source ", name, " gives raw pixels of ", pixel_type_name(pixels),
                              "; expected pixels ", pixel_type_name(pixels), ", not ",
                              pixel_type_name(storage.pixels)));
  const bool is_as_it_is = storage.encode != Encode::kCoefficients && storage.encode != Encode::kJpeg &&
                           storage.resize_short == 0 && storage.raw_share == 0;
  if (is_as_it_is) return;
  throw config_error(concat("pack: source ", name, " gives raw pixels, which are stored as they are; expected encode ",
                            "auto, keep or raw, and neither resize nor raw-share"));
}

void check_codebook_is_used(const StorageOptions& storage, const fs::path& file) {
  if (storage.encode != Encode::kKeep && storage.encode != Encode::kRaw && storage.pixels == PixelType::kU8) return;
  throw config_error(concat("pack: codebook is ", file.string(), " with encode ", encode_name(storage.encode),
                            ", which stores no coefficients; expected encode auto, coef or jpeg"));
}

std::string encoding_text(const StorageOptions& storage) {
  std::string text = concat("encode=", encode_name(storage.encode));
  if (storage.resize_short > 0) text += concat(",resize=", storage.resize_short);
  if (storage.resize_short > 0 || storage.encode == Encode::kJpeg) text += concat(",quality=", storage.quality);
  if (storage.raw_share > 0) text += concat(",raw-share=", storage.raw_share);
  if (storage.max_pixels < kMaxPixels) text += concat(",max-pixels=", storage.max_pixels);
  if (storage.sixteen_bit != SixteenBit::kRefuse)
    text += concat(",sixteen-bit=", sixteen_bit_name(storage.sixteen_bit));
  if (storage.pixels != PixelType::kU8) text += concat(",pixels=", pixel_type_name(storage.pixels));
  if (!storage.transcodes) text += ",transcode=off";
  if (!storage.honours_exif) text += ",exif=off";
  return text;
}

}  // namespace detail

void check_pack_options(const PackOptions& options) {
  if (options.split != "train" && options.split != "test" && options.split != "all")
    throw config_error(concat("pack: split is ", in_quotes(options.split), "; expected train, test or all"));
  if (options.shard_count < 1 || options.shard_count > kMaxShards)
    throw config_error(concat("pack: shards is ", options.shard_count, "; expected 1 to ", kMaxShards));
  if (options.jobs < 0)
    throw config_error(concat("pack: jobs is ", options.jobs, "; expected 0 (one per core) or more"));
  check_storage(options.storage);
  if (options.part) check_part(*options.part, options.shard_count);
  if (!options.codebook.empty()) detail::check_codebook_is_used(options.storage, options.codebook);
  if (options.output.empty()) throw config_error("pack: out is \"\"; expected a folder");
  if (!is_local(options.output)) return check_far_output(options);
  const auto folder = options.output / options.split;
  const bool is_there = fs::exists(fs::symlink_status(folder));  // a link to nothing would be in the way as well
  if (!options.force && is_there)
    throw config_error(concat(folder.string(), ": exists already; expected a new folder, or --force to replace it"));
  // Replacing deletes what is there. That must never be somebody's pictures, and the input may be this very folder.
  if (is_there && !fs::is_regular_file(folder / "manifest.json"))
    throw config_error(concat(folder.string(), ": no packed data set (no manifest.json); expected one to replace"));
  if (!is_there) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_part = name == "manifest.json" || name == kSkippedFile ||
                         (name.starts_with("shard-") && name.ends_with(".safetensors"));
    if (!is_part || !entry.is_regular_file())
      throw config_error(concat(entry.path().string(), ": is no part of a packed data set, and replacing ",
                                folder.string(), " would delete it; expected it elsewhere"));
  }
}

}  // namespace penstock
