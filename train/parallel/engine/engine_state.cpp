// EngineState: names, and the way to rank 0.
#include "train/parallel/engine/engine_state.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "train/parallel/strategy/transfer.h"

namespace penstock::detail {
namespace {

constexpr const char* kSteps = "optimizer.steps";
constexpr const char* kAverage = "average.";
constexpr const char* kRankLocal = "strategy.";

std::string slot_prefix(const OptimizerState::Slot& slot) { return concat("optimizer.", slot.name, "."); }

std::string rank_local_name(const std::string& owner, int rank, const std::string& tensor) {
  return concat(kRankLocal, owner, ".", rank, ".", tensor);
}
std::string common_name(const std::string& owner, const std::string& tensor) {
  return concat(kRankLocal, owner, ".all.", tensor);
}

bool fits(const StateDict& state, const std::string& name, const torch::Tensor& like) {
  const auto found = state.find(name);
  return found != state.end() && found->second.sizes() == like.sizes() &&
         found->second.scalar_type() == like.scalar_type();
}

}  // namespace

std::vector<EngineState::Entry> EngineState::expected() const {
  const auto& optimizer = parts_.update.optimizer().state();
  std::vector<Entry> all;
  const auto add = [&](const std::string& prefix, const auto& tensors) {
    for (const auto& item : tensors) all.push_back({prefix + item.key(), item.key(), item.value()});
  };
  add("model.", model_.named_parameters());
  add("model.", model_.named_buffers());
  for (const auto& slot : optimizer.slots) add(slot_prefix(slot), model_.named_parameters());
  if (optimizer.step_count) all.push_back({kSteps, "", torch::zeros({}, torch::kInt64)});
  if (!average_.is_kept()) return all;
  add(kAverage, model_.named_parameters());
  add(kAverage, model_.named_buffers());
  return all;
}

NamedTensors EngineState::sizes() const {
  NamedTensors sizes;
  for (const auto& entry : expected()) sizes.emplace_back(entry.name, entry.like);
  for (auto& own : rank_local_sizes()) sizes.push_back(std::move(own));
  return sizes;
}

int EngineState::holder_of(const std::string& tensor) const {
  const auto& mesh = parts_.plan.mesh;
  const auto& ranges = parts_.plan.stages;
  if (mesh.pipe == 1 || tensor.empty()) return 0;
  const size_t block = block_of(model_, tensor);
  const auto part = std::find_if(ranges.begin(), ranges.end(), [&](const auto& range) { return block < range.end; });
  return mesh.rank(0, parts_.placement.rank_of(static_cast<int>(part - ranges.begin())));
}

void EngineState::for_each_held(const UseTensor& use) {
  parts_.part.for_each_whole([&](const std::string& name, const torch::Tensor& parameter) {
    use("model." + name, parts_.update.agreed(parameter));
  });
  for (const auto& [name, tensor] : parts_.part.buffers()) use("model." + name, tensor);
  const auto& optimizer = parts_.update.optimizer().state();
  for (size_t slot = 0; slot < optimizer.slots.size(); ++slot) {
    size_t trained = 0;
    for (const auto& [name, tensor] : parts_.part.parameters())
      use(slot_prefix(optimizer.slots[slot]) + name,
          tensor.requires_grad() ? parts_.update.slot(slot, trained++) : torch::zeros_like(tensor));
  }
  if (optimizer.step_count) use(kSteps, torch::tensor(*optimizer.step_count));
  for (const auto& [name, tensor] : average_.tensors()) use(kAverage + name, tensor);
}

void EngineState::for_each(const UseTensor& use) {
  const auto all = expected();
  auto next = all.begin();
  // Rank 0 fetches what the ranks with other parts hold when its turn comes; each of them sends in the same order.
  const auto go_to = [&](const std::string& name) {
    for (; next != all.end() && next->name != name; ++next)
      use(next->name, transfer(world_, holder_of(next->of_tensor), next->like, parts_.device, next->name));
  };
  for_each_held([&](const std::string& name, const torch::Tensor& tensor) {
    if (world_.rank() == 0) {
      go_to(name);
      use(name, tensor);
      ++next;
    } else if (parts_.data.rank() == 0 && name != kSteps) {
      transfer(world_, world_.rank(), tensor, parts_.device, name);
    }
  });
  if (world_.rank() == 0) go_to("");
  for_each_rank_local(use);
}

void EngineState::check(const StateDict& state, const std::vector<Entry>& expected) const {
  for (const auto& [name, of_tensor, tensor] : expected) {
    const auto found = state.find(name);
    if (found == state.end())
      throw corrupt_error(concat("tensor ", name, " is missing; expected it, as the model has it"));
    if (!fits(state, name, tensor))
      throw corrupt_error(concat("tensor ", name, " is ", found->second.scalar_type(), " ", found->second.sizes(),
                                 "; expected the model's, ", tensor.scalar_type(), " ", tensor.sizes()));
  }
  for (const auto& [name, tensor] : state)
    if (!name.starts_with(kRankLocal) &&
        std::none_of(expected.begin(), expected.end(), [&, &name = name](const auto& e) { return e.name == name; }))
      throw corrupt_error(concat("tensor ", name, " is one too many; expected the model's tensors alone"));
}

std::string EngineState::load(const StateDict& state) {
  check(state, expected());
  auto& optimizer = parts_.update.optimizer().state();
  auto& part = parts_.part;
  at::NoGradGuard no_grad;
  for (const auto* held : {&part.parameters(), &part.buffers()})
    for (const auto& item : *held) part.load(item.first, state.at("model." + item.first));
  for (size_t slot = 0; slot < optimizer.slots.size(); ++slot) {
    std::vector<torch::Tensor> whole;
    for (const auto& [name, tensor] : part.trained())
      whole.push_back(state.at(slot_prefix(optimizer.slots[slot]) + name));
    parts_.update.load_slot(slot, whole);
  }
  if (optimizer.step_count) optimizer.step_count = state.at(kSteps).item<int64_t>();
  for (const auto& [name, tensor] : average_.tensors()) tensor.copy_(state.at(kAverage + name));
  return load_rank_local(state);
}

RankLocalState EngineState::rank_local() const {
  auto kept = parts_.sync.rank_local_state();
  return kept.owner.empty() ? parts_.update.rank_local_state() : kept;
}

NamedTensors EngineState::rank_local_sizes() const {
  NamedTensors sizes;
  const auto kept = rank_local();
  for (const auto& [name, tensor] : kept.tensors)
    for (int rank = 0; rank < parts_.data.world_size(); ++rank)
      sizes.emplace_back(rank_local_name(kept.owner, rank, name), tensor);
  for (const auto& [name, tensor] : kept.common) sizes.emplace_back(common_name(kept.owner, name), tensor);
  return sizes;
}

void EngineState::for_each_rank_local(const UseTensor& use) {
  const auto kept = rank_local();
  for (const auto& [name, tensor] : kept.tensors)
    for (int rank = 0; rank < parts_.data.world_size(); ++rank) {
      const auto one = transfer(parts_.data, rank, tensor, tensor.device(), name);
      if (parts_.data.rank() == 0) use(rank_local_name(kept.owner, rank, name), one);
    }
  if (parts_.data.rank() == 0)
    for (const auto& [name, tensor] : kept.common) use(common_name(kept.owner, name), tensor);
}

std::string EngineState::load_rank_local(const StateDict& state) {
  size_t found_count = 0;
  std::set<std::string> owners;
  for (const auto& [name, tensor] : state) {
    if (!name.starts_with(kRankLocal)) continue;
    ++found_count;
    owners.insert(split(name, '.')[1]);
  }
  if (found_count == 0) return "";
  const auto kept = rank_local();
  const auto sizes = rank_local_sizes();
  const bool is_for_this = found_count == sizes.size() && std::all_of(sizes.begin(), sizes.end(), [&](const auto& own) {
                             return fits(state, own.first, own.second);
                           });
  if (!is_for_this)
    return concat("left out of the checkpoint: what each rank kept for ", join({owners.begin(), owners.end()}),
                  ", which only the same mode, keys and number of ranks can go on with");
  at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : kept.tensors)
    torch::Tensor(tensor).copy_(state.at(rank_local_name(kept.owner, parts_.data.rank(), name)));
  for (const auto& [name, tensor] : kept.common) torch::Tensor(tensor).copy_(state.at(common_name(kept.owner, name)));
  return "";
}

}  // namespace penstock::detail
