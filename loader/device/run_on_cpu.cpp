// run_on_cpu(): the device's kernels as loops over blocks and threads.
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/text.h"
#include "loader/device/color_kernel.h"
#include "loader/device/decode_kernel.h"
#include "loader/device/device_renderer.h"
#include "loader/device/recolor_kernel.h"
#include "loader/device/render_kernel.h"

namespace penstock {

void run_on_cpu(const KernelLaunches& launches, std::span<const std::byte> arguments, bool is_reversed) {
  detail::KernelArguments given;
  if (arguments.size() != sizeof given)
    throw bug_error(concat("device renderer: ", arguments.size(), " bytes of arguments; expected ", sizeof given));
  std::memcpy(&given, arguments.data(), sizeof given);
  const auto group = std::make_unique<detail::GroupShared>();
  const auto render = std::make_unique<detail::RenderShared>();
  const auto recolor = std::make_unique<detail::RecolorShared>();
  const auto [weigh_launch, decode_launch, color_launch, render_launch, recolor_launch] = launches;
  const auto run = [&](const KernelLaunch& launch, const auto& kernel) {
    const ThreadBlock block{launch.threads, is_reversed};
    for (uint64_t task = 0; task < launch.blocks; ++task) kernel(block, task);
  };
  run(weigh_launch, [&](const ThreadBlock& block, uint64_t task) { detail::weigh_taps_of(block, given, task); });
  run(decode_launch,
      [&](const ThreadBlock& block, uint64_t task) { detail::decode_group(block, *group, given, task); });
  run(color_launch, [&](const ThreadBlock& block, uint64_t task) { detail::color_tile(block, given, task); });
  run(render_launch, [&](const ThreadBlock& block, uint64_t task) { detail::render_row(block, *render, given, task); });
  run(recolor_launch,
      [&](const ThreadBlock& block, uint64_t task) { detail::recolor_row(block, *recolor, given, task); });
}

}  // namespace penstock
