// Config flags: from a file to a command line.
#include "tools/train/flags/config_flags.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_text.h"
#include "core/regular_file.h"
#include "core/strict_json.h"
#include "core/text.h"
#include "tools/train/flags/earlier_flags.h"
#include "tools/train/flags/flags.h"
#include "tools/train/flags/toml_text.h"
#include "train/launch/command.h"
#include "train/options/options_file.h"
#include "train/options/recipes.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr const char* kFlag = "--config";
constexpr uint64_t kMostBytes = 1 << 20;
constexpr int kMostDepth = 8;

// What one start of one rank is told, and no other run.
const std::set<std::string> kNotTaken{"out", "force", "repack", "resume", "rank", "world-size", "dist-url"};

[[noreturn]] void refuse(const std::string& path, const std::string& fact) {
  throw config_error(concat(kFlag, " ", path, ": ", fact));
}

json read_config(const std::string& path) {
  const std::string text = read_text(path, kMostBytes);
  try {
    if (path.ends_with(".toml")) return json::parse(json_of_toml(text));
    detail::check_json_depth(text, concat(kFlag, " ", path), kMostDepth);
    auto config = json::parse(text);
    if (!config.is_object()) refuse(path, concat("holds a JSON ", config.type_name(), "; expected an object of flags"));
    return config;
  } catch (const toml_error& error) {
    refuse(path, concat(shortened(error.what()), "; expected TOML, a flag per line as in lr = 0.1"));
  } catch (const json::exception& error) {  // a number may be too large as well
    refuse(path, concat(json_problem(error.what()), "; expected a JSON object as in options.json"));
  }
}

bool is_text(const json& value) {
  const bool is_encoded =
      value.is_object() && value.contains("percent-encoded") && value["percent-encoded"].is_string();
  return (value.is_string() || is_encoded) && text_in(value).find('\0') == std::string::npos;
}

/// Of the kind that the flag has. A text may also be written as a number (bias-decay).
bool fits(const json& value, const json& usual) {
  if (usual.is_array()) return value.is_array() && std::all_of(value.begin(), value.end(), is_text);
  if (usual.is_boolean()) return value.is_boolean();
  return value.is_number() || (usual.is_string() && is_text(value));
}

std::string kind_text(const json& usual) {
  if (usual.is_array()) return "a list of texts";
  if (usual.is_boolean()) return "true or false";
  return usual.is_number() ? "a number" : "a text";
}

std::string word_of(const std::string& key, const json& value) {
  return concat("--", key, "=", is_text(value) ? text_in(value) : json_text(value));
}

std::vector<std::string> keys_of(const json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  return keys;
}

/// The recipe that the file names, unless one is typed.
std::string recipe_of(const json& config, const std::string& typed) {
  return typed.empty() && config.contains("recipe") && config["recipe"].is_string()
             ? config["recipe"].get<std::string>()
             : "";
}

bool names_flag(const std::string& word) { return word == kFlag || word.starts_with(concat(kFlag, "=")); }

}  // namespace

std::vector<std::string> with_config(const std::vector<std::string>& arguments,
                                     const std::set<std::string>& not_taken) {
  const std::string path = typed_value(arguments, kFlag);
  const auto count = std::count_if(arguments.begin(), arguments.end(), names_flag);
  if (count == 1 && path.empty()) throw config_error(concat(kFlag, " is \"\"; expected a file"));
  if (count != 1) return arguments;
  // Which of the file's flags replace those of an earlier run could not be told from those that were never thought of.
  if (const std::string resumed = typed_value(arguments, "--resume"); !resumed.empty() && resumed != "auto")
    throw config_error(
        concat(kFlag, " ", path, ": with --resume ", resumed, ", which has options; expected one of the two"));
  const auto config = read_config(path);
  const auto typed = without_flag(arguments, kFlag);
  const std::string typed_recipe = typed_value(typed, "--recipe");
  auto replacing = recipe_flags(typed_recipe);
  replacing.insert(replacing.end(), typed.begin(), typed.end());
  const std::string recipe = recipe_of(config, typed_recipe);
  auto usual = json::parse(to_json(options_of(recipe_flags(recipe))));
  if (!recipe.empty() || !typed_recipe.empty()) usual["data"] = "";  // a recipe has no data of its own

  std::vector<std::string> words{typed.front()};
  for (const auto& [key, value] : config.items()) {
    if (!usual.contains(key)) refuse(path, unknown_name("key", key, keys_of(usual)));
    if (!fits(value, usual[key]))
      refuse(path, concat(key, " is ", shortened(json_text(value)), "; expected ", kind_text(usual[key])));
    if (key == "sim-link" && is_typed(replacing, "--data")) continue;  // the link is to the file's data
    if (kNotTaken.contains(key) || not_taken.contains(key)) continue;
    if (value == usual[key] || is_typed(replacing, "--" + key)) continue;
    if (!value.is_array())
      words.push_back(word_of(key, value));
    else
      for (const auto& one : value) words.push_back(word_of(key, one));
  }
  words.insert(words.end(), typed.begin() + 1, typed.end());
  return words;
}

}  // namespace penstock
