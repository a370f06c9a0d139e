// RunFingerprint: a JSON list of pairs, so that no value can pass for two.
#include "train/rendezvous/run_fingerprint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "core/text.h"

namespace penstock {
namespace {

const std::string* value_in(const RunFingerprint& fingerprint, const std::string& name) {
  const auto found = std::find_if(fingerprint.begin(), fingerprint.end(),
                                  [&](const FingerprintEntry& entry) { return entry.name == name; });
  return found == fingerprint.end() ? nullptr : &found->value;
}

std::string difference(int rank, const RunFingerprint& mine, const RunFingerprint& first) {
  std::string text;
  std::vector<std::string> others;
  for (const auto& [name, value] : first) {
    const std::string* own = value_in(mine, name);
    if (own != nullptr && *own == value) continue;
    if (text.empty())
      text = concat("rank ", rank, ": ", name, " is ", own == nullptr ? "unknown" : *own, "; expected ", value,
                    ", as rank 0 has it");
    else
      others.push_back(name);
  }
  if (others.empty()) return text;
  return concat(text, " (", join(others), others.size() == 1 ? " differs too)" : " differ too)");
}

}  // namespace

std::string to_text(const RunFingerprint& fingerprint) {
  auto json = nlohmann::json::array();
  for (const auto& [name, value] : fingerprint) json.push_back({name, value});
  return json_text(json);
}

RunFingerprint parse_fingerprint(const std::string& text) {
  RunFingerprint fingerprint;
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return {};
  for (const auto& pair : json) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) return {};
    fingerprint.push_back({pair[0].get<std::string>(), pair[1].get<std::string>()});
  }
  return fingerprint;
}

std::string difference_of(const std::vector<RunFingerprint>& ranks) {
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    const std::string text = difference(static_cast<int>(rank), ranks[rank], ranks[0]);
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace penstock
