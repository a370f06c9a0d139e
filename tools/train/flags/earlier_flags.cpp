// Earlier flags: from options.json to a command line.
#include "tools/train/flags/earlier_flags.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_text.h"
#include "core/text.h"
#include "train/checkpoint/kept_checkpoints.h"
#include "train/options/flag_table.h"
#include "train/options/options_file.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

bool has(const std::vector<std::string>& arguments, const std::string& flag) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](const std::string& word) { return word == flag || word.starts_with(flag + "="); });
}

/// Adds `--name VALUE`, once for each value if `value` is a list, and `--name` alone if it is true. Adds
/// nothing for an empty value.
void add_flag(const std::string& name, const nlohmann::json& value, std::vector<std::string>& flags) {
  if (value.is_array()) {
    for (const auto& one : value) add_flag(name, one, flags);
    return;
  }
  if (value.is_boolean()) {  // a flag without a value
    if (value.get<bool>()) flags.push_back("--" + name);
    return;
  }
  const std::string text = value.is_string() || value.is_object() ? text_in(value) : value.dump();
  if (!text.empty()) flags.insert(flags.end(), {"--" + name, text});
}

}  // namespace

std::string typed_value(const std::vector<std::string>& arguments, const std::string& name) {
  std::string value;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == name && i + 1 < arguments.size()) value = arguments[i + 1];
    if (arguments[i].starts_with(name + "=")) value = arguments[i].substr(name.size() + 1);
  }
  return value;
}

std::vector<std::string> earlier_flags(const std::vector<std::string>& arguments) {
  const std::string resumed = typed_value(arguments, "--resume");
  // The same command starts a run and continues it, so it says everything itself.
  if (resumed == "auto") return {};
  fs::path folder = checkpoint_of(resumed).parent_path();
  if (resumed.empty()) {
    if (!has(arguments, "-e") && !has(arguments, "--evaluate")) return {};
    folder = typed_value(arguments, "--out");
    if (folder.empty()) return {};
  }
  // With the path of a file and other flags, a checkpoint is used that was moved out of its folder.
  std::error_code ignored;
  if (fs::is_directory(resumed, ignored)) check_has_options("--resume", resumed);
  if (!has_options(folder)) return {};
  const auto json = read_options(folder);
  std::vector<std::string> flags;
  try {
    for (const Flag& flag : flag_table()) {
      // Options of an earlier version lack some flags. Plug-ins and data sets that are typed replace the earlier ones,
      // like any other value.
      const bool is_list = flag.name == "plugin" || flag.name == "also";
      const bool is_replaced = is_list && has(arguments, "--" + flag.name);
      if (flag.uses.is_resumed && json.contains(flag.name) && !is_replaced)
        add_flag(flag.name, json.at(flag.name), flags);
    }
  } catch (const nlohmann::json::exception& error) {
    throw corrupt_error(concat((folder / "options.json").string(), ": ", json_problem(error.what()),
                               "; expected the options of a run"));
  }
  return flags;
}

fs::path checkpoint_of(const fs::path& named) {
  std::error_code ignored;  // load_checkpoint() says what is wrong with it
  return fs::is_directory(named, ignored) ? named / kLastCheckpoint : named;
}

}  // namespace penstock
