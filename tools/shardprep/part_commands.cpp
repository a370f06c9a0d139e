// shardprep list and merge: what packing on many machines begins and ends with.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/files/files.h"
#include "loader/pack/codebook_file.h"
#include "loader/pack/list.h"
#include "loader/pack/merge.h"
#include "loader/shards/dataset.h"
#include "loader/sources/source.h"
#include "tools/cli.h"
#include "tools/plugins.h"
#include "tools/shardprep/commands.h"
#include "tools/shardprep/storage_flags.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

struct ListArguments {
  std::string source, input, split = "train", output, codebook;
  std::vector<std::string> plugins;
  StorageFlags storage;
  int jobs = 0;
};

int run_list(const ListArguments& arguments) {
  check_jobs(arguments.jobs);
  const StorageOptions storage = arguments.storage.options();
  const Spec spec = parse_spec(SourceKind::kName, arguments.source);
  ListHead head{spec.text(), split_of_name(arguments.split), {}};
  if (!arguments.input.empty()) head.input = fs::absolute(arguments.input).lexically_normal();
  if (arguments.output.empty()) throw config_error(concat("--out: is ", in_quotes(""), "; expected a file"));
  const auto source = SourceRegistry::make(spec, arguments.input, head.split);
  if (source->size() == 0)
    throw io_error(concat("source ", head.source, ": no samples for split ", head.split, "; expected one or more"));
  if (!arguments.codebook.empty()) write_codebook(*source, storage, arguments.jobs, arguments.codebook);
  write_list(*source, head, arguments.output);
  std::printf("%s: %s of %s\n", arguments.output.c_str(), count_text(source->size(), "sample").c_str(),
              count_text(source->class_names().size(), "class", "classes").c_str());
  return 0;
}

struct MergeArguments {
  std::string output, split;
  bool force = false;
};

int run_merge(const MergeArguments& arguments) {
  check_local_output("OUT", arguments.output);
  std::vector<std::string> splits{split_of_name(arguments.split)};
  if (arguments.split.empty()) splits = splits_with_parts(arguments.output);
  if (splits.empty())
    throw io_error(concat(arguments.output, ": no parts; expected what shardprep pack --part I/N has left there"));
  for (const auto& split : splits) {
    merge_parts({.output = arguments.output, .split = split, .force = arguments.force});
    const fs::path folder = fs::path(arguments.output) / split;
    const Manifest manifest = read_manifest(folder);
    std::printf("%s: %s of %s in %s%s\n", folder.c_str(), count_text(manifest.sample_count, "sample").c_str(),
                count_text(manifest.class_names.size(), "class", "classes").c_str(),
                count_text(manifest.shards.size(), "shard").c_str(),
                manifest.skipped_count > 0
                    ? concat(", ", count_text(manifest.skipped_count, "broken picture"), " skipped").c_str()
                    : "");
  }
  return 0;
}

}  // namespace

Command list_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "list",
      "write the samples of a source to a file, so that parts that are packed elsewhere need not look for them");
  const auto arguments = std::make_shared<ListArguments>();  // lives as long as the parser's pointers to it
  command->add_option("--source", arguments->source, "format of the input, as in shardprep pack")->required();
  add_plugin_option(*command, arguments->plugins);
  command->add_option("--input", arguments->input, "folder of the input");
  command->add_option("--split", arguments->split, "split to list: train, test or all")->capture_default_str();
  command->add_option("--out", arguments->output, "file for the list: JSON lines, for shardprep pack --list")
      ->required();
  command->add_option("--codebook", arguments->codebook,
                      "also train the codebook for coefficients and write it to this file, for shardprep pack "
                      "--codebook; with the flags below that the parts will have");
  command->add_option("--jobs", arguments->jobs, "threads; 0: one per core")->capture_default_str();
  add_storage_flags(*command, arguments->storage);
  return {command, [arguments] { return run_list(*arguments); }};
}

Command merge_command(CLI::App& app) {
  auto* command = app.add_subcommand("merge", "make the data set of the parts that pack --part has left in OUT");
  const auto arguments = std::make_shared<MergeArguments>();  // lives as long as the parser's pointers to it
  command->add_option("OUT", arguments->output, "folder of the data set, the --out of all parts")->required();
  command->add_option("--split", arguments->split, "only this split: train, test or all");
  command->add_flag("--force", arguments->force, "replace OUT/<split> if it exists");
  return {command, [arguments] { return run_merge(*arguments); }};
}

}  // namespace penstock
