// error_line(): one line, of a length that a terminal can show.
#include "core/error_line.h"

#include "core/text.h"

namespace penstock {

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
