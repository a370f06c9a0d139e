// Memory: storages are counted, whoever holds them; the formula is counted from sizes.
#include "train/parallel/engine/memory_use.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "train/parallel/strategy/buckets.h"
#include "train/parallel/strategy/memory_formula.h"
#include "train/tensor/storage.h"

namespace penstock::detail {
namespace {

double total_bytes(const std::vector<torch::Tensor>& tensors) {
  const auto bytes = bytes_of(tensors);
  return static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}));
}

struct Held {
  std::vector<torch::Tensor> tensors = {};
  int64_t peak_bytes = 0;  // of what is held for a part of a step alone
};

}  // namespace

std::vector<KindMemory> measured_memory(const StepPlan& plan, const ModelPart& part, const GradientSync& sync,
                                        const OptimizerState& optimizer, const std::vector<torch::Tensor>& average,
                                        const std::vector<torch::Tensor>& outer) {
  const auto parameters = values(part.parameters()), trained = values(part.trained());
  std::map<std::string, Held> held{{"parameters", {.tensors = parameters}},
                                   {"gradients", {.tensors = sync.buffers(), .peak_bytes = sync.peak_bytes()}},
                                   {"average", {.tensors = average}},
                                   {"outer", {.tensors = outer}}};
  const auto add = [&](const char* kind, const std::vector<torch::Tensor>& tensors) {
    auto& all = held[kind].tensors;
    all.insert(all.end(), tensors.begin(), tensors.end());
  };
  if (const auto* store = part.store()) {
    add("parameters", store->tensors());
    held["parameters"].peak_bytes = store->peak_bytes();
  }
  for (const auto& parameter : trained) add("gradients", {parameter.grad()});
  for (const auto& slot : optimizer.slots) add("optimizer", slot.tensors);
  std::vector<KindMemory> kinds;
  for (const auto& one : memory_formula(plan, static_cast<int>(optimizer.slots.size()), !average.empty())) {
    const int64_t bytes = storage_bytes(held[one.kind].tensors);
    kinds.push_back({.kind = one.kind,
                     .bytes = bytes,
                     .peak_bytes = std::max(bytes, held[one.kind].peak_bytes),
                     .formula_bytes = one.bytes(total_bytes(parameters), total_bytes(trained)),
                     .formula = one.text()});
  }
  return kinds;
}

}  // namespace penstock::detail
