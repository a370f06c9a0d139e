// Manifest: manifest.json, read without trust and written for people to read.
#include "loader/shards/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/atomic_file.h"
#include "core/bytes.h"
#include "core/error.h"
#include "core/json_text.h"
#include "core/number_text.h"
#include "core/strict_json.h"
#include "core/text.h"
#include "loader/files/sample.h"
#include "loader/shards/manifest_fields.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr const char* kFileName = "manifest.json";
constexpr uint64_t kMostShardBytes = uint64_t{1} << 62;  // sums with what is kept beside a shard cannot wrap
constexpr uint64_t kMostManifestBytes = 100'000'000;     // 400,000 shards; parsed it takes five times as much
constexpr int kMaxManifestDepth = 5;                     // manifest, fields, field, pairs, pair

/// Typed access to one object of the manifest, with errors that name file and key.
class Fields {
 public:
  Fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object_.is_object())
      throw corrupt_error(concat(where_, ": is ", shortened(object_.dump()), "; expected a JSON object"));
  }

  const json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end())
      throw corrupt_error(concat(where_, ": no key ", in_quotes(key), "; docs/FORMAT.md lists them"));
    return *found;
  }

  Error unexpected(const char* key, const std::string& expected) const {
    return corrupt_error(concat(where_, ": ", key, " is ", shortened(at(key).dump()), "; expected ", expected));
  }

  bool has(const char* key) const { return object_.contains(key); }

  std::string text(const char* key) const {
    if (!at(key).is_string()) throw unexpected(key, "a text");
    return at(key).get<std::string>();
  }

  uint64_t count(const char* key) const {
    if (!at(key).is_number_unsigned()) throw unexpected(key, "a whole number from 0");
    return at(key).get<uint64_t>();
  }

  template <class Element>
  std::vector<Element> list(const char* key, bool (json::*is_element)() const noexcept, const char* expected) const {
    const auto& values = at(key);
    if (!values.is_array() ||
        !std::all_of(values.begin(), values.end(), [&](const json& v) { return (v.*is_element)(); }))
      throw unexpected(key, expected);
    return values.get<std::vector<Element>>();
  }

 private:
  const json& object_;
  std::string where_;
};

uint64_t sum(const std::vector<uint64_t>& counts) {
  uint64_t total = 0;
  for (const uint64_t count : counts)
    if (__builtin_add_overflow(total, count, &total)) return ~uint64_t{0};
  return total;
}

PixelType read_pixels(const Fields& fields) {
  if (!fields.has("pixels")) return PixelType::kU8;
  for (const PixelType type : {PixelType::kU8, PixelType::kU16, PixelType::kF32})
    if (fields.text("pixels") == pixel_type_name(type)) return type;
  throw fields.unexpected("pixels", "u8, u16 or f32");
}

/// Copies the per-channel numbers of `key`, which are of level / white_level(): 0 to 1, unless they are of f32.
void read_statistic(const Fields& fields, const char* key, int channels, bool is_float, PerChannel<double>& out) {
  const auto values = fields.list<double>(key, &json::is_number, "a list of numbers");
  if (values.size() != static_cast<size_t>(channels)) throw fields.unexpected(key, concat(channels, " numbers"));
  if (!is_float && std::any_of(values.begin(), values.end(), [](double value) { return !(value >= 0 && value <= 1); }))
    throw fields.unexpected(key, "numbers from 0 to 1");
  std::copy(values.begin(), values.end(), out.begin());
}

std::optional<Extent> read_extent(const Fields& fields, int channels) {
  if (fields.at("extent").is_null()) return {};
  const auto sides = fields.list<int64_t>("extent", &json::is_number_unsigned, "null or [height, width, channels]");
  const bool is_extent = sides.size() == 3 && std::all_of(sides.begin(), sides.end(),
                                                          [](int64_t side) { return side >= 1 && side <= 65535; });
  if (!is_extent || sides[2] != channels) throw fields.unexpected("extent", "null or [height, width, channels]");
  return Extent{static_cast<int>(sides[0]), static_cast<int>(sides[1]), static_cast<int>(sides[2])};
}

