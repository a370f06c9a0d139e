// Training data: what --data names, the cache of packed sources, and pipelines.
#include "train/feed/training_data.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>

#include "augment/transform.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/files/files.h"
#include "loader/pack/pack.h"
#include "loader/sources/local_fingerprint.h"
#include "loader/sources/source.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr double kSayEverySeconds = 5;
constexpr int kCacheShards = 16;  // rank-local shuffling needs at least one shard per rank

constexpr int kMaxDepth = 3;     // enough for DIR/<split>/<class>/<picture> and one folder more
constexpr int kMaxNames = 2000;  // about 10 ms if the folder is not in the page cache

std::string kind_of(const fs::path& file) {
  const std::string name = file.filename().string();
  if (name.starts_with("train-images") || name.starts_with("t10k-images")) return "mnist";
  if (name == "data_batch_1.bin" || name == "test_batch.bin") return "cifar10";
  return has_picture_extension(file) ? "image-folder" : "";
}

/// `mnist:DIR` for a folder with IDX files, `cifar10:DIR` for one with binary batches, `image-folder:DIR` for one with
/// pictures at most three folders down; "" for anything else. Looks at no more than 2000 names, and into no file.
std::string likely_source(const fs::path& folder) {
  std::error_code failure;  // a folder that cannot be read gives no suggestion
  fs::recursive_directory_iterator entries(folder, fs::directory_options::skip_permission_denied, failure);
  for (int count = 0; !failure && entries != fs::recursive_directory_iterator() && count < kMaxNames; ++count) {
    if (entries.depth() >= kMaxDepth) entries.disable_recursion_pending();
    const std::string kind = entries->is_directory(failure) ? "" : kind_of(entries->path());
    // mnist and cifar10 take the folder that their files are in; image-folder takes a folder above its pictures.
    if (kind == "image-folder") return concat(kind, ":", folder.string());
    if (!kind.empty()) return concat(kind, ":", entries->path().parent_path().string());
    entries.increment(failure);
  }
  return "";
}

/// A lock that only one process of the machine can hold, from construction to destruction.
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

/// FNV-1a, 64 bits. It names a folder, so it need not withstand attacks.
std::string hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : text) hash = (hash ^ static_cast<uint8_t>(letter)) * 0x100000001b3;
  return printed("%016llx", static_cast<unsigned long long>(hash));
}

bool is_there(const fs::path& path) {
  if (!is_local(path)) return files_of(path).exists(path);
  std::error_code ignored;  // a name that is not possible is that of no file
  return fs::exists(path, ignored);
}

bool is_packed(const fs::path& folder, const std::string& split) {
  return is_there(folder / "manifest.json") || is_there(folder / split / "manifest.json");
}

bool is_source(const std::string& name) { return SourceRegistry::entries().contains(name); }

std::unique_ptr<const Source> make_source(const DataName& name, const std::string& split) {
  return SourceRegistry::make(parse_spec("source", name.source), name.folder, split);
}

fs::path pack_source(const Source& source, const DataName& name, const std::string& split, const fs::path& cache,
                     bool repacks, const std::function<void(const std::string&)>& log) {
  std::error_code failure;
  const fs::path input = name.folder.empty() ? name.folder : fs::canonical(name.folder, failure);
  if (failure) {
    throw io_error(concat("--data ", name.source, ":", name.folder.string(), ": ", failure.message(),
                          "; expected a folder that the source can read"));
  }
  const fs::path output =
      cache / concat(parse_spec("source", name.source).name(), "-",
                     hash_of(concat(name.source, "\n", input.string(), "\n", split, "\n", local_fingerprint(source))));
  const fs::path folder = output / split;
  if (!repacks && is_there(folder / "manifest.json")) return folder;
  fs::create_directories(cache, failure);
  if (failure)
    throw io_error(
        concat(cache.string(), ": ", failure.message(), "; expected a folder that can be made (see --cache)"));
  const FileLock lock(output.string() + ".lock");
  if (!repacks && is_there(folder / "manifest.json")) return folder;
  log(concat("packing ", grouped(source.size()), " ", split, " samples of ", name.source, " into ", folder.string()));
  const int64_t start_ns = now_ns();
  double said_s = 0;
  std::vector<std::string> notes;
  const auto report = [&](const PackProgress& progress) {
    notes = progress.notes;
    if (progress.seconds - said_s < kSayEverySeconds) return;
    said_s = progress.seconds;
    log(concat("packing ", name.source, ": ", grouped(progress.done_count), " of ", grouped(progress.total_count), " ",
               split, " samples"));
  };
  pack({.source = name.source,
        .input = name.folder,
        .split = split,
        .output = output,
        .shard_count = kCacheShards,
        .force = repacks},
       report);
  log(concat("packed ", grouped(source.size()), " ", split, " samples of ", name.source, " into ", folder.string(),
             " in ", static_cast<int64_t>(ms_since(start_ns)), " ms", source.ignored().count > 0 ? ", " : "",
             source.ignored().text()));
  for (const auto& note : notes) log(note);
  return folder;
}

