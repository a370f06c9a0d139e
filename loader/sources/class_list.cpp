// ClassList: numbers for names.
#include "loader/sources/class_list.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <tuple>

#include "core/error.h"
#include "core/number.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

constexpr uint32_t kMaxClasses = 1U << 20;

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

/// The label that a name is; nothing for any other.
std::optional<uint32_t> label_of_name(const std::string& name) {
  const auto number = number_of(name);
  const bool is_label = number && *number >= 0 && *number <= UINT32_MAX && *number == std::floor(*number);
  return is_label ? std::optional(static_cast<uint32_t>(*number)) : std::nullopt;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr const char* kSpace = " \t\n\r\v\f";
  const size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

std::optional<int64_t> int_of(std::string_view text) {
  text = trimmed(text);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  int64_t number = 0;
  size_t digits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool joins_digits = text[i] == '_' && i > 0 && is_digit(text[i - 1]) && i + 1 < text.size();
    if (joins_digits) continue;
    if (!is_digit(text[i]) || (number > 0 && ++digits > 17)) return {};
    number = number * 10 + (text[i] - '0');
  }
  if (text.empty()) return {};
  return is_negative ? -number : number;
}

std::optional<double> number_of(std::string_view text) {
  text = trimmed(text);
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.size() > 1 && digits[0] == '0' && is_digit(digits[1])) return {};
  const auto number = parse_number<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

bool is_missing(std::string_view text) {
  constexpr std::array<std::string_view, 7> kMissing{"", "nan", "na", "n/a", "<na>", "none", "null"};
  std::string lower(trimmed(text));
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return std::find(kMissing.begin(), kMissing.end(), lower) != kMissing.end();
}

uint32_t ClassList::add(const std::string& name) {
  const auto [entry, is_new] = known_.emplace(name, static_cast<uint32_t>(known_.size()));
  labels_.push_back(entry->second);
  return entry->second;
}

void ClassList::check_values(const std::function<std::string(uint64_t)>& where_of) const {
  const auto missing =
      std::find_if(known_.begin(), known_.end(), [](const auto& entry) { return is_missing(entry.first); });
  const bool has_others =
      std::any_of(known_.begin(), known_.end(), [](const auto& entry) { return !is_missing(entry.first); });
  const bool is_numbers = std::all_of(known_.begin(), known_.end(), [](const auto& entry) {
    return is_missing(entry.first) || number_of(entry.first);
  });
  if (missing == known_.end() || !has_others || !is_numbers) return;
  const auto sample = std::find(labels_.begin(), labels_.end(), missing->second) - labels_.begin();
  throw corrupt_error(concat(where_of(static_cast<uint64_t>(sample)), ": label is ", in_quotes(missing->first),
                             "; expected a number, as the others are"));
}

void ClassList::finish(const std::string& where, const std::function<std::string(uint64_t)>& where_of) {
  check_values(where_of);
  std::vector<uint32_t> label_of(known_.size());
  const bool is_labels = !known_.empty() && std::all_of(known_.begin(), known_.end(),
                                                        [](const auto& entry) { return label_of_name(entry.first); });
  if (is_labels) {
    uint32_t greatest = 0;
    for (const auto& [name, number] : known_) greatest = std::max(greatest, label_of[number] = *label_of_name(name));
    if (greatest >= kMaxClasses)
      throw corrupt_error(concat(where, ": class ", greatest, "; expected numbers below ", kMaxClasses));
    for (uint32_t label = 0; label <= greatest; ++label) names_.push_back(std::to_string(label));
  } else {
    const bool is_numbers =
        std::all_of(known_.begin(), known_.end(), [](const auto& entry) { return number_of(entry.first); });
    for (const auto& [name, number] : known_) names_.push_back(name);
    std::sort(names_.begin(), names_.end(), [&](const std::string& a, const std::string& b) {
      const double left = is_numbers ? *number_of(a) : 0, right = is_numbers ? *number_of(b) : 0;
      return std::tie(left, a) < std::tie(right, b);
    });
    for (uint32_t label = 0; label < names_.size(); ++label) label_of[known_.at(names_[label])] = label;
  }
  for (auto& label : labels_) label = label_of[label];
  known_.clear();
}

}  // namespace penstock::detail
