// shardprep unpack: writes the packed files back into a folder.
#include <cstdio>
#include <memory>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/pack/unpack.h"
#include "tools/cache_flags.h"
#include "tools/plugins.h"
#include "tools/shardprep/commands.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

struct UnpackArguments {
  std::string folder, split, output;
  int jobs = 0;
  std::vector<std::string> plugins;
  bool is_quiet = false;
};

int run_unpack(const UnpackArguments& arguments) {
  check_jobs(arguments.jobs);
  const fs::path output = arguments.output;
  if (output.empty()) throw config_error("--out: is \"\"; expected a new folder");
  if (fs::exists(output) && (!fs::is_directory(output) || !fs::is_empty(output)))
    throw config_error(concat("--out: ", output.string(), " exists already; expected a new or empty folder"));
  Problems problems;
  for (const auto& folder : split_folders(arguments.folder, arguments.split)) {
    UnpackProgress last;
    const Problems left_out =
        unpack(folder, output, arguments.jobs, [&](const UnpackProgress& progress) { last = progress; });
    say(left_out);
    problems.append(left_out, folder.string());
    if (arguments.is_quiet) continue;
    std::printf("%s: %s, %s, %.1f s, in %s\n", folder.c_str(), count_text(last.done_count, "file").c_str(),
                byte_text(last.byte_count).c_str(), last.seconds, output.c_str());
  }
  refuse("unpack", problems);
  return 0;
}

}  // namespace

Command unpack_command(CLI::App& app) {
  auto* command = app.add_subcommand("unpack", "write the packed pictures back as files, into a new folder");
  const auto arguments = std::make_shared<UnpackArguments>();  // lives as long as the parser's pointers to it
  command->add_option("DIR", arguments->folder, "folder of a packed data set, or of one split of it")->required();
  command->add_option("--out", arguments->output, "folder for the files; it must be new or empty")->required();
  command->add_option("--split", arguments->split, "only this split: train, test or all");
  command->add_option("--jobs", arguments->jobs, "threads that write files; 0: one per core")->capture_default_str();
  add_cache_flags(*command);
  command->add_flag("--quiet", arguments->is_quiet, "print no summary");
  add_plugin_option(*command, arguments->plugins);
  return {command, [arguments] { return run_unpack(*arguments); }};
}

}  // namespace penstock
