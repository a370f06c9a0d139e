// What every tool's main shares: option parsing with our error messages, and exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace penstock {

/// Parses the command line into what `app` was set up with. `--help` and `--version` print and exit 0. Every other
/// trouble is a config_error; an unknown flag or command lists the one that was probably meant. Numbers are decimal,
/// and of an unsigned option 0 to 2^63-1. `--name=` is `--name ''`, not the word behind it.
void parse_command_line(CLI::App& app, int argc, char** argv);

/// The flags that `app` itself understands, `--name` and `-n`.
std::vector<std::string> flag_names(const CLI::App& app);

/// Runs a tool. An Error is printed as one line `<tool>: <message>` on stderr and gives its exit code, as a
/// filesystem_error does that of io_error; any other exception gives 1.
int run_tool(const std::string& tool, const std::function<int()>& body);

}  // namespace penstock
