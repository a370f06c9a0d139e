// Writing back: the loop over the splits, and its report.
#include "tools/shardprep/write_back.h"

#include <cstdio>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/files/files.h"
#include "tools/cache_flags.h"
#include "tools/plugins.h"
#include "tools/shardprep/commands.h"

namespace penstock {

namespace fs = std::filesystem;

void add_write_back_options(CLI::App& command, WriteBackArguments& arguments) {
  command.add_option("DIR", arguments.folder, "folder of a packed data set, or of one split of it")->required();
  command.add_option("--out", arguments.output, "folder for the files; it must be new or empty")->required();
  command.add_option("--split", arguments.split, "only this split: train, test or all");
  command.add_option("--jobs", arguments.jobs, "threads that write files; 0: one per core")->capture_default_str();
  add_cache_flags(command);
  command.add_flag("--quiet", arguments.is_quiet, "print no summary");
  add_plugin_option(command, arguments.plugins);
}

int write_back(const char* command, const WriteBackArguments& arguments, const char* unit, const std::string& words,
               const WriteSplit& write) {
  check_jobs(arguments.jobs);
  const fs::path output = arguments.output;
  check_local_output("--out", output);
  if (output.empty()) throw config_error("--out: is \"\"; expected a new folder");
  if (fs::exists(output) && (!fs::is_directory(output) || !fs::is_empty(output)))
    throw config_error(concat("--out: ", output.string(), " exists already; expected a new or empty folder"));
  Problems problems;
  for (const auto& folder : split_folders(arguments.folder, arguments.split)) {
    UnpackProgress last;
    const Problems left_out = write(folder, output, [&](const UnpackProgress& progress) { last = progress; });
    say(left_out);
    problems.append(left_out, folder.string());
    if (arguments.is_quiet) continue;
    std::printf("%s: %s%s, %s, %.1f s, in %s\n", folder.c_str(), count_text(last.done_count, unit).c_str(),
                words.c_str(), byte_text(last.byte_count).c_str(), last.seconds, output.c_str());
  }
  refuse(command, problems);
  return 0;
}

}  // namespace penstock
