// Memory: storages are counted, whoever holds them; the formula is counted from sizes.
#include "train/parallel/engine/memory_use.h"

#include <algorithm>
#include <numeric>

#include "core/text.h"
#include "train/parallel/strategy/buckets.h"
#include "train/tensor/storage.h"

namespace penstock::detail {
namespace {

int64_t total_bytes(const std::vector<torch::Tensor>& tensors) {
  const auto bytes = bytes_of(tensors);
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

KindMemory kind_of(const char* kind, const std::vector<torch::Tensor>& held, int64_t peak_bytes) {
  const int64_t bytes = storage_bytes(held);
  return {.kind = kind, .bytes = bytes, .peak_bytes = std::max(bytes, peak_bytes)};
}

/// `factor` * `whole_bytes`, of which this rank has a slice or all.
void add_formula(KindMemory& memory, int64_t whole_bytes, int factor, bool is_sharded, int ranks) {
  memory.formula = concat(factor == 1 ? "" : concat(factor, " "), "phi", is_sharded ? concat(" / ", ranks) : "");
  memory.formula_bytes = static_cast<double>(whole_bytes) * factor / (is_sharded ? ranks : 1);
}

}  // namespace

std::vector<KindMemory> measured_memory(const ModelPart& part, const GradientSync& sync,
                                        const OptimizerState& optimizer, const std::vector<torch::Tensor>& average,
                                        const std::vector<torch::Tensor>& outer, const ShardedKinds& sharded,
                                        int ranks) {
  const auto parameters = values(part.parameters()), trained = values(part.trained());
  auto gradients = sync.buffers();
  for (const auto& parameter : trained) gradients.push_back(parameter.grad());
  std::vector<torch::Tensor> state;
  for (const auto& slot : optimizer.slots) state.insert(state.end(), slot.tensors.begin(), slot.tensors.end());
  auto stored = parameters;
  if (const auto* store = part.store()) {
    const auto kept = store->tensors();
    stored.insert(stored.end(), kept.begin(), kept.end());
  }
  std::vector<KindMemory> kinds{kind_of("parameters", stored, part.store() ? part.store()->peak_bytes() : 0),
                                kind_of("gradients", gradients, sync.peak_bytes()), kind_of("optimizer", state, 0)};
  add_formula(kinds[0], total_bytes(parameters), 1, sharded.parameters, ranks);
  add_formula(kinds[1], total_bytes(trained), 1, sharded.gradients, ranks);
  add_formula(kinds[2], total_bytes(trained), static_cast<int>(optimizer.slots.size()), sharded.optimizer, ranks);
  if (!average.empty()) {
    kinds.push_back(kind_of("average", average, 0));
    add_formula(kinds.back(), total_bytes(parameters), 1, /*is_sharded=*/false, ranks);
  }
  if (!outer.empty()) {
    kinds.push_back(kind_of("outer", outer, 0));
    add_formula(kinds.back(), total_bytes(trained), static_cast<int>(outer.size() / trained.size()),
                /*is_sharded=*/false, ranks);
  }
  return kinds;
}

}  // namespace penstock::detail
