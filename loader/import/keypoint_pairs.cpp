// Key point pairs: names as words, of which a mirror exchanges some.
#include "loader/import/keypoint_pairs.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "core/error.h"
#include "core/number.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

enum class Letter { kSmall, kCapital, kDigit, kOther };

Letter kind_of(char letter) {
  const auto byte = static_cast<unsigned char>(letter);
  if (std::isdigit(byte) != 0) return Letter::kDigit;
  if (std::isupper(byte) != 0) return Letter::kCapital;
  return std::islower(byte) != 0 || byte >= 0x80 ? Letter::kSmall : Letter::kOther;
}

/// The words of a name in small letters: they end at what is no letter, and before a capital as in leftEye and LEye.
std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words(1);
  for (size_t i = 0; i < name.size(); ++i) {
    const Letter kind = kind_of(name[i]), before = i == 0 ? Letter::kOther : kind_of(name[i - 1]);
    const bool ends_capitals = i + 1 < name.size() && kind_of(name[i + 1]) == Letter::kSmall;
    const bool begins = kind != before && !(before == Letter::kCapital && kind == Letter::kSmall);
    if (begins || (kind == Letter::kCapital && ends_capitals)) words.emplace_back();
    words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
  }
  std::erase(words, "");
  return words;
}

/// The word in a mirror: left and right also as a part of it, as in lefteye.
std::string mirrored(const std::string& word) {
  if (word == "l") return "r";
  if (word == "r") return "l";
  std::string other;
  for (size_t at = 0; at < word.size();) {
    const bool is_left = word.compare(at, 4, "left") == 0, is_right = word.compare(at, 5, "right") == 0;
    other += is_left ? "right" : is_right ? "left" : word.substr(at, 1);
    at += is_left ? 4 : is_right ? 5 : 1;
  }
  return other;
}

int number_of(const std::string& where, const std::string& text, const std::vector<std::string>& names) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<int>(found - names.begin());
  if (const auto number = parse_number<size_t>(text); number && *number < names.size())
    return static_cast<int>(*number);
  throw config_error(concat(where, ": pairs has ", in_quotes(text), "; expected none, or a/b:c/d of the key points ",
                            shortened(join(names)), ", or of their numbers from 0 on"));
}

}  // namespace

/// The left one first.
KeypointPairs left_right_pairs(const std::vector<std::string>& names) {
  std::map<std::vector<std::string>, std::vector<int>> numbers;
  for (size_t i = 0; i < names.size(); ++i) numbers[words_of(names[i])].push_back(static_cast<int>(i));
  KeypointPairs pairs;
  for (const auto& [words, own] : numbers) {
    std::vector<std::string> other = words;
    std::transform(other.begin(), other.end(), other.begin(), mirrored);
    const auto found = numbers.find(other);
    const bool is_pair = found != numbers.end() && own.size() == 1 && found->second.size() == 1;
    if (is_pair && words < other) pairs.emplace_back(own[0], found->second[0]);
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

KeypointPairs pairs_of_text(const std::string& where, const std::string& text, const std::vector<std::string>& names) {
  KeypointPairs pairs;
  if (text == "none") return pairs;
  std::vector<bool> is_used(names.size());
  for (const auto& item : split(text, ':')) {
    const auto slash = item.find('/');
    const int a = number_of(where, item.substr(0, slash), names);
    const int b = slash == std::string::npos ? a : number_of(where, item.substr(slash + 1), names);
    for (const int number : {a, b}) {
      if (is_used[static_cast<size_t>(number)])
        throw config_error(concat(where, ": pairs has ", in_quotes(item), "; expected two different key points ",
                                  "separated by '/', each of them once"));
      is_used[static_cast<size_t>(number)] = true;
    }
    pairs.emplace_back(a, b);
  }
  return pairs;
}

}  // namespace penstock::detail
