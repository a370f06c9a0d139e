// World: how many ranks there are, which rank this process is, and what started it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/comm/comm.h"
#include "train/launch/hostfile.h"
#include "train/options/options.h"
#include "train/parallel/strategy/step_plan.h"

namespace penstock {

struct World {
  Rendezvous rendezvous;          ///< Rank 0 of 1 if this process is alone.
  StepPlan plan;                  ///< Of the mode, over all ranks; open_run() fits it to the model.
  std::string launcher = "none";  ///< torchrun, slurm, openmpi, penstock, flags (--rank and --world-size) or none.
  bool is_spawner = false;        ///< This process starts rendezvous.world_size ranks and trains nothing itself.
  bool has_rank_threads = false;  ///< All ranks are threads of this process.
  std::vector<Host> hosts;        ///< Those of --hostfile that this process starts ranks on; none: this machine.
  int local_world_size = 1;       ///< Ranks on this machine.
  /// Ranks on this machine that share usable_cores(); 1 if the launcher has bound each rank to cores of its own.
  int ranks_sharing_cores = 1;
};

/// The type of the device, from --device and --gpu. Throws device_error if they ask for CUDA and no CUDA device is
/// visible.
torch::DeviceType device_type(const TrainOptions& options);

/// This rank's device: that of --gpu, otherwise that of the local rank. Throws device_error if there are fewer GPUs.
torch::Device rank_device(const TrainOptions& options, const World& world);

/// What the mode makes of a step over so many ranks; 0: as many as are usual. Without a device, as on the CPU, but
/// devices that the mode names are not looked for. `local_ranks` as in MeshRequest. Throws config_error.
StepPlan plan_of(const TrainOptions& options, int ranks, std::optional<torch::DeviceType> device, int local_ranks = 0);

/// Throws config_error if launcher and flags, mode and ranks, or batch and ranks contradict each other.
World find_world(const TrainOptions& options, torch::DeviceType device);

/// Replaces "auto" by the numbers of workers and intra-op threads for a rank of this world. Throws config_error for
/// fewer threads than the mode has replicas on the CPU, and with --exact for more.
void resolve_threads(TrainOptions& options, const World& world, torch::DeviceType device);

}  // namespace penstock
