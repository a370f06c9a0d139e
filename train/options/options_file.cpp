// options.json: from the flag table to a text, and from the file to JSON.
#include "train/options/options_file.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "core/error.h"
#include "core/json_text.h"
#include "core/number_text.h"
#include "core/regular_file.h"
#include "core/strict_json.h"
#include "core/text.h"
#include "train/options/flag_table.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "options.json";
constexpr uint64_t kMostOptionsBytes = 1 << 20;
constexpr int kMostDepth = 8;  // of its JSON
constexpr const char* kEncodedKey = "percent-encoded";

bool is_utf8(const std::string& text) {
  const nlohmann::json json(text);
  return nlohmann::json::parse(json_text(json)) == json;  // other bytes have become U+FFFD
}

/// As in a URL (RFC 3986, sec. 2.1): %XX for bytes that are not printable ASCII, and for %.
std::string percent_encoded(const std::string& text) {
  std::string encoded;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    encoded += byte >= ' ' && byte <= '~' && letter != '%' ? std::string(1, letter) : printed("%%%02X", byte);
  }
  return encoded;
}

std::string percent_decoded(const std::string& text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned byte = static_cast<unsigned char>(text[i]);
    if (text[i] == '%' && i + 2 < text.size()) {
      std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16);
      i += 2;
    }
    decoded += static_cast<char>(byte);
  }
  return decoded;
}

nlohmann::json value_of(const FlagValue& flag) {
  return std::visit(
      [](const auto& value) -> nlohmann::json {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::string>) {
          return json_of(value);
        } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
          auto list = nlohmann::json::array();
          for (const auto& one : value) list.push_back(json_of(one));
          return list;
        } else {
          return value;
        }
      },
      flag);
}

}  // namespace

std::string to_json(const TrainOptions& options) {
  nlohmann::json json;
  for (const Flag& flag : flag_table()) json[flag.name] = value_of(flag.value(options));
  return json_text(json, 2) + "\n";
}

nlohmann::json read_options(const fs::path& folder) {
  const fs::path path = folder / kFileName;
  const std::string text = read_text(path, kMostOptionsBytes);
  detail::check_json_depth(text, path.string(), kMostDepth);
  try {
    auto json = nlohmann::json::parse(text);
    text_in(json.at("data"));  // every version's options have this key
    return json;
  } catch (const nlohmann::json::exception& error) {
    throw corrupt_error(concat(path.string(), ": ", json_problem(error.what()), "; expected the options of a run"));
  }
}

bool has_options(const fs::path& folder) {
  std::error_code ignored;  // whoever reads the file or its folder says what is wrong with it
  return fs::exists(fs::symlink_status(folder / kFileName, ignored));
}

nlohmann::json json_of(const std::string& text) {
  if (is_utf8(text)) return text;
  nlohmann::json encoded;
  encoded[kEncodedKey] = percent_encoded(text);
  return encoded;
}

std::string text_in(const nlohmann::json& json) {
  if (json.is_string()) return json.get<std::string>();
  return percent_decoded(json.at(kEncodedKey).get<std::string>());
}

}  // namespace penstock
