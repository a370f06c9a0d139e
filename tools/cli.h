// What every tool's main shares: option parsing with our error messages, and exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "core/choice.h"
#include "core/error.h"
#include "core/text.h"

namespace penstock {

/// Parses the command line into the variables that `app` was set up with. `--help` and `--version` print their text and
/// exit with code 0. Every other problem is a config_error; for an unknown flag or command it lists the known ones and
/// suggests the nearest. Numbers are decimal, and an unsigned option takes 0 to 2^63-1. `--name=` means `--name ''`:
/// the next word is not its value.
void parse_command_line(CLI::App& app, int argc, char** argv);

/// The flags that `app` itself understands (`--name` and `-n`), without those of its subcommands.
std::vector<std::string> flag_names(const CLI::App& app);

/// Runs `body` and returns the exit code of the tool. Before that, it opens those of the descriptors 0 to 2 that are
/// closed, and makes a file that may not grow an error instead of a signal. An Error is printed on stderr as one line,
/// `<tool>: <message>`, and gives its exit code. A filesystem_error and results that stdout did not take count as an
/// io_error, a lack of memory counts as a device_error, and any other exception gives 1.
int run_tool(const std::string& tool, const std::function<int()>& body);

/// One line per plug-in for a help text: its name, what it does, its keys.
template <class Registry>
std::string help_lines() {
  std::string lines;
  for (const auto& [name, entry] : Registry::entries()) lines += concat("\n  ", name, ": ", entry.help);
  return lines;
}

}  // namespace penstock
