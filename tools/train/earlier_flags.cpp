// Earlier flags: from options.json to a command line.
#include "tools/train/earlier_flags.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "train/flag_table.h"

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
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
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
  const fs::path path = folder / "options.json";
  std::error_code ignored;  // a file that cannot be looked at counts as missing
  if (!fs::is_regular_file(path, ignored)) return {};
  std::vector<std::string> flags;
  try {
    std::ifstream file(path);
    const auto json = nlohmann::json::parse(file);
    json.at("data");  // every version's options have this key
    for (const Flag& flag : flag_table()) {
      // Options of an earlier version lack some flags. Plug-ins that are typed replace the earlier ones, like any other
      // value.
      const bool is_replaced = flag.name == "plugin" && has(arguments, "--plugin");
      if (flag.uses.is_resumed && json.contains(flag.name) && !is_replaced)
        add_flag(flag.name, json.at(flag.name), flags);
    }
  } catch (const nlohmann::json::exception& error) {
    throw corrupt_error(concat(path.string(), ": ", shortened(error.what()), "; expected the options of a run"));
  }
  return flags;
}

fs::path checkpoint_of(const fs::path& named) {
  std::error_code ignored;  // load_checkpoint() says what is wrong with it
  return fs::is_directory(named, ignored) ? named / "checkpoint-last.safetensors" : named;
}

}  // namespace penstock
