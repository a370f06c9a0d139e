// World: how many ranks there are, which of them this process is, and who started it.
#pragma once

#include <string>

#include "train/comm/comm.h"
#include "train/options.h"

namespace penstock {

struct World {
  Rendezvous rendezvous;          ///< rank 0 of 1 when this process is alone.
  std::string launcher = "none";  ///< torchrun, slurm, openmpi, penstock, flags (--rank and --world-size), none.
  bool is_spawner = false;        ///< This process starts rendezvous.world_size ranks and trains nothing itself.
  int local_world_size = 1;       ///< Ranks on this machine.
  int ranks_sharing_cores =
      1;  ///< Of them, those that share usable_cores(): 1 where the launcher bound each to its own.
};

/// cpu, or a CUDA device without an index. Throws device_error when --device cuda finds none.
torch::DeviceType device_type(const TrainOptions& options);

/// This rank's device: --gpu, or the local rank's. Throws device_error when there are fewer.
torch::Device rank_device(const TrainOptions& options, const World& world);

/// Throws config_error where launcher and flags, or mode and ranks, or batch and ranks contradict each other.
World find_world(const TrainOptions& options, torch::DeviceType device);

/// Fills in what "auto" means for a rank of this world: workers and intra-op threads.
void resolve_threads(TrainOptions& options, const World& world, torch::DeviceType device);

}  // namespace penstock
