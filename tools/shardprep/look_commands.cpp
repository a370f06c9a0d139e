// shardprep info and shardprep verify: what is in a data set, and whether it is undamaged.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/codecs/codec.h"
#include "loader/files/files.h"
#include "loader/pack/pack.h"
#include "loader/pack/verify.h"
#include "loader/shards/dataset.h"
#include "tools/cache_flags.h"
#include "tools/cli.h"
#include "tools/plugins.h"
#include "tools/shardprep/commands.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxClassesShown = 20;

std::string extent_text(const Extent& extent) {
  return concat(extent.height, " x ", extent.width, " x ", extent.channels);
}

std::string form_of(const Sample& sample) {
  return codec_traits(sample.encoding).name + (sample.seek_index.empty() ? "" : " with seek index");
}

/// The range and the sum of all numbers of a field.
struct NumberSums {
  double least = std::numeric_limits<double>::infinity(), greatest = -least, sum = 0;
  uint64_t count = 0;

  void add(double value) {
    least = std::min(least, value);
    greatest = std::max(greatest, value);
    sum += value;
    ++count;
  }
};

/// A line per field: kind, dtype and shape, and the least, mean and greatest of its numbers or, of a variable one, how
/// many entries there are. Reads all values of numbers. Throws what Dataset::field() does.
void print_fields(const Dataset& dataset) {
  const auto& fields = dataset.manifest().fields;
  if (!fields.empty()) std::printf("  fields     %zu\n", fields.size());
  for (size_t number = 0; number < fields.size(); ++number) {
    const FieldType& type = fields[number];
    const bool is_number = type.kind == FieldKind::kNumber || type.kind == FieldKind::kLabels;
    NumberSums sums;
    uint64_t entry_count = 0;
    const auto read = number_reader(type.dtype);
    for (uint64_t index = 0; index < dataset.size(); ++index) {
      const HeldField stored = dataset.field(index, number);
      const FieldBytes bytes = stored.bytes;
      entry_count += bytes.size() / type.entry_bytes();
      if (!is_number) continue;
      for (size_t at = 0; at < bytes.size(); at += element_bytes(type.dtype)) sums.add(read(&bytes[at]));
    }
    std::string text = concat(field_kind_name(type.kind), " ", dtype_name(type.dtype), " ", shape_text(type.shape));
    if (!type.of.empty()) text += concat(" of ", type.of);
    if (type.is_variable()) text += concat(", ", entry_count, " in all, at most ", type.most, " of a sample");
    if (sums.count > 0)
      text += concat(", ", sums.least, " to ", sums.greatest, ", mean ", sums.sum / static_cast<double>(sums.count));
    std::printf("    %-24s %s\n", type.name.c_str(), text.c_str());
  }
}

/// Prints the sizes and encodings of the pictures, which it reads from the shards.
void print_pictures(const Dataset& dataset) {
  std::map<std::string, uint64_t> encodings;
  uint64_t turned_count = 0;
  Extent least{1 << 16, 1 << 16, 3}, greatest{};
  for (uint64_t i = 0; i < dataset.size(); ++i) {
    const Sample sample = dataset.at(i);
    ++encodings[form_of(sample)];
    turned_count += sample.orientation != 1;
    least.height = std::min(least.height, sample.extent.height);
    least.width = std::min(least.width, sample.extent.width);
    greatest.height = std::max(greatest.height, sample.extent.height);
    greatest.width = std::max(greatest.width, sample.extent.width);
  }
  const auto& extent = dataset.manifest().extent;
  std::printf("  pictures   %s", extent ? extent_text(*extent).c_str()
                                        : concat(least.height, " to ", greatest.height, " x ", least.width, " to ",
                                                 greatest.width, " x ", dataset.manifest().channels)
                                              .c_str());
  for (const auto& [form, count] : encodings) std::printf(", %s %s", grouped(count).c_str(), form.c_str());
  if (turned_count > 0) std::printf(", %s turned by EXIF or XMP", grouped(turned_count).c_str());
  std::printf("\n");
}

void print_classes(const Manifest& manifest) {
  if (manifest.class_names.empty()) {
    std::printf("  classes    none\n");
    return;
  }
  std::printf("  classes    %zu\n", manifest.class_names.size());
  for (size_t i = 0; i < std::min(manifest.class_names.size(), kMaxClassesShown); ++i)
    std::printf("    %-24s %s\n", one_line(manifest.class_names[i]).c_str(), grouped(manifest.class_counts[i]).c_str());
  if (manifest.class_names.size() <= kMaxClassesShown) return;
  const auto [least, greatest] = std::minmax_element(manifest.class_counts.begin(), manifest.class_counts.end());
  std::printf("    ... and %zu more; %s to %s samples each\n", manifest.class_names.size() - kMaxClassesShown,
              grouped(*least).c_str(), grouped(*greatest).c_str());
}

