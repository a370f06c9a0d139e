// launch: which rank this process is, and starting the other ranks.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/comm/rendezvous.h"

namespace penstock {

/// What a launcher says in environment variables. They are looked for in this order: torchrun (RANK, WORLD_SIZE,
/// LOCAL_RANK, MASTER_ADDR, MASTER_PORT), Slurm (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, ...), Open MPI
/// (OMPI_COMM_WORLD_RANK, ...).
struct LaunchedRank {
  Rendezvous rendezvous;
  std::string launcher;  // torchrun, slurm, openmpi, or penstock (started by spawn_ranks)
};
/// Nothing if no launcher started this process; a Slurm batch script itself, outside of srun, counts as not started by
/// one. Ranks that are all on one machine meet at 127.0.0.1. Slurm and Open MPI give no port. It is then taken from
/// `dist_url` ("tcp://host:port"; "" and "env://" give none), or from MASTER_ADDR and MASTER_PORT; otherwise it is
/// 15000 + job id % 15000, which is below the ports that Linux gives out itself. Throws config_error for variables that
/// contradict each other or are no numbers. A rank of spawn_ranks() also asks the kernel to kill it when its parent
/// ends.
std::optional<LaunchedRank> rank_from_environment(const std::string& dist_url);

/// Host and port of "tcp://host:port". Throws config_error that names --dist-url.
std::pair<std::string, int> parse_dist_url(const std::string& dist_url);

/// Starts `count` copies of this program (posix_spawn() of /proc/self/exe) with `arguments` (without the program's
/// name) and the variables of torchrun, and waits for them. They meet on a loopback port. Returns the exit code of the
/// first rank that failed (5 if a signal killed it), 0 if none failed, and 128 + signal after SIGINT, SIGTERM or
/// SIGHUP, which are passed on; but if a rank then fails for a reason of its own, such as a disk on which it cannot
/// save, its exit code and its message. After such a signal the ranks are killed if a second signal comes, if one of
/// them is stopped, if none has used the processor or a disk for 5 s, and 30 s after the first of them has ended.
///
/// Each line that a rank writes to stderr is passed on with `[rank r] ` before it; stdout is passed on as it is. If a
/// rank fails, the others get SIGTERM, and SIGKILL 10 s later. The last line on stderr is then the last one of the rank
/// that failed first, or the signal that killed it. A rank that ends with a device error usually does so because
/// another rank has ended; so for 5 s a rank that fails with another error is blamed instead.
///
/// Errors: io_error if a rank cannot be started. Thread-safety: only one call at a time in a process; meanwhile it
/// handles the stop signals and SIGCHLD.
int spawn_ranks(int count, const std::vector<std::string>& arguments);

}  // namespace penstock