Manifest::Shard read_shard(const json& entry, const std::string& where) {
  const Fields fields(entry, where);
  Manifest::Shard shard{
      fields.text("file"), fields.count("sample_count"), fields.count("byte_count"), fields.text("xxh3"), {}};
  if (shard.byte_count > kMostShardBytes) throw fields.unexpected("byte_count", concat("at most ", kMostShardBytes));
  if (fields.has("first_id")) shard.first_id = fields.count("first_id");
  const bool is_plain_name = !shard.file.empty() && shard.file != "." && shard.file != ".." &&
                             shard.file.find('/') == std::string::npos && shard.file.find('\0') == std::string::npos;
  if (!is_plain_name) throw fields.unexpected("file", "the name of a file inside the split's folder");
  const auto is_hex = [](const std::string& sum, size_t digits) {
    return sum.size() == digits && sum.find_first_not_of("0123456789abcdef") == std::string::npos;
  };
  if (!is_hex(shard.xxh3, 32)) throw fields.unexpected("xxh3", "32 hex digits");
  if (fields.has("sha256")) shard.sha256 = fields.text("sha256");
  if (fields.has("sha256") && !is_hex(shard.sha256, 64)) throw fields.unexpected("sha256", "64 hex digits");
  return shard;
}

/// Checks that counts which say the same thing agree.
void check_counts(const Manifest& manifest, const Fields& fields) {
  std::vector<std::string_view> files;
  std::vector<uint64_t> shard_counts;
  for (const auto& shard : manifest.shards) {
    shard_counts.push_back(shard.sample_count);
    files.push_back(shard.file);
  }
  std::sort(files.begin(), files.end());
  const auto twice = std::adjacent_find(files.begin(), files.end());
  if (twice != files.end()) throw fields.unexpected("shards", concat("each file once, not ", *twice, " twice"));
  if (manifest.class_counts.size() != manifest.class_names.size())
    throw fields.unexpected("class_counts", concat(manifest.class_names.size(), " numbers, as many as class_names"));
  if (!manifest.class_names.empty() && sum(manifest.class_counts) != manifest.sample_count)
    throw fields.unexpected("class_counts", concat("numbers that add up to sample_count, ", manifest.sample_count));
  if (sum(shard_counts) != manifest.sample_count)
    throw fields.unexpected("sample_count", concat(sum(shard_counts), ", the sum over the shards"));
}

}  // namespace

bool Manifest::has_label(int64_t label) const {
  if (class_names.empty()) return label == -1;
  return label >= 0 && static_cast<uint64_t>(label) < class_names.size();
}

std::string Manifest::class_name(int64_t label) const {
  return label < 0 ? "" : class_names.at(static_cast<size_t>(label));
}

std::string Manifest::label_range() const {
  return class_names.empty() ? "-1, as there are no classes" : concat("0 to ", class_names.size() - 1);
}

