// The rank of this process, as a launcher's environment variables say.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "train/rendezvous/rendezvous.h"

namespace penstock {

/// What a launcher says in environment variables. They are looked for in this order: torchrun (RANK, WORLD_SIZE,
/// LOCAL_RANK, MASTER_ADDR, MASTER_PORT), Slurm (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, ...), Open MPI
/// (OMPI_COMM_WORLD_RANK, ...).
struct LaunchedRank {
  Rendezvous rendezvous;
  std::string launcher;  // torchrun, slurm, openmpi, or penstock (started by run_ranks)
};
/// Nothing if no launcher started this process; a Slurm batch script itself, outside of srun, counts as not started by
/// one. Ranks that are all on one machine meet at 127.0.0.1. Slurm and Open MPI give no port. It is then taken from
/// `dist_url` ("tcp://host:port"; "" and "env://" give none), or from MASTER_ADDR and MASTER_PORT; otherwise it is
/// 15000 + job id % 15000, which is below the ports that Linux gives out itself. Throws config_error for variables that
/// contradict each other or are no numbers. A rank of run_ranks() also asks the kernel to kill it when its parent
/// ends.
std::optional<LaunchedRank> rank_from_environment(const std::string& dist_url);

/// Host and port of "tcp://host:port". Throws config_error that names --dist-url.
std::pair<std::string, int> parse_dist_url(const std::string& dist_url);

/// Sets where the ranks meet, from "tcp://host:port", "file:///path" or "env://", which means MASTER_ADDR and
/// MASTER_PORT. Throws config_error that names --dist-url or the variable.
void meet_at(Rendezvous& rendezvous, const std::string& dist_url);

}  // namespace penstock
