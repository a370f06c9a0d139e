// Spawning: starts the ranks of a run and waits for them.
//
// Lives here: how ranks are started and ended, on this machine and over ssh, and which rank this process is.
// Not here: how ranks meet (train/rendezvous). Nothing here needs LibTorch.
#pragma once

#include <string>
#include <vector>

#include "train/launch/command.h"
#include "train/launch/recovery.h"

namespace penstock {

/// How the ranks of a run have ended.
struct RanksEnd {
  int code = 0;           ///< The exit code of the run.
  std::string last_line;  ///< What shall come last on stderr; "" if it is there already, or if nothing has failed.
  /// "rank 1 was killed by signal 9 (Killed)", or what the rank has said; "" if nothing has failed.
  std::string cause;
  FailureTime failed = {};  ///< When the first rank that failed had ended; only if one has.
  bool may_go_on = false;   ///< A rank was killed or lost, or a machine failed: the same ranks may succeed now.
};

/// Starts the ranks with posix_spawn(), gives all of them one random_token(), and waits until the last one has ended.
///
/// Output: each line that a rank writes to stderr is passed on with `[rank r] ` before it; stdout is passed on as it
/// is.
///
/// When a rank fails, the others get SIGTERM, and SIGKILL 10 s later. The blame, and with it the code and the last
/// line, goes to the rank that failed first. A device error is an exception, because usually it only says that another
/// rank has ended: if one fails with another error within 5 s, that one is blamed.
///
/// SIGTSTP stops the ranks, if all are on this machine, and then this process, until it gets SIGCONT.
///
/// A stop signal (SIGINT, SIGTERM or SIGHUP) is passed on to all ranks; one that reached a single rank stops all, too.
/// The ranks are then killed when a second signal comes, and 30 s after the first of them has ended. Those of this
/// machine are also killed when one of them is stopped (SIGSTOP), or when none has used the processor or a disk for
/// 5 s.
///
/// The code:
///
///     0              no rank failed, also after a stop signal
///     128 + signal   a stop signal came, and ranks ended by it
///     141            the rank to blame had its output closed
///     5              another signal killed it, or ssh did not reach its machine or has lost it
///     its own        otherwise; also after a stop signal, if the rank failed for a reason of its own, such as a disk
///                    on which it could not save
///
/// Errors: io_error if a rank cannot be started. Thread-safety: only one call at a time in a process; meanwhile it
/// handles the stop signals and SIGCHLD.
RanksEnd run_ranks(const std::vector<RankCommand>& commands);

}  // namespace penstock
