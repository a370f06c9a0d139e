// What every tool's main shares: option parsing with our error messages, and exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace penstock {

/// Parses the command line into what `app` was set up with. `--help` and `--version` print and exit 0. Every other
/// trouble is a config_error; an unknown flag lists the flag that was probably meant.
void parse_command_line(CLI::App& app, int argc, char** argv);

/// Runs a tool. An Error is printed as one line `<tool>: <message>` on stderr and gives its exit code; any other
/// exception gives 1.
int run_tool(const std::string& tool, const std::function<int()>& body);

}  // namespace penstock
