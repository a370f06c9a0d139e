// launch: who this process is among the ranks, and starting the others.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/comm/rendezvous.h"

namespace penstock {

/// What a launcher's environment says: torchrun (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), then Slurm
/// (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, ...), then Open MPI (OMPI_COMM_WORLD_RANK, ...), in that order.
struct LaunchedRank {
  Rendezvous rendezvous;
  std::string launcher;  // torchrun, slurm, openmpi, penstock (started by spawn_ranks)
};
/// Nothing when there is no launcher; a Slurm batch script itself, outside of srun, counts as none. Ranks that are all
/// on one machine meet at 127.0.0.1. Slurm and Open MPI give no port: `dist_url` ("tcp://host:port"; "" and "env://"
/// say nothing) does, then MASTER_ADDR and MASTER_PORT, otherwise it is 15000 + job id % 15000, below the ports that
/// Linux hands out itself. Throws config_error for variables that contradict each other or are no numbers. A rank of
/// spawn_ranks also asks the kernel to be killed when its parent is gone.
std::optional<LaunchedRank> rank_from_environment(const std::string& dist_url);

/// Host and port of "tcp://host:port". Throws config_error naming --dist-url.
std::pair<std::string, int> parse_dist_url(const std::string& dist_url);

/// Starts `count` copies of this program (posix_spawn of /proc/self/exe) with `arguments` (without the program's name)
/// and torchrun's variables set, meeting on a loopback port, and waits. Returns the exit code of the first that failed
/// (5 when a signal killed it), 0 when none did, 128 + signal after SIGINT, SIGTERM or SIGHUP, which are passed on.
/// After such a signal ranks are killed when a second one comes, when one of them is stopped or none has used the
/// processor or a disk for 5 s, and 30 s after the first one's end.
///
/// A rank's stderr passes through line by line with `[rank r] ` before it, stdout as it is. When a rank fails the
/// others are sent SIGTERM, after 10 s SIGKILL; what the first one said last, or the signal that killed it, comes last
/// on stderr. A rank that ends with a device error is mostly the echo of another's end: for 5 s a rank that fails
/// otherwise takes the blame.
///
/// Errors: io_error when a rank cannot be started. Thread-safety: once a process; it owns the stop signals and SIGCHLD
/// meanwhile.
int spawn_ranks(int count, const std::vector<std::string>& arguments);

}  // namespace penstock
