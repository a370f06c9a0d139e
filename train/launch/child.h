// Child: a rank that this process has started, or the ssh that has started it.
#pragma once

#include <sys/types.h>

#include <string>

#include "train/launch/activity.h"
#include "train/launch/command.h"

namespace penstock::detail {

struct Child {
  int rank = 0;
  std::string host;  // of a rank that ssh has started; empty: this machine
  pid_t pid = 0;
  int errors = -1;      // our end of the pipe from its stderr; -1 after that was closed
  int control = -1;     // our end of the stdin of a rank on another machine
  std::string partial;  // the begin of a line that has not ended
  std::string last_line;
  bool is_running = true;
  int status = 0;                // as waitpid() gives it
  bool has_own_failure = false;  // it failed, and not because of a stop signal, this launcher or another rank
  detail::Activity activity;     // what it was at the last look after a stop signal
};

/// Starts a rank in a process group of its own: Ctrl-C in the terminal then reaches only the parent, which passes it on
/// once. The rank gets the `token` in an environment variable, or through its stdin if it is on another machine. The
/// caller closes the descriptors. Throws io_error.
Child spawn_rank(const RankCommand& command, const std::string& token);

}  // namespace penstock::detail
