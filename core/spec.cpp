// Spec: parses specs, and gives typed access to their values.
#include "core/spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/number.h"
#include "core/text.h"

namespace penstock {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

constexpr int kMostBraces = 8;  // within each other, so that lists within lists cannot exhaust the stack

struct Braces {
  int open = 0, deepest = 0;  // at the end of the text; the most within each other
};

/// Calls visit(i) for the characters of `text` that are outside of braces. A brace that closes nothing is one of them.
template <class Visit>
Braces outside_of_braces(std::string_view text, const Visit& visit) {
  Braces braces;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{' || text[i] == '}') braces.open = std::max(braces.open + (text[i] == '{' ? 1 : -1), 0);
    braces.deepest = std::max(braces.deepest, braces.open);
    if (braces.open == 0) visit(i);
  }
  return braces;
}

/// Splits `text` at the commas that are outside of parentheses. Parentheses within braces are part of a value.
std::vector<std::string_view> split_top_level(std::string_view kind, std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  const auto unbalanced = [&](const char* what, size_t at) {
    return config_error(concat(kind, " ", in_quotes(text), ": unbalanced ", what, " at character ", at,
                               "; expected name(key=value,...)"));
  };
  const Braces braces = outside_of_braces(text, [&](size_t i) {
    if (text[i] == ',' && depth == 0) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth < 0 || depth > 1) throw unbalanced("parentheses", i);
  });
  if (depth != 0) throw unbalanced(braces.open > 0 ? "braces" : "parentheses", text.size());
  parts.push_back(text.substr(begin));
  return parts;
}

/// Splits what is inside of the parentheses at the commas that are outside of braces: `shards=x-{a,b}.tar` is one key.
std::vector<std::string> split_keys(std::string_view kind, std::string_view inside) {
  const int deepest = outside_of_braces(inside, [](size_t) {}).deepest;
  if (deepest > kMostBraces)
    throw config_error(concat(kind, " ", in_quotes(inside), ": has ", deepest,
                              " braces within each other; expected up to ", kMostBraces));
  return split_outside_braces(inside, ',');
}

/// `RandomResizedCrop`, a class of Python, as we write names: `random-resized-crop`.
std::string dashed(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const bool is_capital = c >= 'A' && c <= 'Z';
    if (is_capital && !text.empty() && text.back() != '-') text += '-';
    text += is_capital ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return text;
}

}  // namespace

std::vector<std::string> split_outside_braces(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  outside_of_braces(text, [&](size_t i) {
    if (text[i] != separator) return;
    parts.emplace_back(text.substr(begin, i - begin));
    begin = i + 1;
  });
  parts.emplace_back(text.substr(begin));
  return parts;
}

Spec::Spec(std::string kind, std::string name, std::vector<std::pair<std::string, std::string>> values)
    : kind_(std::move(kind)), name_(std::move(name)), values_(std::move(values)) {}

std::string Spec::where() const { return kind_ + " " + name_; }

const std::string* Spec::find(const std::string& key) const {
  if (keys_ && std::find(keys_->begin(), keys_->end(), key) == keys_->end())
    throw bug_error(concat(where(), ": is asked for its key ", in_quotes(key), "; expected one that it registers"));
  for (const auto& [name, value] : values_)
    if (name == key) return &value;
  return nullptr;
}

bool Spec::has(const std::string& key) const { return find(key) != nullptr; }

double Spec::number(const std::string& key, const std::string& text) const {
  const auto value = parse_number<double>(text);
  if (!value || !std::isfinite(*value))
    throw config_error(concat(where(), ": ", key, " is ", in_quotes(text), "; expected a finite number"));
  return *value;
}

std::string Spec::get(const std::string& key, const char* fallback) const {
  const auto* text = find(key);
  return text ? *text : std::string(fallback);
}

double Spec::get(const std::string& key, double fallback) const {
  const auto* text = find(key);
  return text ? number(key, *text) : fallback;
}

int Spec::get(const std::string& key, int fallback) const {
  const auto* text = find(key);
  if (!text) return fallback;
  int value = 0;
  const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (code == std::errc::result_out_of_range)
    throw config_error(concat(where(), ": ", key, " is ", in_quotes(*text), "; expected a whole number from ",
                              std::numeric_limits<int>::min(), " to ", std::numeric_limits<int>::max()));
  if (code != std::errc() || end != text->data() + text->size())
    throw config_error(concat(where(), ": ", key, " is ", in_quotes(*text), "; expected a whole number"));
  return value;
}

