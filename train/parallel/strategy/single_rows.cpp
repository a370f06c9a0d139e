// Single rows: the sizes of all pieces of a batch, and a forward that is refused.
#include "train/parallel/strategy/single_rows.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/Exception.h>

#include <map>

#include "train/nn/model.h"
#include "train/nn/row_draws.h"
#include "train/parallel/strategy/borrowed_block.h"

namespace penstock {
namespace {

int64_t largest_share(int64_t rows, int64_t parts) { return (rows + parts - 1) / parts; }

/// Whether pieces of `each` rows, of which the last one may have fewer, leave a row alone.
bool leaves_one(int64_t rows, int64_t each) { return rows > 0 && (each < 2 || rows % each == 1); }

/// In a batch of `rows`, where the largest one of an epoch has `most`.
bool has_single_row(const StepPlan& plan, const EpochRows& epoch, int64_t rows, int64_t most) {
  const Mesh& mesh = plan.mesh;
  if (mesh.micro_shards > 0) return leaves_one(rows, epoch.batch_size / mesh.micro_shards);
  if (promise_of(plan).sees_whole_batches) return rows == 1;
  for (int64_t rank = 0; rank < mesh.data; ++rank) {
    const int64_t own = (rank + 1) * rows / mesh.data - rank * rows / mesh.data;
    const int64_t each = mesh.replicas > 1 ? largest_share(own, mesh.replicas)
                                           : largest_share(largest_share(most, mesh.data), plan.schedule.micro_batches);
    if (leaves_one(own, each)) return true;
  }
  return false;
}

/// By name; copies.
std::map<std::string, torch::Tensor> buffers_of(const Model& model) {
  std::map<std::string, torch::Tensor> buffers;
  for (const auto& item : model.named_buffers())
    if (item.value().storage().nbytes() > 0) buffers[item.key()] = item.value().clone();
  return buffers;
}

/// Layers count a forward in training before they refuse it, and move their statistics after that.
std::string refusing_norm(const Model& model, const std::map<std::string, torch::Tensor>& before) {
  const auto now = buffers_of(model);
  const auto is_same = [&](const std::string& name) { return now.at(name).equal(before.at(name)); };
  const std::string count = ".num_batches_tracked";
  for (const auto& [name, tensor] : now) {
    if (!name.ends_with(count) || is_same(name)) continue;
    const auto layer = name.substr(0, name.size() - count.size());
    if (now.contains(layer + ".running_var") && is_same(layer + ".running_var")) return layer;
  }
  return "";
}

}  // namespace

SingleRows single_rows(const StepPlan& plan, const EpochRows& epoch) {
  const int64_t most = std::min(epoch.batch_size, epoch.samples), last = epoch.samples % epoch.batch_size;
  if (has_single_row(plan, epoch, most, most)) return SingleRows::kAll;
  if (most < epoch.batch_size || epoch.drops_tail) return SingleRows::kNone;
  const bool is_short_single = epoch.is_by_rank || has_single_row(plan, epoch, last, most);
  return is_short_single ? SingleRows::kShortBatch : SingleRows::kNone;
}

std::string norm_without_variance(Model& model, const ModelShape& shape) {
  const at::NoGradGuard no_grad;
  const detail::KeptRandomState kept(torch::kCPU);
  const RowScope rows(BatchRows{});
  const bool was_training = model.is_training();
  model.train();
  const auto generator = at::detail::createCPUGenerator(/*seed_val=*/0);
  auto x = torch::randn({1, shape.channels, shape.height, shape.width}, generator, torch::dtype(torch::kFloat32));
  std::string found;
  for (size_t block = 0; block < model.blocks().size() && x.defined(); ++block) {
    const detail::BorrowedBlock borrowed(model, block, torch::kCPU);
    const auto before = buffers_of(model);
    try {
      x = model.blocks()[block].forward(x);
    } catch (const c10::Error& error) {
      x.reset();  // what else is wrong the run will say
      if (std::string(error.what_without_backtrace()).find("more than 1 value per channel") == std::string::npos) break;
      found = refusing_norm(model, before);
      if (found.empty()) found = model.blocks()[block].name;
    }
  }
  model.train(was_training);
  return found;
}

}  // namespace penstock
