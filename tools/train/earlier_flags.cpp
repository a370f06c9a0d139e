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

/// `--name VALUE` or `--name=VALUE`, the last one; "" when there is none.
std::string value_of(const std::vector<std::string>& arguments, const std::string& name) {
  std::string value;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == name && i + 1 < arguments.size()) value = arguments[i + 1];
    if (arguments[i].starts_with(name + "=")) value = arguments[i].substr(name.size() + 1);
  }
  return value;
}

bool has(const std::vector<std::string>& arguments, const std::string& flag) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](const std::string& word) { return word == flag || word.starts_with(flag + "="); });
}

/// `--name VALUE` for a value, for each of a list, and nothing for an empty one.
void add_flag(const std::string& name, const nlohmann::json& value, std::vector<std::string>& flags) {
  if (value.is_array()) {
    for (const auto& one : value) add_flag(name, one, flags);
    return;
  }
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (!text.empty()) flags.insert(flags.end(), {"--" + name, text});
}

}  // namespace

std::vector<std::string> earlier_flags(const std::vector<std::string>& arguments) {
  const std::string resumed = value_of(arguments, "--resume");
  fs::path folder = checkpoint_of(resumed).parent_path();
  if (resumed.empty()) {
    if (!has(arguments, "-e") && !has(arguments, "--evaluate")) return {};
    folder = value_of(arguments, "--out");
    if (folder.empty()) return {};
  }
  const fs::path path = folder / "options.json";
  std::error_code ignored;  // what cannot be looked at is not there
  if (!fs::is_regular_file(path, ignored)) return {};
  std::vector<std::string> flags;
  try {
    std::ifstream file(path);
    const auto json = nlohmann::json::parse(file);
    json.at("data");  // the options of every version have it
    for (const Flag& flag : flag_table()) {
      // A folder of an earlier version lacks some; plug-ins that are typed replace the earlier ones, as other values
      // do.
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
  std::error_code ignored;  // what cannot be looked at is a file that cannot be read
  return fs::is_directory(named, ignored) ? named / "checkpoint-last.safetensors" : named;
}

}  // namespace penstock