bool Spec::get(const std::string& key, bool fallback) const {
  const auto* text = find(key);
  if (!text) return fallback;
  if (*text == "true" || *text == "on" || *text == "1") return true;
  if (*text == "false" || *text == "off" || *text == "0") return false;
  throw config_error(concat(where(), ": ", key, " is ", in_quotes(*text), "; expected true or false"));
}

bool Spec::is_second(const std::string& key, const char* first, const char* second) const {
  const std::string word = get(key, first);
  if (word != first && word != second)
    throw config_error(concat(where(), ": ", key, " is ", in_quotes(word), "; expected ", first, " or ", second));
  return word == second;
}

Range Spec::get(const std::string& key, Range fallback) const {
  const auto* text = find(key);
  if (!text) return fallback;
  const auto parts = split(*text, ':');
  if (parts.size() > 2)
    throw config_error(concat(where(), ": ", key, " is ", in_quotes(*text), "; expected a number or low:high"));
  const Range range{number(key, parts.front()), number(key, parts.back())};
  if (range.low > range.high)
    throw config_error(concat(where(), ": ", key, " is ", in_quotes(*text), "; expected low:high with low <= high"));
  return range;
}

std::vector<double> Spec::get(const std::string& key, const std::vector<double>& fallback) const {
  const auto* text = find(key);
  if (!text) return fallback;
  std::vector<double> values;
  for (const auto& part : split(*text, ':')) values.push_back(number(key, part));
  return values;
}

Spec Spec::with_keys(std::vector<std::string> keys) const {
  for (const auto& [key, value] : values_) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    const std::string near = nearest_name(key, keys);
    throw config_error(concat(where(), ": unknown key ", in_quotes(key), "; ",
                              near.empty() ? "" : "did you mean " + in_quotes(near) + "? ",
                              keys.empty() ? "it takes no keys" : "it takes " + join(keys)));
  }
  Spec spec = *this;
  spec.keys_ = std::move(keys);
  return spec;
}

Spec Spec::without(const std::string& key) const {
  Spec spec = *this;
  std::erase_if(spec.values_, [&](const auto& pair) { return pair.first == key; });
  return spec;
}

std::string Spec::text() const {
  std::string keys;
  for (const auto& [key, value] : values_) keys += (keys.empty() ? "" : ",") + key + "=" + value;
  return keys.empty() ? name_ : name_ + "(" + keys + ")";
}

Spec parse_spec(std::string_view kind, std::string_view text) {
  const auto whole = trimmed(text);
  const auto open = whole.find('(');
  const auto name = trimmed(whole.substr(0, open));
  const auto malformed = [&](const std::string& fact) {
    return config_error(concat(kind, " ", in_quotes(whole), ": ", fact, "; expected name(key=value,...)"));
  };
  const auto without_key = [&](const std::string& part) {
    return config_error(concat(kind, " ", in_quotes(whole), ": ", in_quotes(part), " is not key=value; expected ",
                               dashed(name), "(key=value,...), with the name of each value"));
  };
  if (name.empty()) throw malformed("no name");
  std::vector<std::pair<std::string, std::string>> values;
  if (open == std::string_view::npos) return {std::string(kind), std::string(name), values};
  if (whole.back() != ')') throw malformed("no closing parenthesis at the end");
  const auto inside = trimmed(whole.substr(open + 1, whole.size() - open - 2));
  if (inside.empty()) return {std::string(kind), std::string(name), values};
  for (const auto& part : split_keys(kind, inside)) {
    const auto equals = part.find('=');
    if (equals == std::string::npos) throw without_key(part);
    const std::string key(trimmed(std::string_view(part).substr(0, equals)));
    const std::string value(trimmed(std::string_view(part).substr(equals + 1)));
    if (key.empty() || value.empty()) throw without_key(part);
    for (const auto& [seen, unused] : values)
      if (seen == key) throw malformed("key " + in_quotes(key) + " is given twice");
    values.emplace_back(key, value);
  }
  return {std::string(kind), std::string(name), std::move(values)};
}

std::vector<Spec> parse_spec_list(std::string_view kind, std::string_view text) {
  std::vector<Spec> specs;
  if (trimmed(text).empty()) return specs;
  for (const auto part : split_top_level(kind, text)) specs.push_back(parse_spec(kind, part));
  return specs;
}

}  // namespace penstock
