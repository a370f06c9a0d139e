// Kept state: names, and the way to rank 0.
#include "train/parallel/engine/engine_state.h"

#include <set>

#include "core/text.h"
#include "train/parallel/strategy/transfer.h"

namespace penstock::detail {
namespace {

constexpr const char* kPrefix = "strategy.";

std::string entry_name(const std::string& owner, int rank, const std::string& tensor) {
  return concat(kPrefix, owner, ".", rank, ".", tensor);
}

bool fits(const StateDict& state, const std::string& name, const torch::Tensor& like) {
  const auto found = state.find(name);
  return found != state.end() && found->second.sizes() == like.sizes() &&
         found->second.scalar_type() == like.scalar_type();
}

}  // namespace

bool is_kept_entry(const std::string& name) { return name.starts_with(kPrefix); }

StateSizes kept_sizes(GradientSync& sync, const Comm& data) {
  StateSizes sizes;
  const auto kept = sync.kept();
  for (const auto& [name, tensor] : kept.tensors)
    for (int rank = 0; rank < data.world_size(); ++rank) sizes.emplace_back(entry_name(kept.owner, rank, name), tensor);
  return sizes;
}

void for_each_kept(GradientSync& sync, Comm& data, const UseTensor& use) {
  const auto kept = sync.kept();
  for (const auto& [name, tensor] : kept.tensors)
    for (int rank = 0; rank < data.world_size(); ++rank) {
      const auto one = transfer(data, rank, tensor, tensor.device(), name);
      if (data.rank() == 0) use(entry_name(kept.owner, rank, name), one);
    }
}

std::string load_kept(const StateDict& state, GradientSync& sync, int rank, int world_size) {
  size_t found_count = 0;
  std::set<std::string> owners;
  for (const auto& [name, tensor] : state) {
    if (!is_kept_entry(name)) continue;
    ++found_count;
    owners.insert(split(name, '.')[1]);
  }
  if (found_count == 0) return "";
  const auto kept = sync.kept();
  bool is_for_this = found_count == kept.tensors.size() * static_cast<size_t>(world_size);
  for (const auto& [name, tensor] : kept.tensors)
    for (int other = 0; other < world_size; ++other)
      is_for_this = is_for_this && fits(state, entry_name(kept.owner, other, name), tensor);
  if (!is_for_this)
    return concat("left out of the checkpoint: what each rank kept for ", join({owners.begin(), owners.end()}),
                  ", which only the same mode, keys and number of ranks can go on with");
  at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : kept.tensors)
    torch::Tensor(tensor).copy_(state.at(entry_name(kept.owner, rank, name)));
  return "";
}

}  // namespace penstock::detail
