// dp: one rank whose batches are spread over replicas of the model, each on a device and a thread of its own; what
// PyTorch calls DataParallel.
#include <torch/cuda.h>

#include "core/number_text.h"
#include "core/text.h"
#include "train/parallel/engine/engine.h"
#include "train/parallel/exact/tree_sync.h"
#include "train/parallel/modes/devices.h"
#include "train/parallel/modes/mode_keys.h"
#include "train/parallel/replicas/replicas.h"

namespace penstock {
namespace {

/// Those of the key; without it every visible GPU, or two on the CPU. `gpus` as in MeshRequest.
std::vector<torch::Device> replica_devices(const Spec& spec, int gpus) {
  if (spec.has("devices")) return detail::devices_of(spec, "replicas", gpus);
  std::vector<torch::Device> devices(gpus > 0 ? 0 : 2, torch::kCPU);
  for (int gpu = 0; gpu < gpus; ++gpu) devices.emplace_back(torch::kCUDA, static_cast<c10::DeviceIndex>(gpu));
  return devices;
}

/// Where the logits are gathered and the model is updated.
torch::Device output_device(const Spec& spec, const std::vector<torch::Device>& devices) {
  if (!spec.has("output-device")) return devices.front();
  const int gpu = spec.get("output-device", 0);
  for (const auto& device : devices)
    if (device.is_cuda() && device.index() == gpu) return device;
  throw config_error(
      concat("--mode dp: output-device is ", gpu, "; expected ",
             devices.front().is_cpu() ? "none where the replicas are on the CPU" : "one of the GPUs of devices"));
}

Mesh dp_mesh(const Spec& spec, const MeshRequest& request) {
  if (request.ranks > 1)
    throw config_error(concat("--mode dp: launched with ", request.ranks,
                              " ranks; expected 1, whose replicas are threads (use --mode ddp)"));
  const auto devices = replica_devices(spec, request.gpus);
  const auto output = output_device(spec, devices);
  const auto replicas = static_cast<int64_t>(devices.size()), rows = request.batch_size;
  const int64_t each = (rows + replicas - 1) / replicas;
  if (rows > 0 && each * (replicas - 1) >= rows)
    throw config_error(concat("--mode dp: ", replicas, " replicas for --batch-size ", rows, ", each with up to ",
                              count_text(each, "row"), "; expected ", (rows + each - 1) / each, ", all with rows"));
  if (request.shards > 0)
    detail::micro_batches_of_shards(spec, nullptr, request.shards, static_cast<int>(replicas), "replicas");  // throws
  return {.replicas = static_cast<int>(replicas), .shards = request.shards, .gpus = detail::gpu_indices({output})};
}

std::string text_of(const std::vector<torch::Device>& devices, const torch::Device& output) {
  const std::string count = count_text(devices.size(), "replica");
  if (output.is_cpu()) return concat("with ", count, " on threads of the CPU, which share the parameters");
  std::vector<std::string> names;
  for (const auto& device : devices) names.push_back(device.str());
  return concat("with ", count, " on ", join(names), "; loss and update on ", output.str());
}

std::unique_ptr<Strategy> make_dp(const Spec& spec, const StrategyContext& context) {
  const int gpus = context.device.is_cuda() ? static_cast<int>(torch::cuda::device_count()) : 0;
  detail::StepConfig config{
      .mesh = dp_mesh(spec, {.ranks = context.comm.world_size(), .shards = context.shards, .gpus = gpus})};
  const int shards = config.mesh.shards;
  const auto devices = replica_devices(spec, gpus);
  config.text = text_of(devices, context.device);
  config.replicas =
      std::make_shared<detail::Replicas>(context.model, context.device, devices, context.make_model, context.log,
                                         /*has_shards=*/shards > 0);
  if (shards > 0) {
    config.micro_batches = shards / config.mesh.replicas;
    config.schedule = detail::accumulation(config.micro_batches);
  }
  config.sync = [replicas = config.replicas, shards](const auto& sync) -> std::unique_ptr<detail::GradientSync> {
    if (shards == 0) return detail::make_replica_sync(replicas);
    return detail::make_collected_tree(
        sync, [replicas] { replicas->sum_gradients(); }, [replicas] { replicas->reset_gradients(); });
  };
  if (context.device.is_cpu())
    config.update = [replicas = config.replicas](const auto& update) {
      return detail::make_replica_update(update, replicas);
    };
  return std::make_unique<detail::Engine>(context, config);
}

const Registered<StrategyKind> kDp{
    "dp",
    {"devices", "output-device"},
    "one rank, whose batches are spread over replicas of the model: devices=cpu:4 has four on threads of the CPU (the "
    "default is 2), devices=0:1 one on each of two GPUs (the default is all that are visible); output-device (default "
    "the first) is where the logits come together and the model is updated",
    make_dp,
    {.mesh = dp_mesh,
     .examples = {"dp(devices=cpu:1)", "dp(devices=cpu:5)"},
     .exact = StrategyKind::Exact::kAlways,
     .keeps_average = true}};

}  // namespace
}  // namespace penstock