Manifest read_manifest(const std::filesystem::path& split_folder) {
  const auto path = split_folder / kFileName;
  const auto file = files_of(path).open(path);
  if (file->size() > kMostManifestBytes)
    throw corrupt_error(concat(path.string(), ": ", file->size(), " bytes; expected at most ", kMostManifestBytes));
  const auto bytes = file->contents();
  const std::string_view text = as_text(bytes);
  const json object = detail::parse_strict_json(text, path.string(), kMaxManifestDepth);
  const Fields fields(object, path.string());
  if (fields.count("format_version") != Manifest::kFormatVersion)
    throw fields.unexpected("format_version",
                            concat(Manifest::kFormatVersion, "; pack the data again with this build"));

  Manifest manifest;
  manifest.split = fields.text("split");
  if (manifest.split != "train" && manifest.split != "test" && manifest.split != "all")
    throw fields.unexpected("split", "train, test or all");
  manifest.source = fields.text("source");
  if (!fields.at("shuffle_seed").is_null()) {
    manifest.shuffle_seed = static_cast<int64_t>(fields.count("shuffle_seed"));
    if (manifest.shuffle_seed < 0) throw fields.unexpected("shuffle_seed", concat("null, or 0 to ", INT64_MAX));
  }
  manifest.sample_count = fields.count("sample_count");
  manifest.skipped_count = fields.count("skipped_count");
  manifest.storage = fields.text("storage");
  manifest.transcoded_count = fields.count("transcoded_count");
  if (fields.has("warned_count")) manifest.warned_count = fields.count("warned_count");
  manifest.class_names = fields.list<std::string>("class_names", &json::is_string, "a list of texts");
  manifest.class_counts =
      fields.list<uint64_t>("class_counts", &json::is_number_unsigned, "a list of whole numbers from 0");
  if (fields.has("fields")) manifest.fields = detail::fields_of_json(fields.at("fields"), path.string());
  const uint64_t channels = fields.count("channels");
  if (channels < 1 || channels > kMaxChannels) throw fields.unexpected("channels", concat("1 to ", kMaxChannels));
  manifest.channels = manifest.statistics.channels = static_cast<int>(channels);
  manifest.pixels = manifest.statistics.pixels = read_pixels(fields);
  const bool is_float = manifest.pixels == PixelType::kF32;
  manifest.extent = read_extent(fields, manifest.channels);
  read_statistic(fields, "mean", manifest.channels, is_float, manifest.statistics.mean);
  read_statistic(fields, "deviation", manifest.channels, is_float, manifest.statistics.deviation);
  const auto& shards = fields.at("shards");
  if (!shards.is_array()) throw fields.unexpected("shards", "a list");
  for (size_t i = 0; i < shards.size(); ++i)
    manifest.shards.push_back(read_shard(shards[i], concat(path.string(), ": shards[", i, "]")));
  check_counts(manifest, fields);
  return manifest;
}

void write_manifest(const std::filesystem::path& split_folder, const Manifest& manifest) {
  const auto channel_list = [&](const PerChannel<double>& values) {
    return std::vector<double>(values.begin(), values.begin() + manifest.channels);
  };
  nlohmann::ordered_json object{{"format_version", Manifest::kFormatVersion},
                                {"split", manifest.split},
                                {"source", manifest.source},
                                {"shuffle_seed", nullptr},
                                {"sample_count", manifest.sample_count},
                                {"skipped_count", manifest.skipped_count},
                                {"storage", manifest.storage},
                                {"transcoded_count", manifest.transcoded_count}};
  if (manifest.warned_count > 0) object["warned_count"] = manifest.warned_count;
  object.update({{"class_names", manifest.class_names}, {"class_counts", manifest.class_counts}});
  if (!manifest.fields.empty()) object["fields"] = detail::json_of_fields(manifest.fields);
  if (manifest.pixels != PixelType::kU8) object["pixels"] = pixel_type_name(manifest.pixels);
  object.update({{"channels", manifest.channels},
                 {"extent", nullptr},
                 {"mean", channel_list(manifest.statistics.mean)},
                 {"deviation", channel_list(manifest.statistics.deviation)},
                 {"shards", nlohmann::ordered_json::array()}});
  if (manifest.shuffle_seed >= 0) object["shuffle_seed"] = manifest.shuffle_seed;
  if (const auto& extent = manifest.extent) object["extent"] = {extent->height, extent->width, extent->channels};
  for (const auto& shard : manifest.shards) {
    auto& entry = object["shards"].emplace_back(nlohmann::ordered_json{{"file", shard.file},
                                                                       {"sample_count", shard.sample_count},
                                                                       {"byte_count", shard.byte_count},
                                                                       {"xxh3", shard.xxh3}});
    if (!shard.sha256.empty()) entry["sha256"] = shard.sha256;
    if (shard.first_id) entry["first_id"] = *shard.first_id;
  }
  write_text(split_folder / kFileName, json_text(object, 2) + "\n");
}

std::string identity_of(const Manifest& manifest) {
  uint32_t sum = 0;
  const auto add = [&sum](const std::string& text) {  // with the final 0, so that "a", "bc" differs from "ab", "c"
    sum = crc32c({reinterpret_cast<const uint8_t*>(text.c_str()), text.size() + 1}, sum);
  };
  for (const auto& name : manifest.class_names) add(name);
  for (const auto& shard : manifest.shards) add(shard.xxh3);
  return concat(manifest.sample_count, " samples with checksum ", printed("%08x", sum));
}

}  // namespace penstock