/// For checks of a list before a source is packed for minutes. The number of channels is not known yet; with 3, keys
/// may have one number or three. The pipelines check again later.
constexpr DataStatistics kAnyStatistics{.channels = 3};

/// Throws config_error if the evaluation would mix pictures: an accuracy over blends of two pictures means nothing.
void refuse_mix(const std::string& eval_augment, const DataStatistics& statistics) {
  for (const Spec& spec : parse_spec_list(TransformKind::kName, eval_augment))
    if (TransformRegistry::make(spec, statistics)->batch_mix() != nullptr)
      throw config_error(concat("--eval-augment: ", spec.text(),
                                " would mix the pictures that are evaluated; expected it in --augment alone"));
}

/// Throws config_error for lists of transforms that pictures of these statistics cannot have.
void check_lists(const TrainOptions& options, const DataStatistics& statistics) {
  for (const auto& spec_list : {options.augment, options.eval_augment}) Pipeline(spec_list, statistics);
  refuse_mix(options.eval_augment, statistics);
}

/// Throws config_error that names the source if the folder holds the files of a source and no packed data set.
/// Dataset::open() reports all other problems.
void check_packed(const fs::path& folder, const std::string& split) {
  if (!is_local(folder) || is_packed(folder, split)) return;
  const std::string likely = likely_source(folder);
  if (likely.empty()) return;
  throw config_error(
      concat("--data ", folder.string(), ": not a packed data set, but files of a source; expected --data ", likely));
}

/// The folder of the split for evaluations; "" if there is none, and then `reason` says why.
fs::path test_folder(const DataName& name, const fs::path& train_folder, const TrainOptions& options,
                     std::string& reason, const std::function<void(const std::string&)>& log) {
  const std::string& split = options.evaluated_split;
  if (name.source.empty()) {
    const fs::path folder = folder_beside(train_folder, split);
    if (is_there(folder / "manifest.json")) return folder;
    reason = concat("no ", split, " split at ", folder.string());
    return {};
  }
  std::unique_ptr<const Source> source;
  try {
    source = make_source(name, split);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCorrupt) throw;
    reason = concat("no ", split, " split (", error.what(), ")");
    return {};
  }
  return pack_source(*source, name, split, options.cache, options.repacks, log);
}

/// The training split, and after it those of --also.
std::shared_ptr<const Dataset> joined(const std::shared_ptr<const Dataset>& first, const TrainOptions& options,
                                      const std::function<void(const std::string&)>& log) {
  std::vector<std::shared_ptr<const Dataset>> all{first};
  for (const auto& also : options.also) {
    const DataName name = parse_data_name(also, options.split);
    if (name.source.empty()) check_packed(name.folder, options.split);
    all.push_back(Dataset::open(
        name.source.empty() ? name.folder : pack_into_cache(name, options.split, options.cache, log, options.repacks),
        options.split));
  }
  return Dataset::join(all);
}

}  // namespace

