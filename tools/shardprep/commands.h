// The subcommands of shardprep: each adds itself to the command line and runs when it was named there.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "loader/problems.h"

namespace penstock {

struct Command {
  CLI::App* app;
  std::function<int()> run;  // gives the exit code
};

Command pack_command(CLI::App& app);
Command info_command(CLI::App& app);
Command verify_command(CLI::App& app);
Command unpack_command(CLI::App& app);

/// The split folders that DIR means: itself, or those of a data set (only `split`, when it is not empty). Throws
/// io_error when there is none, config_error when DIR is another split's.
std::vector<std::filesystem::path> split_folders(const std::filesystem::path& folder, const std::string& split);

/// Throws config_error for a number of --jobs that cannot be.
void check_jobs(int jobs);

/// Says each on stderr.
void say(const Problems& problems);
/// Throws when there are any: corrupt_error, or io_error when all of them are files that are missing.
void refuse(const char* command, const Problems& problems);

}  // namespace penstock
