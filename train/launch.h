// launch: who this process is among the ranks, and starting the others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/comm/comm.h"

namespace penstock {

/// What a launcher's environment says: torchrun (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), then Slurm (SLURM_PROCID,
/// SLURM_NTASKS, SLURM_LOCALID, ...), then Open MPI (OMPI_COMM_WORLD_RANK, ...), in that order; nothing when there is none.
struct LaunchedRank {
  Rendezvous rendezvous;
  std::string launcher;  // torchrun, slurm, openmpi, penstock
};
/// Throws config_error for variables that contradict each other or are no numbers. Slurm and Open MPI give no port: `dist_url`
/// ("tcp://host:port") does, or it is derived from the job's id.
std::optional<LaunchedRank> rank_from_environment(const std::string& dist_url);

/// Starts `count` copies of this program (posix_spawn of /proc/self/exe) with the same arguments and torchrun's variables set,
/// on a loopback port, and waits. Returns the exit code of the first that failed, or 0. When one fails the others are
/// sent SIGTERM, after 10 s SIGKILL; its message comes last on stderr. SIGINT and SIGTERM are passed on to the ranks.
int spawn_ranks(int count, const std::vector<std::string>& arguments);

}  // namespace penstock
