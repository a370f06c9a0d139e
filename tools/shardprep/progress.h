// ProgressLine: how far a packing is, for a person at a terminal or for a log.
#pragma once

#include <string>

#include "loader/pack.h"

namespace penstock {

/// On a terminal one line that is rewritten; elsewhere a line every five seconds. Writes to stderr, which leaves stdout
/// to results. Thread-safety: none.
class ProgressLine {
 public:
  ProgressLine(std::string name, bool is_quiet);
  void show(const PackProgress& progress);
  void say(const std::string& message);  ///< A line that stays, quiet or not.
  void finish();                         ///< Ends the rewritten line.

 private:
  std::string name_;
  bool is_quiet_, is_terminal_;
  bool is_line_open_ = false;
  double last_shown_s_ = 0;
};

}  // namespace penstock
