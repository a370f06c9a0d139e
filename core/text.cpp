// Text: joins and splits texts, finds the nearest known name, and makes one line of a message.
#include "core/text.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/number_text.h"

namespace penstock {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  // Edit distances from a's first i-2, i-1 and i letters to each prefix of b.
  std::vector<size_t> before, last, row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j - 1] + (a[i - 1] != b[j - 1]), last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (const auto& part : parts) {
    if (&part != &parts.front()) joined += separator;
    joined += part;
  }
  return joined;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  constexpr size_t kMostBytes = 1000;  // a longer one was not typed, and all its letters are compared with all others
  std::string nearest;
  if (name.size() > kMostBytes) return nearest;
  size_t least = std::max<size_t>(1, name.size() / 3) + 1;
  for (const auto& candidate : known) {
    if (candidate.size() >= name.size() + least) continue;  // as many letters would have to be added
    const size_t distance = edit_distance(name, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  const auto is_inside_of_character = [&](size_t at) { return at < text.size() && (text[at] & 0xC0) == 0x80; };
  size_t begin = most / 2, end = text.size() - most / 2;
  while (begin > 0 && is_inside_of_character(begin)) --begin;
  while (is_inside_of_character(end)) ++end;
  return concat(text.substr(0, begin), "...(", count_text(end - begin, "byte"), ")...", text.substr(end));
}

std::string in_quotes(std::string_view text) { return concat('"', shortened(text), '"'); }

std::string unknown_name(std::string_view what, std::string_view name, const std::vector<std::string>& known) {
  const std::string near = nearest_name(name, known);
  return concat("unknown ", what, " ", in_quotes(name), "; ",
                near.empty() ? "" : "did you mean " + in_quotes(near) + "? ", "known: ", join(known));
}

std::string one_line(std::string message) {
  for (char& c : message)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = c == '\n' ? ' ' : '?';
  auto words = split(message, ' ');
  for (auto& word : words) word = shortened(word);
  return join(words, " ");
}

std::string error_line(const std::string& message) {
  constexpr size_t kMostBytes = 2000;        // our longest message lists all flags; a longer one quotes somebody's text
  constexpr size_t kMostLookedAt = 1 << 16;  // a word for each byte would take 40 times the memory of the message
  return shortened(one_line(shortened(message, kMostLookedAt)), kMostBytes);
}

}  // namespace penstock
