// dp: one rank whose batches are spread over replicas of the model, each on a device and a thread of its own; what
// PyTorch calls DataParallel.
#include <numeric>

#include "core/number_text.h"
#include "core/text.h"
#include "train/parallel/engine/make_by_plan.h"
#include "train/parallel/modes/devices.h"
#include "train/parallel/modes/mode_keys.h"

namespace penstock {
namespace {

/// Those of the key; without it every visible GPU, or two on the CPU. As devices_of().
std::vector<int> replica_devices(const Spec& spec, int gpus) {
  if (spec.has("devices")) return detail::devices_of(spec, "replicas", gpus);
  if (gpus <= 0) return {-1, -1};
  std::vector<int> devices(static_cast<size_t>(gpus));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

/// Where the logits are gathered and the model is updated.
int output_device(const Spec& spec, const std::vector<int>& devices) {
  if (!spec.has("output-device")) return devices.front();
  const int gpu = spec.get("output-device", 0);
  for (const int device : devices)
    if (device >= 0 && device == gpu) return device;
  throw config_error(
      concat("--mode dp: output-device is ", gpu, "; expected ",
             devices.front() < 0 ? "none where the replicas are on the CPU" : "one of the GPUs of devices"));
}

StepPlan dp_plan(const Spec& spec, const MeshRequest& request) {
  if (request.ranks > 1)
    throw config_error(concat("--mode dp: launched with ", request.ranks,
                              " ranks; expected 1, whose replicas are threads (use --mode ddp)"));
  StepPlan plan{.replicas = replica_devices(spec, request.gpus), .is_complete = true};
  const int output = output_device(spec, plan.replicas);
  const auto replicas = static_cast<int64_t>(plan.replicas.size()), rows = request.batch_size;
  const int64_t each = (rows + replicas - 1) / replicas;
  if (rows > 0 && each * (replicas - 1) >= rows)
    throw config_error(concat("--mode dp: ", replicas, " replicas for --batch-size ", rows, ", each with up to ",
                              count_text(each, "row"), "; expected ", (rows + each - 1) / each, ", all with rows"));
  plan.mesh = {.replicas = static_cast<int>(replicas), .micro_shards = request.micro_shards};
  if (output >= 0) plan.mesh.gpus = {output};
  if (request.micro_shards > 0)
    plan.schedule.micro_batches =
        detail::micro_batches_of_shards(spec, nullptr, request.micro_shards, plan.mesh.replicas, "replicas");
  return plan;
}

const Registered<StrategyKind> kDp{
    "dp",
    {"devices", "output-device"},
    "one rank, whose batches are spread over replicas of the model: devices=cpu:4 has four on threads of the CPU (the "
    "default is 2), devices=0:1 one on each of two GPUs (the default is all that are visible); output-device (default "
    "the first) is where the logits come together and the model is updated",
    detail::make_by_plan,
    {.plan = dp_plan,
     .examples = {"dp(devices=cpu:1)", "dp(devices=cpu:5)"},
     .exact = StrategyKind::Exact::kAlways,
     .keeps_average = true}};

}  // namespace
}  // namespace penstock
