// --plugin: plug-ins are loaded before the command line is parsed, so that help, checks and messages know them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace penstock {

/// Loads the files of all `--plugin FILE` and `--plugin=FILE` among the words. Throws as load_plugin().
void load_plugins(const std::vector<std::string>& words, const std::string& libtorch = "");

/// Adds --plugin to `app`. The flag may be given several times; `files` gets all the values.
CLI::Option* add_plugin_option(CLI::App& app, std::vector<std::string>& files);

}  // namespace penstock
