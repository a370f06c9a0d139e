// save: rank 0 writes, and tells the others whether all numbers were finite.
#include "train/checkpoint/save.h"

#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "train/options/divergence.h"

namespace penstock {
namespace {

bool is_finite(const torch::Tensor& tensor) {
  return !tensor.is_floating_point() || torch::isfinite(tensor).all().item<bool>();
}

}  // namespace

void write_checkpoint(const Saved& saved, const std::filesystem::path& path, const CheckpointInfo& info,
                      const TrainOptions& options) {
  const NamedTensors sizes = saved.strategy.state_sizes();
  std::optional<StateFile> file;
  if (saved.comm.rank() == 0) file.emplace(path, sizes, info);
  int64_t count = 0, infinite = -1;  // infinite: the first tensor in `sizes` with a number that is not finite
  saved.strategy.for_each_state([&](const std::string& name, const torch::Tensor& tensor) {
    if (infinite < 0 && !is_finite(tensor)) infinite = count;
    ++count;
    file->put(name, tensor);
  });
  auto told = torch::tensor({infinite}).to(saved.device);
  saved.comm.broadcast(told, 0);
  infinite = told.item<int64_t>();
  const auto& position = info.position;
  if (infinite >= 0)
    throw config_error(concat("epoch ", position.epoch + (position.batch > 0 ? 1 : 0), ", step ", position.step, ": ",
                              sizes[static_cast<size_t>(infinite)].first, " holds nan or infinity, ",
                              text_of_divergence(options, "finite numbers")));
  if (file) file->commit();
}

void write_model(const Saved& saved, const std::filesystem::path& out, const std::string& arch, bool with_unaveraged) {
  std::optional<StateFile> file, unaveraged;
  const bool is_first = saved.comm.rank() == 0;
  const NamedTensors sizes = saved.strategy.state_sizes();
  if (is_first) file.emplace(out / kModelFile, sizes, arch);
  if (is_first && with_unaveraged)
    unaveraged.emplace(out / kUnaveragedModelFile, sizes, arch, StateFile::Which::kWeights);
  saved.strategy.for_each_state([&](const std::string& name, const torch::Tensor& tensor) {
    file->put(name, tensor);
    if (unaveraged) unaveraged->put(name, tensor);
  });
  if (file) file->commit();
  if (unaveraged) unaveraged->commit();
}

}  // namespace penstock
