// Lists of ids: a line at a time.
#include "loader/samplers/id_list.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/error.h"
#include "core/number.h"
#include "core/regular_file.h"
#include "core/strict_json.h"
#include "core/text.h"

namespace penstock {
namespace {

constexpr int kMaxDepth = 8;  // of the JSON of a line
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr const char* kSpaces = " \t\r";

/// Calls body(line without spaces around it, "FILE, line 3") for each line that is not empty.
void for_each_line(const std::string& path, const std::function<void(std::string_view, const std::string&)>& body) {
  const std::string text = read_text(path, kMostBytes);
  size_t number = 0;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    const auto first = line.find_first_not_of(kSpaces);
    if (first == std::string_view::npos) continue;
    line = line.substr(first, line.find_last_not_of(kSpaces) - first + 1);
    body(line, concat(path, ", line ", number + 1));
  }
}

}  // namespace

std::vector<ListedId> read_ids(const std::string& path, const std::string& split) {
  std::vector<ListedId> ids;
  for_each_line(path, [&](std::string_view line, const std::string& where) {
    if (line.front() != '{') {
      const auto id = parse_number<uint64_t>(line);
      if (!id)
        throw config_error(concat(where, ": is ", in_quotes(line), "; expected the id of a sample, or a line of ",
                                  "quarantine.jsonl"));
      ids.push_back({*id, ""});
      return;
    }
    const auto json = detail::parse_strict_json(line, where, kMaxDepth);
    if (!json.contains("id") || !json["id"].is_number_unsigned())
      throw config_error(concat(where, ": is ", in_quotes(line), "; expected \"id\" with the id of a sample"));
    const bool is_of_other = json.contains("split") && json["split"].is_string() && json["split"] != split;
    const bool has_data = json.contains("data") && json["data"].is_string();
    if (!is_of_other) ids.push_back({json["id"].get<uint64_t>(), has_data ? json["data"].get<std::string>() : ""});
  });
  return ids;
}

std::unordered_map<uint64_t, double> read_id_weights(const std::string& path) {
  std::unordered_map<uint64_t, double> weights;
  for_each_line(path, [&](std::string_view line, const std::string& where) {
    const size_t end = line.find_first_of(" \t,"), begin = line.find_first_not_of(" \t,", end);
    const auto id = parse_number<uint64_t>(line.substr(0, end));
    const auto weight = parse_number<double>(line.substr(std::min(begin, line.size())));
    if (!id || !weight)
      throw config_error(
          concat(where, ": is ", in_quotes(line), "; expected the id of a sample and its weight, 17,0.5"));
    if (!weights.emplace(*id, *weight).second)
      throw config_error(concat(where, ": id ", *id, " has a weight already; expected one line for each id"));
  });
  return weights;
}

}  // namespace penstock
