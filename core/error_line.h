// error_line(): a message as a program shows it to a person.
#pragma once

#include <string>

namespace penstock {

/// `message` without control characters, and without the middle of each word of more than 200 bytes. A message may
/// quote names and contents of files that somebody else made: those must not begin a line of their own, steer the
/// terminal or fill the screen.
std::string one_line(std::string message);

/// The message of an error: one line, of 2000 bytes at most.
std::string error_line(const std::string& message);

}  // namespace penstock
