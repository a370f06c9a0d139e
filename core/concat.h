// concat(): values joined into one text, above all into messages.
#pragma once

#include <sstream>
#include <string>

namespace penstock {

/// The values as text, one after the other, as operator<< writes them: `concat("workers is ", -1)` is "workers is -1".
template <class... Values>
std::string concat(const Values&... values) {
  std::ostringstream out;
  (out << ... << values);
  return out.str();
}

}  // namespace penstock
