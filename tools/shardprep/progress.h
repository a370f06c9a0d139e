// ProgressLine: how far a packing has come, for a person at a terminal or for a log.
#pragma once

#include <string>

#include "loader/pack/pack.h"

namespace penstock {

/// On a terminal it rewrites one line; elsewhere it writes a line every five seconds. It writes to stderr, because
/// stdout is for results. Thread-safety: none.
class ProgressLine {
 public:
  ProgressLine(std::string name, bool is_quiet);
  void show(const PackProgress& progress);
  void say(const std::string& message);  ///< Writes a line that stays, also if `is_quiet`.
  void finish();                         ///< Ends the rewritten line.

 private:
  std::string name_;
  bool is_quiet_, is_terminal_;
  bool is_line_open_ = false;
  double last_shown_s_ = 0;
};

}  // namespace penstock
