// What every tool's main shares: option parsing with our error messages, and exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace penstock {

/// Parses the command line into what `app` was set up with. `--help` and `--version` print and exit 0. Every other
/// trouble is a config_error; an unknown flag or command lists the one that was probably meant. Numbers are decimal,
/// and of an unsigned option 0 to 2^63-1. `--name=` is `--name ''`, not the word behind it.
void parse_command_line(CLI::App& app, int argc, char** argv);

/// The flags that `app` itself understands, `--name` and `-n`.
std::vector<std::string> flag_names(const CLI::App& app);

/// `message` without control characters, and with the middle of each word of more than 200 bytes left out: names of
/// files and what stands in them are somebody else's, and get no line of their own, nothing that steers a terminal, and
/// no more than their room.
std::string one_line(std::string message);

/// Runs a tool, with descriptors 0 to 2 open and a file that may not grow an error instead of a signal. Results that
/// stdout did not take are an io_error; a lack of memory is a device_error. An Error is printed as one line `<tool>:
/// <message>` on stderr and gives its exit code, as a filesystem_error does that of io_error; any other exception
/// gives 1.
int run_tool(const std::string& tool, const std::function<int()>& body);

/// Of every plug-in a line for a help text: its name, what it does, its keys.
template <class Registry>
std::string help_lines() {
  std::string lines;
  for (const auto& [name, entry] : Registry::entries()) lines += concat("\n  ", name, ": ", entry.help);
  return lines;
}

/// What `text`, the value of `flag`, stands for. Throws config_error that lists the known values.
template <class Value>
Value choice(const char* flag, const std::string& text, const std::map<std::string, Value>& known) {
  const auto found = known.find(text);
  if (found != known.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, value] : known) names.push_back(name);
  throw config_error(concat(flag, ": ", unknown_name("value", text, names)));
}

}  // namespace penstock
