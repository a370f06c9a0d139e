// Training data: names, the cache of packed sources, and pipelines.
#include "train/data.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>

#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/pack.h"
#include "loader/sources/source.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int kCacheShards = 16;  // rank-local shuffling needs a shard or more for each rank

/// Held from construction to destruction, by one process of the machine.
class FileLock {
 public:
  explicit FileLock(const fs::path& path) : descriptor_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) throw errno_error(path.string(), "expected a cache folder that can be written (see --cache)");
    int result = 0;
    do result = flock(descriptor_, LOCK_EX);
    while (result != 0 && errno == EINTR);
    if (result != 0) throw errno_error(path.string(), "expected a file system with locks (see --cache)");
  }
  ~FileLock() { close(descriptor_); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_;
};

/// FNV-1a, 64 bits: a name of a folder, nothing that must resist anybody.
std::string hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : text) hash = (hash ^ static_cast<uint8_t>(letter)) * 0x100000001b3;
  char hex[17];
  std::snprintf(hex, sizeof(hex), "%016llx", static_cast<unsigned long long>(hash));
  return hex;
}

bool is_source(const std::string& name) { return SourceRegistry::entries().contains(name); }

/// The folder of the split that is evaluated on, or nothing with the reason in `note`.
fs::path test_folder(const DataName& name, const fs::path& train_folder, const TrainOptions& options, std::string& note,
                     const std::function<void(const std::string&)>& say) {
  if (name.source.empty()) {
    const fs::path folder = train_folder.parent_path() / "test";
    if (fs::exists(folder / "manifest.json")) return folder;
    note = concat("no test split at ", folder.string(), ", so nothing is evaluated");
    return {};
  }
  try {
    return pack_into_cache(name, "test", options.cache, say);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCorrupt) throw;
    note = concat("no test split (", error.what(), "), so nothing is evaluated");
    return {};
  }
}

}  // namespace

DataName parse_data_name(const std::string& text) {
  const auto colon = text.find(':');
  const auto parenthesis = text.find('(');
  if (parenthesis != std::string::npos && (colon == std::string::npos || parenthesis < colon)) {
    const auto end = text.find("):");
    const std::string spec = end == std::string::npos ? text : text.substr(0, end + 1);
    parse_spec("source", spec);
    return {spec, end == std::string::npos ? fs::path() : fs::path(text.substr(end + 2))};
  }
  if (is_source(text)) return {text, {}};
  if (colon != std::string::npos && is_source(text.substr(0, colon)))
    return {text.substr(0, colon), text.substr(colon + 1)};
  if (fs::exists(text)) return {"", text};
  const bool is_name = text.find('/') == std::string::npos;
  if (is_name && colon != std::string::npos)
    throw config_error(concat("--data: ", unknown_name("source", text.substr(0, colon), SourceRegistry::names())));
  if (colon != std::string::npos && text.substr(0, colon).find('/') == std::string::npos)
    throw config_error(concat("--data: ", unknown_name("source", text.substr(0, colon), SourceRegistry::names())));
  throw io_error(concat("--data ", text, ": there is no such folder; expected a packed data set, or a source: ",
                        join(SourceRegistry::names())));
}

fs::path default_cache() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return fs::path(cache) / "penstock";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return fs::path(home) / ".cache/penstock";
  throw config_error("--cache: neither XDG_CACHE_HOME nor HOME is set; expected --cache DIR");
}

fs::path pack_into_cache(const DataName& name, const std::string& split, const fs::path& cache,
                         const std::function<void(const std::string&)>& say) {
  const Spec spec = parse_spec("source", name.source);
  const auto source = SourceRegistry::make(spec, name.folder, split);
  const fs::path input = name.folder.empty() ? name.folder : fs::canonical(name.folder);
  const fs::path output =
      cache / concat(spec.name(), "-",
                     hash_of(concat(name.source, "\n", input.string(), "\n", split, "\n", source->fingerprint())));
  const fs::path folder = output / split;
  if (fs::exists(folder / "manifest.json")) return folder;
  std::error_code failure;
  fs::create_directories(cache, failure);
  if (failure)
    throw io_error(
        concat(cache.string(), ": ", failure.message(), "; expected a folder that can be made (see --cache)"));
  const FileLock lock(output.string() + ".lock");
  if (fs::exists(folder / "manifest.json")) return folder;
  const int64_t start_ns = now_ns();
  pack({.source = name.source, .input = name.folder, .split = split, .output = output, .shard_count = kCacheShards});
  say(concat("packed ", source->size(), " ", split, " samples of ", name.source, " into ", folder.string(), " in ",
             static_cast<int64_t>(ms_since(start_ns)), " ms"));
  return folder;
}

TrainingData open_training_data(const TrainOptions& options, ShardShare share,
                                const std::function<void(const std::string&)>& say) {
  const DataName name = parse_data_name(options.data);
  TrainingData data;
  data.train =
      Dataset::open(name.source.empty() ? name.folder : pack_into_cache(name, options.split, options.cache, say),
                    options.split, share);
  const fs::path test =
      test_folder(name, fs::absolute(data.train->folder()).lexically_normal(), options, data.note, say);
  if (!test.empty()) data.test = Dataset::open(test);
  data.augment = with_normalize(options.augment);
  data.eval_augment =
      options.eval_augment.empty() ? deterministic_part(data.augment) : with_normalize(options.eval_augment);
  if (data.augment != options.augment && !options.augment.empty())
    data.note += concat(data.note.empty() ? "" : "; ", "normalize was added to --augment: the data set's statistics");
  return data;
}

std::string with_normalize(const std::string& spec_list) {
  for (const auto& spec : parse_spec_list("transform", spec_list))
    if (spec.name() == "normalize") return spec_list;
  return spec_list.empty() ? "normalize" : spec_list + ",normalize";
}

std::string deterministic_part(const std::string& spec_list) {
  std::vector<std::string> kept;
  for (const auto& spec : parse_spec_list("transform", spec_list))
    if (spec.name() == "resize" || spec.name() == "center-crop" || spec.name() == "normalize")
      kept.push_back(spec.text());
  return join(kept, ",");
}

Extent rendered_extent(const Dataset& dataset, const Pipeline& pipeline) {
  const int channels = dataset.manifest().channels;
  const auto example = dataset.example();
  if (!example) throw config_error(concat(dataset.folder().string(), ": 0 samples; expected some to train on"));
  const Plan plan = pipeline.plan(example->extent.height, example->extent.width, 0, 0, example->id);
  return {plan.output_height, plan.output_width, channels};
}

}  // namespace penstock
