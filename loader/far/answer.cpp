// What services answer.
#include "loader/far/answer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>
#include <utility>

#include "core/number.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

constexpr size_t kMostHeaders = 100, kMostOfCode = 64;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// The five entities that XML has without a declaration; ETags come with them.
std::string without_entities(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, char>, 5> kEntities{
      {{"&quot;", '"'}, {"&amp;", '&'}, {"&apos;", '\''}, {"&lt;", '<'}, {"&gt;", '>'}}};
  std::string result;
  while (!text.empty()) {
    const auto found = std::ranges::find_if(kEntities, [&](const auto& one) { return text.starts_with(one.first); });
    result += found == kEntities.end() ? text.front() : found->second;
    text.remove_prefix(found == kEntities.end() ? 1 : found->first.size());
  }
  return result;
}

}  // namespace

void add_header_line(std::map<std::string, std::string>& headers, std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) return headers.clear();
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || headers.size() >= kMostHeaders) return;
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  const std::string name = lower(line.substr(0, colon));
  std::string& known = headers[name];
  known = name == "x-goog-hash" && !known.empty() ? concat(known, ",", value) : std::string(value);
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t minus = text.find('-'), slash = text.find('/');
  if (!text.starts_with(kUnit) || minus == std::string_view::npos || slash == std::string_view::npos || slash < minus)
    return {};
  const auto begin = parse_number<uint64_t>(text.substr(kUnit.size(), minus - kUnit.size()));
  const std::string_view size = text.substr(slash + 1);
  const auto total = parse_number<uint64_t>(size);
  if (!begin || (!total && size != "*")) return {};
  return ContentRange{*begin, total};
}

std::string xml_value(std::string_view document, const std::string& tag) {
  const std::string opening = concat("<", tag, ">"), closing = concat("</", tag, ">");
  const size_t at = document.find(opening);
  if (at == std::string_view::npos) return "";
  const size_t begin = at + opening.size(), end = document.find(closing, begin);
  return end == std::string_view::npos ? "" : without_entities(document.substr(begin, end - begin));
}

std::string error_code_of(std::string_view document) {
  std::string code = xml_value(document, "Code");
  const bool is_word =
      code.size() <= kMostOfCode && std::ranges::all_of(code, [](unsigned char c) { return std::isalnum(c) != 0; });
  return is_word ? code : "";
}

std::string region_text(const std::string& header, std::string_view document) {
  std::string region = header.empty() ? xml_value(document, "Region") : header;
  const bool is_word = region.size() <= kMostOfCode &&
                       std::ranges::all_of(region, [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; });
  return is_word ? region : "";
}

int64_t parse_iso_time(const std::string& text) {
  std::tm parts{};
  const char* const end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  return end == nullptr ? 0 : timegm(&parts);
}

}  // namespace penstock::detail
