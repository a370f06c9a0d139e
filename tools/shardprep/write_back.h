// Writing back: what unpack and export share, which write the samples of a packed data set into a new folder.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "loader/pack/unpack.h"
#include "loader/shards/problems.h"

namespace penstock {

struct WriteBackArguments {
  std::string folder, split, output;
  int jobs = 0;
  std::vector<std::string> plugins;
  bool is_quiet = false;
};

/// Adds DIR, --out, --split, --jobs, --quiet and --plugin. `arguments` must live as long as the parser.
void add_write_back_options(CLI::App& command, WriteBackArguments& arguments);

using WriteSplit =
    std::function<Problems(const std::filesystem::path& split_folder, const std::filesystem::path& output,
                           const std::function<void(const UnpackProgress&)>& on_progress)>;

/// Calls `write` for each split, prints a line about each, such as "data/train: 6 <unit>s<words>, 12 KB, 0.1 s, in
/// files", and returns 0. What fails leaves nothing in the output, and what was killed leaves only a
/// hidden folder that the next call clears, or, in the moment in which entries are renamed, some of them; broken
/// samples, which are left out, are no failure of the others. Throws config_error for an output that has something in
/// it, what `write` throws, and what refuse() throws.
int write_back(const char* command, const WriteBackArguments& arguments, const char* unit, const std::string& words,
               const WriteSplit& write);

}  // namespace penstock
