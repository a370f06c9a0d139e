// Devices: reads a list of GPUs, or a number of threads of the CPU.
#include "train/parallel/modes/devices.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "core/number.h"
#include "core/number_text.h"
#include "core/text.h"
#include "train/parallel/modes/mode_keys.h"

namespace penstock::detail {
namespace {

constexpr int kMostOnCpu = 65'536;  // on threads of the CPU
constexpr int kMostGpus = 127;      // the last one that a torch::Device can name

}  // namespace

std::vector<int> devices_of(const Spec& spec, const std::string& what, int gpus) {
  const std::string text = spec.get("devices", "");
  const auto refuse = [&](const std::string& why) {
    return config_error(concat(flag(spec), ": devices is ", text, why));
  };
  const auto parts = split(text, ':');
  if (parts.front() == "cpu") {
    const auto count = parts.size() == 2 ? parse_number<int>(parts[1]) : std::nullopt;
    if (!count || *count < 1 || *count > kMostOnCpu)
      throw refuse(concat("; expected a number of ", what, " from 1 to ", kMostOnCpu, ", such as cpu:4"));
    if (gpus > 0) throw refuse(" in a run on CUDA; expected GPUs, such as 0:1, or --device cpu");
    return std::vector<int>(static_cast<size_t>(*count), -1);
  }
  std::vector<int> devices;
  for (const auto& part : parts) {
    const auto gpu = parse_number<int>(part);
    if (!gpu || *gpu < 0 || *gpu > kMostGpus)
      throw refuse("; expected GPUs, such as 0:1, or threads of the CPU, such as cpu:4");
    if (gpus == 0) throw refuse(" in a run on the CPU; expected threads, such as cpu:2");
    if (gpus > 0 && *gpu >= gpus)
      throw refuse(concat(", and ", count_text(gpus, "GPU is", "GPUs are"), " visible; expected numbers below ", gpus));
    if (std::find(devices.begin(), devices.end(), *gpu) != devices.end())
      throw refuse(concat(", which names GPU ", *gpu, " twice; expected it once"));
    devices.push_back(static_cast<int>(*gpu));
  }
  return devices;
}

}  // namespace penstock::detail
