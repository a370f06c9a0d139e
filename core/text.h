// Text: makes, joins and splits texts, finds the name that a user probably meant, and shows a message as one line.
#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// The values as text, one after the other, as operator<< writes them: `concat("workers is ", -1)` is "workers is -1".
template <class... Values>
std::string concat(const Values&... values) {
  std::ostringstream out;
  (out << ... << values);
  return out.str();
}

/// "a, b, c".
std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");

/// The parts of `text` between the separators. An empty text gives one empty part.
std::vector<std::string> split(std::string_view text, char separator);

/// The known name with the smallest edit distance to `name` (Damerau 1964: exchanging two neighbouring letters counts
/// as one edit). "" when that distance is more than a third of the length of `name` (but 1 is always allowed), because
/// a name so different is not a typing mistake.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// `text` itself when it has at most `most` bytes. Otherwise its begin and its end, and between them the number of
/// bytes that are left out: `aaaa...(99,800 bytes)...aaaa`. A character of several bytes is never cut. Requires most >=
/// 100.
std::string shortened(std::string_view text, size_t most = 200);

/// `"text"`, shortened. Messages quote in this way what a user has typed or what a file contains.
std::string in_quotes(std::string_view text);

/// `unknown <what> "<name>"; did you mean "<near>"? known: a, b, c`: the text of a message about an unknown name.
std::string unknown_name(std::string_view what, std::string_view name, const std::vector<std::string>& known);

/// `message` without control characters, and without the middle of each word of more than 200 bytes. A message may
/// quote names and contents of files that somebody else made: those must not begin a line of their own, steer the
/// terminal or fill the screen.
std::string one_line(std::string message);

/// The message of an error: one line, of 2000 bytes at most.
std::string error_line(const std::string& message);

}  // namespace penstock
