// The names in WebDataset's tars.
#include "loader/sources/tar_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

#include "core/error.h"
#include "core/number.h"
#include "core/text.h"
#include "loader/files/input_file.h"
#include "loader/sources/picture_files.h"
#include "loader/sources/split_names.h"

namespace penstock::detail {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxNames = 1000000;

/// The numbers of "000..009", with the zeros of the first one.
std::vector<std::string> numbers_in(const std::string& where, const std::string& text) {
  const size_t dots = std::min(text.find(".."), text.size());
  const std::string low = text.substr(0, dots), high = text.substr(std::min(dots + 2, text.size()));
  const auto first = parse_number<uint64_t>(low), last = parse_number<uint64_t>(high);
  const bool is_range = first && last && *first <= *last && *last - *first < kMaxNames;
  if (!is_range)
    throw config_error(concat(where, ": the pattern has ", in_quotes(concat("{", text, "}")),
                              "; expected {FIRST..LAST} with up to ", kMaxNames, " numbers, or {A,B}"));
  std::vector<std::string> numbers;
  for (uint64_t number = *first; number <= *last; ++number) {
    const std::string digits = std::to_string(number);
    numbers.push_back(std::string(low.size() - std::min(low.size(), digits.size()), '0') + digits);
  }
  return numbers;
}

/// What stands for "{text}": the parts of "a,b", or the numbers of "000..009".
std::vector<std::string> choices_in(const std::string& where, const std::string& text) {
  return text.find(',') == std::string::npos ? numbers_in(where, text) : split(text, ',');
}

/// The tars that `pattern`, a path, stands for.
std::vector<fs::path> tars_of_pattern(const Spec& spec, const std::string& pattern) {
  std::vector<fs::path> tars;
  for (const auto& name : expand_braces(spec.where(), pattern)) {
    if (!is_file(name)) throw io_error(concat(name, ": is not there; expected the tars of ", pattern));
    tars.emplace_back(name);
  }
  check_each_once(spec.where(), tars);
  return tars;
}

/// The tars in a folder whose names begin with `prefix`, which no letter follows (trainval-0.tar is none of train);
/// sorted.
std::vector<fs::path> tars_in(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> tars;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
    const bool has_prefix = name.starts_with(prefix) && (prefix.empty() || !is_letter(name[prefix.size()]));
    if (entry.is_regular_file() && tar_stem(name) && has_prefix) tars.push_back(entry.path());
  }
  std::sort(tars.begin(), tars.end());
  return tars;
}

/// As split_entry(): only the user can say which one of val-0.tar and test-0.tar is meant.
std::vector<fs::path> tars_of_split(const fs::path& input, const std::string& split) {
  std::vector<fs::path> tars;
  for (const auto& name : split_names(split)) {
    auto own = tars_in(input, name);
    if (!own.empty() && !tars.empty())
      throw config_error(concat(input.string(), ": has both ", tars.front().filename().string(), " and ",
                                own.front().filename().string(), "; expected one of them for split ", split,
                                ", or shards=PATTERN"));
    if (tars.empty()) tars = std::move(own);
  }
  return tars;
}

}  // namespace

std::pair<std::string, std::string> key_and_ending(const std::string& path) {
  const size_t name = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  const size_t dot = path.find('.', name);
  if (dot == std::string::npos || dot == name) return {path, ""};
  std::string ending = path.substr(dot + 1);
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  const size_t begin = path.starts_with("./") ? 2 : 0;
  return {path.substr(begin, dot - begin), ending};
}

bool has_last_ending(std::string_view ending, std::string_view last) {
  return ending == last ||
         (ending.size() > last.size() && ending.ends_with(last) && ending[ending.size() - last.size() - 1] == '.');
}

std::optional<std::string> tar_stem(const std::string& name) {
  for (const std::string_view ending : {".tar", ".tar.gz", ".tgz", ".tar.zst"})
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  return {};
}

bool is_pickle_ending(std::string_view ending) {
  constexpr std::array<std::string_view, 5> kPickles{"pyd", "pickle", "pkl", "pth", "pt"};
  return std::any_of(kPickles.begin(), kPickles.end(), [&](auto pickle) { return has_last_ending(ending, pickle); });
}

std::vector<std::string> field_names(const std::vector<std::string>& endings) {
  std::vector<std::string> names;
  for (const auto& ending : endings) names.push_back(ending.substr(0, ending.rfind('.')));
  auto result = names;
  for (size_t i = 0; i < names.size(); ++i)
    if (std::count(names.begin(), names.end(), names[i]) > 1) result[i] = endings[i];
  return result;
}

std::vector<std::string> expand_braces(const std::string& where, const std::string& pattern) {
  const size_t open = pattern.find('{'), close = pattern.find('}');
  if (open == std::string::npos && close == std::string::npos) return {pattern};
  if (open == std::string::npos || close == std::string::npos || close < open || pattern.find('{', open + 1) < close)
    throw config_error(
        concat(where, ": the pattern is ", in_quotes(pattern), "; expected braces in pairs, as {000..009} or {a,b}"));
  std::vector<std::string> names;
  const auto rests = expand_braces(where, pattern.substr(close + 1));
  for (const auto& choice : choices_in(where, pattern.substr(open + 1, close - open - 1)))
    for (const auto& rest : rests) {
      if (names.size() >= kMaxNames)
        throw config_error(
            concat(where, ": the pattern is ", in_quotes(pattern), "; expected up to ", kMaxNames, " names"));
      names.push_back(pattern.substr(0, open) + choice + rest);
    }
  return names;
}

std::vector<fs::path> find_tars(const Spec& spec, const fs::path& input, const std::string& split) {
  const std::string pattern = spec.get("shards", "");
  if (pattern.empty() && fs::is_regular_file(input)) return {input};
  if (pattern.empty() && !fs::exists(input) && input.string().find('{') != std::string::npos)
    return tars_of_pattern(spec, input.string());
  input_folder("webdataset", input);
  if (!pattern.empty()) return tars_of_pattern(spec, (input / pattern).string());
  const auto folder = split_entry(input, split, "");
  auto tars = folder ? tars_in(*folder, "") : tars_of_split(input, split);
  if (tars.empty() && !folder && split != "test") tars = tars_in(input, "");
  if (tars.empty())
    throw io_error(
        concat(input.string(), ": no tars for split ", split, "; expected ", split, "*.tar, or shards=PATTERN"));
  return tars;
}

}  // namespace penstock::detail
