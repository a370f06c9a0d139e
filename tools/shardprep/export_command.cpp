// shardprep export: writes a packed data set as one that other programs read.
#include <cstdio>
#include <memory>

#include "core/choice.h"
#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/export/export.h"
#include "tools/cache_flags.h"
#include "tools/plugins.h"
#include "tools/shardprep/commands.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

struct ExportArguments {
  std::string folder, split, output, format;
  int jobs = 0;
  std::vector<std::string> plugins;
  bool is_quiet = false;
};

int run_export(const ExportArguments& arguments) {
  check_jobs(arguments.jobs);
  const auto format =
      choice<ExportFormat>("--to", arguments.format,
                           {{"image-folder", ExportFormat::kImageFolder}, {"webdataset", ExportFormat::kWebDataset}});
  const fs::path output = arguments.output;
  if (output.empty()) throw config_error("--out: is \"\"; expected a new folder");
  if (fs::exists(output) && (!fs::is_directory(output) || !fs::is_empty(output)))
    throw config_error(concat("--out: ", output.string(), " exists already; expected a new or empty folder"));
  Problems problems;
  for (const auto& folder : split_folders(arguments.folder, arguments.split)) {
    UnpackProgress last;
    const Problems left_out =
        export_split(folder, output, format, arguments.jobs, [&](const UnpackProgress& progress) { last = progress; });
    say(left_out);
    problems.append(left_out, folder.string());
    if (arguments.is_quiet) continue;
    std::printf("%s: %s as %s, %s, %.1f s, in %s\n", folder.c_str(), count_text(last.done_count, "sample").c_str(),
                arguments.format.c_str(), byte_text(last.byte_count).c_str(), last.seconds, output.c_str());
  }
  refuse("export", problems);
  return 0;
}

}  // namespace

Command export_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("export", "write a packed data set, with its fields, as one that other programs read");
  const auto arguments = std::make_shared<ExportArguments>();  // lives as long as the parser's pointers to it
  command->add_option("DIR", arguments->folder, "folder of a packed data set, or of one split of it")->required();
  command
      ->add_option("--to", arguments->format,
                   "image-folder: a folder per class with metadata.jsonl; webdataset: a tar per shard")
      ->required();
  command->add_option("--out", arguments->output, "folder for the files; it must be new or empty")->required();
  command->add_option("--split", arguments->split, "only this split: train, test or all");
  command->add_option("--jobs", arguments->jobs, "threads that write files; 0: one per core")->capture_default_str();
  add_cache_flags(*command);
  command->add_flag("--quiet", arguments->is_quiet, "print no summary");
  add_plugin_option(*command, arguments->plugins);
  return {command, [arguments] { return run_export(*arguments); }};
}

}  // namespace penstock
