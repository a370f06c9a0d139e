// ClassList: numbers for names.
#include "loader/sources/class_list.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

constexpr uint32_t kMaxClasses = 1U << 20;

/// The number that `name` is; nothing for any other text, as "07".
std::optional<uint32_t> number_of(const std::string& name) {
  uint32_t number = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_all = code == std::errc() && end == name.data() + name.size();
  return is_all && std::to_string(number) == name ? std::optional(number) : std::nullopt;
}

}  // namespace

uint32_t ClassList::add(const std::string& name) {
  const auto [entry, is_new] = known_.emplace(name, static_cast<uint32_t>(known_.size()));
  labels_.push_back(entry->second);
  return entry->second;
}

void ClassList::finish(const std::string& where) {
  std::vector<uint32_t> label_of(known_.size());
  const bool is_numbers = !known_.empty() && std::all_of(known_.begin(), known_.end(),
                                                         [](const auto& entry) { return number_of(entry.first); });
  if (is_numbers) {
    uint32_t greatest = 0;
    for (const auto& [name, number] : known_) greatest = std::max(greatest, label_of[number] = *number_of(name));
    if (greatest >= kMaxClasses)
      throw corrupt_error(concat(where, ": class ", greatest, "; expected numbers below ", kMaxClasses));
    for (uint32_t label = 0; label <= greatest; ++label) names_.push_back(std::to_string(label));
  } else {
    for (const auto& [name, number] : known_) names_.push_back(name);
    std::sort(names_.begin(), names_.end());
    for (uint32_t label = 0; label < names_.size(); ++label) label_of[known_.at(names_[label])] = label;
  }
  for (auto& label : labels_) label = label_of[label];
  known_.clear();
}

}  // namespace penstock::detail