DataName parse_data_name(const std::string& text, const std::string& split) {
  if (is_source(text)) return is_packed(text, split) ? DataName{"", text} : DataName{text, {}};
  if (!is_local(text) || is_there(text)) return {"", text};
  const auto end = text.find_first_of("(:");
  if (end == std::string::npos || text.substr(0, end).find('/') != std::string::npos) {
    throw io_error(concat("--data ", text,
                          ": there is no such folder; expected a packed data set, or SOURCE:DIR with one of ",
                          join(SourceRegistry::names())));
  }
  const std::string name = parse_spec("source", text.substr(0, end)).name();
  if (!is_source(name)) throw config_error(concat("--data: ", unknown_name("source", name, SourceRegistry::names())));
  if (text[end] == ':') return {name, text.substr(end + 1)};
  const auto close = text.find("):");
  const std::string spec = close == std::string::npos ? text : text.substr(0, close + 1);
  parse_spec("source", spec);  // throws
  return {spec, close == std::string::npos ? fs::path() : fs::path(text.substr(close + 2))};
}

fs::path default_cache() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return fs::path(cache) / "penstock";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return fs::path(home) / ".cache/penstock";
  throw config_error("--cache: neither XDG_CACHE_HOME nor HOME is set; expected --cache DIR");
}

fs::path pack_into_cache(const DataName& name, const std::string& split, const fs::path& cache,
                         const std::function<void(const std::string&)>& log, bool repacks) {
  return pack_source(*make_source(name, split), name, split, cache, repacks, log);
}

TrainingData open_training_data(const TrainOptions& options, RankShards share,
                                const std::function<void(const std::string&)>& log) {
  const DataName name = parse_data_name(options.data, options.split);
  if (!name.source.empty()) check_lists(options, kAnyStatistics);
  TrainingData data;
  if (name.source.empty() && is_source(options.data)) {
    data.notes.push_back(concat("--data ", options.data, " is the packed data set ./", options.data,
                                ", not the source; ", options.data, "() names the source"));
  }
  if (name.source.empty()) check_packed(name.folder, options.split);
  if (name.source.empty() && options.repacks && options.also.empty())
    throw config_error(concat("--repack with --data ", options.data, ", which is packed; expected a source, or ",
                              "shardprep pack --force"));
  if (!options.also.empty()) share = {};  // shards are counted over all data sets
  data.train = Dataset::open(
      name.source.empty() ? name.folder : pack_into_cache(name, options.split, options.cache, log, options.repacks),
      options.split, share);
  if (name.source.empty()) check_lists(options, data.train->manifest().statistics);
  if (!options.also.empty()) data.train = joined(data.train, options, log);
  const fs::path& folder = data.train->folder();
  const fs::path test = test_folder(name, is_local(folder) ? fs::absolute(folder) : folder, options, data.no_test, log);
  if (!data.no_test.empty()) data.notes.push_back(data.no_test + ", so nothing is evaluated");
  if (!test.empty()) {  // a split that is given as SCHEME:train has no folder around it
    data.test =
        test.has_parent_path() ? Dataset::open(test.parent_path(), test.filename().string()) : Dataset::open(test);
  }
  const std::string& split = data.train->manifest().split;
  if (!options.only_evaluates && data.test && (split == "all" || split == data.test->manifest().split))
    data.notes.push_back(concat("split ", split,
                                " is trained on and holds the samples that are evaluated, so that their ",
                                "accuracy is not that of new ones"));
  data.augment = with_normalize(options.augment);
  data.eval_augment =
      options.eval_augment.empty() ? deterministic_part(data.augment) : with_normalize(options.eval_augment);
  if (data.augment != options.augment && !options.augment.empty())
    data.notes.emplace_back("normalize was added to --augment, with the data set's mean and deviation");
  return data;
}

std::string with_normalize(const std::string& spec_list) {
  for (const auto& spec : parse_spec_list("transform", spec_list))
    if (spec.name() == "normalize") return spec_list;
  return spec_list.empty() ? "normalize" : spec_list + ",normalize";
}

Extent rendered_extent(const Dataset& dataset, const Pipeline& pipeline) {
  const int channels = pipeline.channels(dataset.manifest().channels);
  const auto example = dataset.example();
  if (!example) throw config_error(concat(dataset.folder().string(), ": 0 samples; expected 1 or more to train on"));
  const Plan whole = Plan::upright(example->orientation, example->extent.height, example->extent.width);
  const Plan plan = pipeline.plan(whole, 0, 0, example->id);
  return {plan.output_height, plan.output_width, channels};
}

}  // namespace penstock
