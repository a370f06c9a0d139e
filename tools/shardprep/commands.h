// The subcommands of shardprep: each adds itself to the command line, and runs if the user named it there.
//
// Lives here: the program `shardprep`, a file per command.
// Not here: packing and unpacking themselves (loader/pack, loader/export).
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "loader/shards/problems.h"

namespace penstock {

struct Command {
  CLI::App* app;
  std::function<int()> run;  // returns the exit code
};

Command pack_command(CLI::App& app);
Command list_command(CLI::App& app);
Command merge_command(CLI::App& app);
Command plan_command(CLI::App& app);
Command info_command(CLI::App& app);
Command verify_command(CLI::App& app);
Command unpack_command(CLI::App& app);
Command export_command(CLI::App& app);
Command show_command(CLI::App& app);
Command cache_command(CLI::App& app);

/// The split folders that DIR means: DIR itself, or all splits of the data set in DIR (only `split`, if that is not
/// empty). Throws io_error if there is none, and config_error if DIR is the folder of another split.
std::vector<std::filesystem::path> split_folders(const std::filesystem::path& folder, const std::string& split);

/// "3 JPEGs with an odd header (libjpeg-turbo warns, no pixel changes)".
std::string warned_text(uint64_t count);

/// Throws config_error if the value of --jobs is negative.
void check_jobs(int jobs);

/// Prints each problem as a line on stderr.
void say(const Problems& problems);
/// Throws if there are any problems: io_error if all of them are missing files, otherwise corrupt_error.
void refuse(const char* command, const Problems& problems);

}  // namespace penstock
