// World: reads the launcher's variables and the flags, and refuses contradictions between them.
#include "train/run/world.h"

#include <torch/cuda.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "core/error.h"
#include "core/machine.h"
#include "core/text.h"
#include "train/launch/environment.h"
#include "train/parallel/strategy/strategy.h"
#include "train/rendezvous/address.h"
#include "train/run/exact.h"
#include "train/tensor/cuda_device.h"
#include "train/tensor/cuda_library.h"

namespace penstock {
namespace {

int number_from_environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

/// The number of ranks on this machine, as the launcher says; all ranks, if it says nothing.
int local_world_size(int world_size) {
  for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"})
    if (const int count = number_from_environment(name); count > 0) return count;
  return world_size;
}

/// The variables by which a process learns that it is a rank, and how many there are.
std::string variables_of(const std::string& launcher) {
  if (launcher == "slurm") return "SLURM_PROCID and SLURM_NTASKS (or SLURM_STEP_NUM_TASKS)";
  return launcher == "openmpi" ? "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE" : "RANK and WORLD_SIZE";
}

void check_agrees(const char* flag, int value, int world_size, const std::string& launcher) {
  if (value <= 0 || value == world_size) return;
  const std::string variables = variables_of(launcher);
  throw config_error(
      concat("--", flag, " is ", value, "; expected ", world_size, ", the ranks that ", launcher, " started",
             launcher.starts_with("--")
                 ? std::string()
                 : concat(", as ", variables, " say; unset them where train ", "shall start ranks itself")));
}

/// Throws config_error where RANK and WORLD_SIZE, which are not torchrun's, make this process a rank, and --nproc asks
/// it to start some: those of two containers would be as many as one of them shall start.
void check_starts_none(const TrainOptions& options, const World& world) {
  const bool knows_machine = number_from_environment("LOCAL_WORLD_SIZE") > 0;
  if (options.nproc < 2 || world.launcher != "torchrun" || knows_machine) return;
  throw config_error(concat("--nproc is ", options.nproc, " with RANK=", world.rendezvous.rank, " and WORLD_SIZE=",
                            world.rendezvous.world_size, ", by which this process is one rank and starts none; ",
                            "expected no --nproc, or torchrun --nproc-per-node ", options.nproc,
                            " in each container, or RANK and WORLD_SIZE unset"));
}

/// Throws config_error where a launcher has started this process that is not among those of rank_from_environment():
/// each process would start ranks of its own.
void check_launcher_is_known(int rank_count) {
  for (const auto& [rank, size, who] : {std::tuple("PMI_RANK", "PMI_SIZE", "MPICH or Intel MPI"),
                                        {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MVAPICH"}})
    if (rank_count > 1 && number_from_environment(size) > 1)
      throw config_error(concat(rank, " is ", number_from_environment(rank), " and ", size, " is ",
                                number_from_environment(size), ", which mpirun of ", who,
                                " has set and train does not read, so that each process would start ", rank_count,
                                " ranks; expected Slurm, torchrun or Open MPI, or --rank and --world-size for each"));
}

Rendezvous rendezvous_from_flags(const TrainOptions& options) {
  if (options.world_size < 1)
    throw config_error(concat("--rank is ", options.rank, " without --world-size; expected both"));
  if (options.rank >= options.world_size)
    throw config_error(concat("--rank is ", options.rank, "; expected less than --world-size, ", options.world_size));
  Rendezvous rendezvous;
  rendezvous.rank = options.rank;
  rendezvous.world_size = options.world_size;
  if (options.world_size > 1) meet_at(rendezvous, options.dist_url);
  rendezvous.local_rank = std::max(options.gpu, 0);
  return rendezvous;
}

/// Throws config_error for flags that contradict --hostfile, and for --include and --exclude without it.
std::vector<Host> hosts_from_flags(const TrainOptions& options) {
  for (const auto& [flag, value] : {std::pair("--include", options.include), std::pair("--exclude", options.exclude)})
    if (options.hostfile.empty() && !value.empty())
      throw config_error(concat(flag, " is ", in_quotes(value), " without --hostfile; expected both"));
  if (options.hostfile.empty()) return {};
  auto hosts = chosen_hosts(read_hostfile(options.hostfile), options.include, options.exclude);
  if (options.nproc > 0)
    throw config_error(concat("--nproc is ", options.nproc, " with --hostfile; expected one of the two"));
  if (options.dist_url.starts_with("file://"))
    throw config_error(concat("--dist-url is ", in_quotes(options.dist_url), " with --hostfile; expected ",
                              "tcp://host:port, or none: ranks then meet at the first host"));
  const auto& first = hosts.front().name;
  for (const auto& host : hosts)
    if (options.dist_url.empty() && detail::is_loopback(first) && !detail::is_loopback(host.name))
      throw config_error(concat("--hostfile ", options.hostfile.string(), ": the first host is ", first, ", where ",
                                host.name, " cannot reach it; expected its name in the network"));
  return hosts;
}

int rank_count_from_hosts(const TrainOptions& options, const std::vector<Host>& hosts) {
  int count = 0;
  for (const auto& host : hosts) count += static_cast<int>(host.slots.size());
  check_agrees("world-size", options.world_size, count, "--hostfile");
  return count;
}

int rank_count_from_flags(const TrainOptions& options, torch::DeviceType device) {
  if (options.nproc > 0 && options.world_size > 0 && options.nproc != options.world_size) {
    throw config_error(concat("--nproc is ", options.nproc, " and --world-size is ", options.world_size,
                              "; expected the same number, or a --rank for each machine's process"));
  }
  if (options.nproc > 0) return options.nproc;
  if (options.world_size > 0) return options.world_size;
  return plan_of(options, 0, device).mesh.size();
}

/// Throws config_error for more ranks on this machine than --hostfile takes on any.
void check_rank_count(const TrainOptions& options, const World& world) {
  const int count = world.rendezvous.world_size;
  if (world.launcher == "none" && world.hosts.empty() && count > kMostRanksOfMachine)
    throw config_error(concat(options.nproc > 0 ? "--nproc" : concat("--mode ", options.mode), ": ", count,
                              " ranks on this machine; expected ", kMostRanksOfMachine, " or fewer"));
}

/// Throws device_error if too few files may be open. Otherwise LibTorch and Gloo would run out of descriptors and
/// report errors about sockets.
void check_descriptors(int rank_count) {
  constexpr int64_t kForAny = 40, kForEachRank = 4;  // rank 0 of 4 has had 35 open
  const auto [limit, open] = descriptors();
  const int64_t needed = open + kForAny + kForEachRank * rank_count;
  if (rank_count > 1 && limit < needed)
    throw device_error(concat("only ", limit, " file descriptors may be open at once; expected ", needed,
                              " or more for a rank of ", rank_count, " (ulimit -n)"));
}

/// A message's time of arrival is compared with the clock of the rank that waits for it.
void check_network(const TrainOptions& options, const World& world, torch::DeviceType device) {
  const int count = world.rendezvous.world_size;
  if (!options.emulation.network || count == 1) return;
  const bool is_remote = world.launcher == "flags" && !detail::is_loopback(world.rendezvous.host);
  if (world.local_world_size != count || is_remote)
    throw config_error(concat("--sim-net is ", options.emulation.network->text,
                              is_remote ? concat(" with rank 0 at ", world.rendezvous.host)
                                        : concat(" with ", world.local_world_size, " of ", count, " ranks here"),
                              "; expected all ranks on one machine, as with --nproc"));
  if (device == torch::kCUDA && options.dist_backend != "gloo")
    throw config_error(concat("--sim-net is ", options.emulation.network->text, " with --dist-backend ",
                              options.dist_backend, " on CUDA, which is nccl; expected --dist-backend gloo"));
}

void check_hosting(const TrainOptions& options, const World& world) {
  if (options.hosting != "threads") return;
  if (world.launcher != "none")
    throw config_error(concat("--hosting is threads for a rank that ",
                              world.launcher == "flags" ? "--rank names" : world.launcher + " has started",
                              "; expected processes, or --nproc alone"));
  if (world.has_rank_threads && !world.plan.mesh.gpus.empty())
    throw config_error(concat("--hosting is threads with --mode ", options.mode,
                              ", which names devices, and threads share one GPU; expected processes"));
  if (options.dist_backend != "auto")
    throw config_error(
        concat("--dist-backend is ", options.dist_backend, " with --hosting threads; expected auto, or processes"));
}

/// Throws config_error for flags of a process that starts ranks, where this process does not.
void check_starter(const TrainOptions& options, const World& world) {
  const std::string why =
      world.has_rank_threads
          ? "--hosting threads, which end together"
          : concat("a rank that ", world.launcher == "flags" ? "--rank names" : concat(world.launcher, " has started"));
  const bool has_others = world.launcher != "none" && world.launcher != "penstock" && world.rendezvous.world_size > 1;
  if (options.repacks && (has_others || !world.hosts.empty()))
    throw config_error(
        concat("--repack with ", world.hosts.empty() ? why : "--hostfile",
               ": each rank would pack; expected train --repack --check on each machine before this run"));
  if (world.is_spawner) return;
  if (options.max_restarts > 0)
    throw config_error(
        concat("--max-restarts is ", options.max_restarts, " with ", why, "; expected ",
               world.has_rank_threads ? "--hosting processes" : "--resume auto, and restarts by what has started it"));
  if (!options.hostfile.empty())
    throw config_error(concat("--hostfile is ", options.hostfile.string(), " with ", why, "; expected ",
                              world.has_rank_threads ? "--hosting processes" : "one of the two"));
}

void check_world(const TrainOptions& options, const World& world, torch::DeviceType device) {
  const int count = world.rendezvous.world_size;
  check_rank_count(options, world);
  if (!world.has_rank_threads) check_descriptors(count);
  check_hosting(options, world);
  check_network(options, world, device);
  if (options.dist_backend == "nccl" && device == torch::kCPU)
    throw config_error("--dist-backend is nccl on the CPU; expected gloo or auto, or --device cuda");
  // NCCL runs the messages of two ranks on one stream in the order of the calls, so that 1f1b's, which cross, would
  // wait for each other for ever.
  if (device == torch::kCUDA && world.plan.mesh.pipe > 1 && options.dist_backend != "gloo" && !world.has_rank_threads)
    throw config_error(concat("--dist-backend is ", options.dist_backend,
                              " with stages of a model on GPUs, where messages ",
                              "between stages need gloo; expected --dist-backend gloo"));
  if (options.batch_size < world.plan.mesh.data)
    throw config_error(concat("--batch-size is ", options.batch_size, " with ", world.plan.mesh.data,
                              " ranks; expected ", world.plan.mesh.data, " or more"));
  if (options.gpu >= 0 && count > 1 && options.rank < 0 && !world.has_rank_threads)
    throw config_error(
        concat("--gpu is ", options.gpu, " with ", count, " ranks; expected one rank, or CUDA_VISIBLE_DEVICES"));
  if (options.gpu >= 0 && !world.plan.mesh.gpus.empty())
    throw config_error(concat("--gpu is ", options.gpu, " with --mode ", options.mode,
                              ", which names its devices itself; expected one of the two"));
  // A rank that --rank names says its GPU by --gpu: nobody tells it its place on its machine.
  if (!world.plan.mesh.gpus.empty() && count > 1 && world.launcher == "flags")
    throw config_error(concat("--mode ", options.mode, " with --rank ", options.rank,
                              ": devices are those of the ranks that a launcher or --nproc starts; expected --gpu"));
  const std::string problem = world.is_spawner && world.hosts.empty() && count > 1 ? detail::loopback_problem() : "";
  if (!problem.empty())
    throw device_error(concat("--nproc is ", count, ": ranks meet at 127.0.0.1, where this machine does not reach ",
                              "itself: ", problem, "; expected a loopback interface that is up (ip link set lo up), ",
                              "or --hosting threads"));
  const auto visible = device == torch::kCUDA ? static_cast<int>(torch::cuda::device_count()) : count;
  if (world.is_spawner && world.hosts.empty() && count > visible) {
    throw config_error(concat("--nproc is ", count, " with ", visible,
                              " visible GPUs; expected at most one rank per GPU, ", "or --device cpu"));
  }
}

}  // namespace

StepPlan plan_of(const TrainOptions& options, int ranks, std::optional<torch::DeviceType> device, int local_ranks) {
  const int gpus = device == torch::kCUDA ? static_cast<int>(torch::cuda::device_count()) : 0;
  check_exact_mode(options);
  return plan_of(*options.mode, {.ranks = ranks,
                                 .default_ranks = gpus > 0 ? gpus : 2,
                                 .batch_size = options.batch_size,
                                 .shards = options.exact_shards,
                                 .gpus = device ? gpus : -1,
                                 .optimizer = *options.optimizer,
                                 .clip = *options.clip,
                                 .local_ranks = local_ranks});
}

torch::DeviceType device_type(const TrainOptions& options) {
  if (options.device == "auto" && !cuda_library_problem().empty())
    throw device_error(
        concat("--device auto: this machine has NVIDIA's driver, and CUDA's libraries cannot be loaded: ",
               cuda_library_problem(), "; expected all of them, or --device cpu"));
  const bool has_cuda = options.device != "cpu" && torch::cuda::is_available();
  if ((options.device == "cuda" || options.gpu >= 0) && !has_cuda) {
    throw device_error(concat(options.gpu >= 0 ? concat("--gpu ", options.gpu) : "--device cuda",
                              ": no CUDA device is visible: ", no_device_text(no_device()),
                              "; expected one, or --device cpu"));
  }
  return has_cuda ? torch::kCUDA : torch::kCPU;
}

torch::Device rank_device(const TrainOptions& options, const World& world) {
  if (device_type(options) == torch::kCPU) return torch::kCPU;
  const int local = world.has_rank_threads ? 0 : world.rendezvous.local_rank;  // threads share one GPU
  const auto& gpus = world.plan.mesh.gpus;
  const int own = gpus.empty() ? local : gpus.at(static_cast<size_t>(local));
  const int index = options.gpu >= 0 ? options.gpu : own;
  const auto count = static_cast<int>(torch::cuda::device_count());
  if (index >= count) {
    throw device_error(concat("rank ", world.rendezvous.rank, ": needs GPU ", index, ", but ", count,
                              " are visible; expected one for each rank of a machine"));
  }
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

World find_world(const TrainOptions& options, torch::DeviceType device) {
  // A wrong --dist-url is refused even if a launcher or --nproc says where to meet.
  Rendezvous checked;
  if (!options.dist_url.empty() && options.dist_url != "env://") meet_at(checked, options.dist_url);
  World world;
  if (const auto launched = rank_from_environment(options.dist_url)) {
    world.rendezvous = launched->rendezvous;
    world.launcher = launched->launcher;
    const int count = world.rendezvous.world_size;
    check_starts_none(options, world);
    check_agrees("nproc", options.nproc, local_world_size(count), world.launcher);
    check_agrees("world-size", options.world_size, count, world.launcher);
    if (options.rank >= 0 && options.rank != world.rendezvous.rank)
      throw config_error(
          concat("--rank is ", options.rank, "; expected ", world.rendezvous.rank, ", as ", world.launcher, " says"));
  } else if (options.rank >= 0) {
    world.rendezvous = rendezvous_from_flags(options);
    world.launcher = "flags";
  } else {
    world.hosts = hosts_from_flags(options);
    const int count =
        world.hosts.empty() ? rank_count_from_flags(options, device) : rank_count_from_hosts(options, world.hosts);
    check_launcher_is_known(count);
    world.rendezvous.world_size = count;
    world.has_rank_threads = count > 1 && options.hosting == "threads";
    // With --max-restarts a single rank, too, is a child, so that this process survives it.
    world.is_spawner = !world.has_rank_threads && (count > 1 || !world.hosts.empty() || options.max_restarts > 0);
  }
  check_starter(options, world);
  world.rendezvous.interface = options.interface;
  world.rendezvous.step_seconds = options.timeout_seconds;
  world.rendezvous.meeting_seconds = 5 * options.timeout_seconds;
  // If the launcher is none or the flags, such variables come from a launcher that started another program around this
  // one.
  const int count = world.rendezvous.world_size;
  if (!world.hosts.empty())
    world.local_world_size = static_cast<int>(world.hosts.front().slots.size());
  else
    world.local_world_size = world.launcher == "none" || world.launcher == "flags" ? count : local_world_size(count);
  const bool is_bound = world.launcher != "none" && bound_cores() < sysconf(_SC_NPROCESSORS_ONLN);
  world.ranks_sharing_cores = is_bound ? 1 : world.local_world_size;
  world.plan = plan_of(options, count, device, world.local_world_size);
  check_world(options, world, device);
  return world;
}

void resolve_threads(TrainOptions& options, const World& world, torch::DeviceType device) {
  const ThreadCounts share =
      default_threads(usable_cores() / std::max(1, world.ranks_sharing_cores), device == torch::kCUDA);
  if (options.workers < 0) options.workers = share.workers;
  const int computing = device == torch::kCPU ? world.plan.mesh.replicas : 1;
  if (options.exact_shards > 0 && options.threads < 1) options.threads = computing;
  if (options.threads < 1) options.threads = std::max(share.threads, computing);
  if (options.threads < computing)
    throw config_error(concat("--threads is ", options.threads, " with --mode ", options.mode, "; expected ", computing,
                              " or more, one for each of its replicas"));
  if (options.exact_shards > 0 && options.threads > computing)
    throw config_error(concat("--threads is ", options.threads, " with --exact ", options.exact_shards, "; expected ",
                              computing, ", because kernels sum in another order with more"));
}

}  // namespace penstock