void print_info(const fs::path& folder) {
  const auto dataset = Dataset::open_alone(folder);
  const Manifest& manifest = dataset->manifest();
  uint64_t byte_count = 0;
  for (const auto& shard : manifest.shards) byte_count += shard.byte_count;
  std::printf("%s\n", folder.c_str());
  std::printf("  split      %s of %s, format version %d\n", manifest.split.c_str(), one_line(manifest.source).c_str(),
              Manifest::kFormatVersion);
  std::printf("  samples    %s in %s, %s", grouped(manifest.sample_count).c_str(),
              count_text(manifest.shards.size(), "shard").c_str(), byte_text(byte_count).c_str());
  if (manifest.skipped_count > 0)
    std::printf(", %s left out", count_text(manifest.skipped_count, "broken picture").c_str());
  std::printf("\n  order      %s\n", manifest.shuffle_seed < 0
                                         ? "by id inside each shard"
                                         : concat("shuffled inside each shard, seed ", manifest.shuffle_seed).c_str());
  std::printf("  storage    %s", one_line(manifest.storage).c_str());
  if (manifest.transcoded_count > 0)
    std::printf(", %s transcoded (same pixels, other bytes)", count_text(manifest.transcoded_count, "JPEG").c_str());
  if (manifest.warned_count > 0) std::printf(", %s", warned_text(manifest.warned_count).c_str());
  std::printf("\n");
  print_pictures(*dataset);
  const auto& statistics = manifest.statistics;
  for (const auto& [name, values] :
       {std::pair{"mean", statistics.mean}, std::pair{"deviation", statistics.deviation}}) {
    std::printf("  %-10s", name);
    for (int channel = 0; channel < manifest.channels; ++channel)
      std::printf(" %.6f", values[static_cast<size_t>(channel)]);
    std::printf("\n");
  }
  print_classes(manifest);
  print_fields(*dataset);
}

/// Prints one line per split, and one line per problem on stderr. If there are problems it throws, for exit code 4, or
/// 3 if all of them are missing files.
int verify_folders(const std::vector<fs::path>& folders, int jobs) {
  Problems all;
  for (const auto& folder : folders) {
    const auto problems = verify(folder, jobs);
    say(problems);
    all.append(problems, folder.string());
    if (problems.count == 0) {
      const Manifest manifest = read_manifest(folder);
      std::printf("%s: %s in %s, every one as packed\n", folder.c_str(),
                  count_text(manifest.sample_count, "sample").c_str(),
                  count_text(manifest.shards.size(), "shard").c_str());
    }
  }
  refuse("verify", all);
  return 0;
}

struct LookArguments {
  std::string folder, split;
  int jobs = 0;
  std::vector<std::string> plugins;
};

std::shared_ptr<LookArguments> add_arguments(CLI::App* command) {
  auto arguments = std::make_shared<LookArguments>();  // lives as long as the parser's pointers to it
  command->add_option("DIR", arguments->folder, "folder of a packed data set, or of one split of it")->required();
  command->add_option("--split", arguments->split, "only this split: train, test or all");
  add_plugin_option(*command, arguments->plugins);
  add_cache_flags(*command);
  return arguments;
}

/// Whether `folder` is that of a split. One with shards but without its manifest counts too, because it must not be
/// passed over in silence.
bool is_split_folder(const fs::path& folder) {
  if (has_manifest(folder)) return true;
  try {
    const auto names = files_of(folder).list(folder);
    return std::any_of(names.begin(), names.end(), [](const auto& name) { return name.ends_with(".safetensors"); });
  } catch (const Error&) {  // a folder that cannot be read is reported as missing
    return false;
  }
}

}  // namespace

std::string warned_text(uint64_t count) {
  return count_text(count, "JPEG") + " with an odd header (libjpeg-turbo warns, no pixel changes)";
}

void check_jobs(int jobs) {
  if (jobs < 0) throw config_error(concat("--jobs is ", jobs, "; expected 0 (one per core) or more"));
}

void say(const Problems& problems) {
  for (const auto& line : problems.lines) std::fprintf(stderr, "%s\n", one_line(line).c_str());
}

void refuse(const char* command, const Problems& problems) {
  if (problems.count == 0) return;
  throw Error(problems.is_files_only() ? ErrorKind::kIo : ErrorKind::kCorrupt,
              concat(command, ": ", count_text(problems.count, "problem"), "; expected none"));
}

std::vector<fs::path> split_folders(const fs::path& folder, const std::string& split) {
  if (folder.empty()) throw config_error("DIR: is \"\"; expected the folder of a data set or of a split");
  if (has_manifest(folder)) {
    const std::string own = split.empty() ? split : read_manifest(folder).split;
    if (own == split) return {folder};
    throw config_error(concat("--split: is ", in_quotes(split), " with ", folder.string(), ", the folder of split ",
                              own, "; expected the data set's folder, or no --split"));
  }
  const std::vector<std::string> names{"train", "test", "all"};
  if (!split.empty() && std::find(names.begin(), names.end(), split) == names.end())
    throw config_error(concat("--split: ", unknown_name("split", split, names)));
  std::vector<fs::path> found;
  for (const auto& name : names)
    if ((split.empty() || split == name) && is_split_folder(folder / name)) found.push_back(folder / name);
  if (found.empty()) {
    throw io_error(concat(folder.string(), ": no manifest.json and no ", split.empty() ? "train, test or all" : split,
                          " with one; expected the folder of a data set or of a split, as shardprep pack writes them"));
  }
  return found;
}

Command info_command(CLI::App& app) {
  auto* command = app.add_subcommand("info", "print what a packed data set contains");
  const auto arguments = add_arguments(command);
  return {command, [arguments] {
            for (const auto& folder : split_folders(arguments->folder, arguments->split)) print_info(folder);
            return 0;
          }};
}

Command verify_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("verify",
                         "check a packed data set: structure, checksums of files and samples, that every sample can be "
                         "decoded, counts and class names");
  const auto arguments = add_arguments(command);
  command->add_option("--jobs", arguments->jobs, "threads that check; 0: one per core")->capture_default_str();
  return {command, [arguments] {
            check_jobs(arguments->jobs);
            return verify_folders(split_folders(arguments->folder, arguments->split), arguments->jobs);
          }};
}

}  // namespace penstock
