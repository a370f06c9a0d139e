// Text: joining values into messages, and finding the name that was probably meant.
#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// The values, streamed one after the other: `concat("workers is ", -1)` is "workers is -1".
template <class... Values>
std::string concat(const Values&... values) {
  std::ostringstream out;
  (out << ... << values);
  return out.str();
}

/// "a, b, c".
std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");

/// The parts of `text` between the separators; one empty part for an empty text.
std::vector<std::string> split(std::string_view text, char separator);

/// The known name at the least edit distance from `name` (Damerau 1964: two neighbours that changed places are one
/// edit), or "" when the distance is above a third of its length: what is farther is no typing mistake.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// `text` where it has at most `most` bytes. Otherwise its begin and its end, and between them how much is left out:
/// `aaaa...(99,800 bytes)...aaaa`; a character of several bytes is left out whole. `most` is 100 or more.
std::string shortened(std::string_view text, size_t most = 200);

/// `"text"`, shortened: how a message says what somebody typed, or what stands in a file.
std::string in_quotes(std::string_view text);

/// `unknown <what> "<name>"; did you mean "<near>"? known: a, b, c`: the tail of an unknown-name message.
std::string unknown_name(std::string_view what, std::string_view name, const std::vector<std::string>& known);

}  // namespace penstock
