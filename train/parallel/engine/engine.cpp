// Engine: forward, backward, update and checkpoints of what one rank holds.
#include "train/parallel/engine/engine.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "train/nn/model.h"
#include "train/parallel/engine/engine_state.h"
#include "train/parallel/replicas/replicas.h"
#include "train/parallel/strategy/transfer.h"

namespace penstock::detail {
namespace {

std::vector<double> numbers_of(const NamedTensors& parameters, const std::map<std::string, double>& by_name,
                               double of_others) {
  std::vector<double> list;
  for (const auto& [name, tensor] : parameters) list.push_back(by_name.contains(name) ? by_name.at(name) : of_others);
  return list;
}

void broadcast(Comm& comm, const NamedTensors& tensors) {
  at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    auto data = tensor.detach();
    comm.broadcast(data, 0);
  }
}

/// The ranks that hold the same stages as this one; null where that is all of them.
std::unique_ptr<Comm> data_axis(Comm& world, const Mesh& mesh) {
  if (mesh.pipe == 1) return nullptr;
  return mesh.data == 1 ? make_self_comm() : world.split(mesh.pipe_rank(world.rank()));
}

/// The ranks that hold the other stages of the same copy; null where that is all of them, or none.
std::unique_ptr<Comm> pipe_axis(Comm& world, const Mesh& mesh) {
  return mesh.pipe == 1 || mesh.data == 1 ? nullptr : world.split(mesh.pipe + mesh.data_rank(world.rank()));
}

/// What this rank holds.
std::vector<StageRange> ranges_of(const StepConfig& choices, const Model& model, int rank) {
  if (choices.ranges.empty()) return {{0, model.stages().size()}};
  std::vector<StageRange> own;
  const auto pipe = static_cast<size_t>(choices.mesh.pipe);
  for (auto part = static_cast<size_t>(choices.mesh.pipe_rank(rank)); part < choices.ranges.size(); part += pipe)
    own.push_back(choices.ranges[part]);
  return own;
}

constexpr const char* kSteps = "optimizer.steps";
constexpr const char* kAverage = "average.";

std::string slot_prefix(const OptimizerState::Slot& slot) { return concat("optimizer.", slot.name, "."); }

/// One tensor of for_each_state().
struct StateEntry {
  std::string name;       // "optimizer.momentum.fc.weight"
  std::string of_tensor;  // "fc.weight", which says the stage; empty: every rank has it
  torch::Tensor like;     // with its sizes and dtype
};

/// All that for_each_state() gives of a model, in the model's order.
std::vector<StateEntry> expected_state(const Model& model, const OptimizerState& optimizer, bool has_average) {
  std::vector<StateEntry> all;
  const auto add = [&](const std::string& prefix, const auto& tensors) {
    for (const auto& item : tensors) all.push_back({prefix + item.key(), item.key(), item.value()});
  };
  add("model.", model.named_parameters());
  add("model.", model.named_buffers());
  for (const auto& slot : optimizer.slots) add(slot_prefix(slot), model.named_parameters());
  if (optimizer.step_count) all.push_back({kSteps, "", torch::zeros({}, torch::kInt64)});
  if (!has_average) return all;
  add(kAverage, model.named_parameters());
  add(kAverage, model.named_buffers());
  return all;
}

}  // namespace

Engine::Engine(const StrategyContext& context, const StepConfig& choices)
    : model_(context.model),
      choices_(choices),
      world_(context.comm),
      data_comm_(data_axis(world_, choices.mesh)),
      pipe_comm_(pipe_axis(world_, choices.mesh)),
      data_(data_comm_ ? *data_comm_ : world_),
      device_(context.device),
      recorder_(context.recorder),
      part_(model_, ranges_of(choices, model_, world_.rank()), device_, /*is_outline=*/context.weights != nullptr) {
  if (choices.mesh.size() != world_.world_size())
    throw bug_error(concat("a mesh of ", choices.mesh.size(), " ranks for ", world_.world_size()));
  if (choices.mesh.pipe > 1)
    link_.emplace(pipe_comm_ ? *pipe_comm_ : world_, static_cast<int>(choices.ranges.size()), device_, recorder_,
                  choices.mesh.rank(data_rank(), 0));
  if (choices.syncs_batch_norm && data_.world_size() > 1) norms_.emplace(model_, data_, recorder_);
  if (norms_ && norms_->empty()) norms_.reset();
  runner_.emplace(part_, link_ ? &*link_ : nullptr, choices.mesh.pipe_rank(world_.rank()), choices.mesh.pipe,
                  choices.micro_batches, choices.schedule, device_, recorder_, norms_.has_value(),
                  choices.replicas.get());
  runner_->smooth_labels(context.step.label_smoothing);
  if (!context.weights) broadcast(data_, part_.parameters());
  if (choices.store) part_.keep_in(choices.store(part_, data_, recorder_));
  if (context.weights) {
    context.weights([this](const std::string& name, const torch::Tensor& value) { part_.load(name, value); });
    world_.barrier();  // ranks that are threads draw from the same random numbers
    if (!choices.store) broadcast(data_, part_.parameters());
  }
  agree_on_buffers();
  update_ = choices.update({part_.trained(), data_, recorder_, context.optimizer,
                            numbers_of(part_.trained(), context.rate_factors, 1), choices.steps_in_backward,
                            choices.mesh.shards > 0,
                            numbers_of(part_.trained(), context.step.weight_decays, context.optimizer.weight_decay)});
  sync_ = choices.sync(part_.trained(), data_, recorder_, choices.micro_batches);
  if (sync_->defers_weight_gradients()) runner_->leave_weights_for_the_end();
  if (choices.steps_in_backward && context.emulation.learns())
    sync_->on_bucket_reduced([this](size_t bucket) { update_->step_bucket(bucket); });
  if (choices.mesh.shards > 0) {
    shards_.emplace(part_, data_, choices.replicas.get(), choices.mesh.shards, context.seed, device_,
                    choices.replicas != nullptr || (device_.is_cpu() && world_.backend() == "threads"));
    runner_->tell(*shards_, *sync_);
  }
  if (!context.emulation.learns()) emulate(context);
  if (context.step.keeps_average) average_.emplace(part_);
}

void Engine::emulate(const StrategyContext& context) {
  const auto& mesh = choices_.mesh;
  EmulatedWork work{.step_ns = context.emulation.step_ns,
                    .shares = int64_t{mesh.data} * mesh.replicas,
                    .micro_batches = choices_.micro_batches,
                    .rank = mesh.pipe_rank(world_.rank()),
                    .ranks = mesh.pipe,
                    .schedule = choices_.schedule,
                    .chunks = ranges_of(choices_, model_, world_.rank()),
                    .net = context.emulation.network};
  for (const auto& [name, parameter] : part_.parameters())
    work.replica_bytes += static_cast<int64_t>(parameter.nbytes()) * (mesh.replicas - 1);
  emulated_step_.emplace(part_, link_ ? &*link_ : nullptr, data_.world_size() > 1 ? sync_.get() : nullptr, recorder_,
                         std::move(work));
}

/// Collective. Whether the part has the average for its weights, as an evaluation wants it, or those that are trained.
void Engine::show_average(bool on) {
  if (average_ && average_->is_shown() != on) average_->swap(part_);
}

void Engine::average_weights(double decay, bool restarts) {
  if (!average_) throw bug_error("an average that was not announced; expected StepOptions::keeps_average");
  agree_on_buffers();
  show_average(false);
  average_->update(part_, decay, restarts);
}

StepSums Engine::step(const DeviceBatch& batch) {
  begin_step();
  if (emulated_step_) return emulated(batch);
  auto sums = compute_gradients(batch);
  finish_step();
  return sums;
}

StepSums Engine::compute_gradients(const DeviceBatch& batch) {
  sync_->begin();
  if (shards_) shards_->begin(batch);
  auto sums = runner_->run(link_ ? link_->with_targets(batch) : batch);
  if (link_) link_->finish();
  recorder_.enter(Phase::kCommunication);
  sync_->finish();
  if (shards_) shards_->finish();
  sums.compression_error = sync_->compression_error();
  recorder_.mark(Phase::kCommunication);
  return sums;
}

void Engine::finish_step() {
  if (!choices_.steps_in_backward) update_->step();
  recorder_.mark(Phase::kOptimizer);
  update_->share();
  recorder_.mark(Phase::kCommunication);
  are_buffers_agreed_ = false;
}

std::string Engine::capture_obstacle() const {
  if (emulated_step_) return "an emulated step computes nothing";
  if (shards_) return "--exact computes the shards of a batch one by one; expected no --exact";
  return choices_.can_be_captured ? "" : "this mode's cannot be captured; expected --mode single";
}

std::vector<torch::Tensor> Engine::gradients() {
  std::vector<torch::Tensor> gradients;
  for (const auto& [name, parameter] : part_.trained()) gradients.push_back(parameter.grad());
  return gradients;
}

/// A step between the replays of a graph leaves other tensors as gradients of the parameters than the graph writes to.
void Engine::update(const std::vector<torch::Tensor>& gradients) {
  const auto& trained = part_.trained();
  for (size_t i = 0; i < trained.size(); ++i) trained[i].second.mutable_grad() = gradients[i];
  finish_step();
}

StepSums Engine::emulated(const DeviceBatch& batch) {
  const bool has_copies = data_.world_size() > 1;
  if (has_copies) sync_->begin();
  emulated_step_->run(link_ ? link_->with_targets(batch) : batch);
  if (link_) link_->finish();
  recorder_.enter(Phase::kCommunication);
  if (has_copies) {
    sync_->finish();
    update_->share();
  }
  recorder_.mark(Phase::kCommunication);
  return no_sums(device_);
}

torch::Tensor Engine::evaluate(DeviceBatch& batch) {
  agree_on_buffers();
  show_average(true);
  at::NoGradGuard no_grad;
  part_.train(false);
  if (link_) batch = link_->with_targets(batch);
  const auto logits = runner_->evaluate(batch);
  if (link_) link_->finish();
  return logits;
}

void Engine::agree_on_buffers() {
  if (are_buffers_agreed_) return;
  broadcast(data_, part_.buffers());
  are_buffers_agreed_ = true;
}

void Engine::for_each_held(const UseTensor& use) {
  part_.for_each_whole(
      [&](const std::string& name, const torch::Tensor& parameter) { use("model." + name, parameter); });
  for (const auto& [name, tensor] : part_.buffers()) use("model." + name, tensor);
  const auto& optimizer = update_->optimizer().state();
  for (size_t slot = 0; slot < optimizer.slots.size(); ++slot) {
    size_t trained = 0;
    for (const auto& [name, tensor] : part_.parameters())
      use(slot_prefix(optimizer.slots[slot]) + name,
          tensor.requires_grad() ? update_->slot(slot, trained++) : torch::zeros_like(tensor));
  }
  if (optimizer.step_count) use(kSteps, torch::tensor(*optimizer.step_count));
  if (average_)
    for (const auto& [name, tensor] : average_->tensors()) use(kAverage + name, tensor);
}

std::vector<ReplicaUse> Engine::replica_use() {
  return choices_.replicas ? choices_.replicas->use() : std::vector<ReplicaUse>();
}

StateSizes Engine::state_sizes() {
  StateSizes sizes;
  for (const auto& entry : expected_state(model_, update_->optimizer().state(), average_.has_value()))
    sizes.emplace_back(entry.name, entry.like);
  for (auto& kept : kept_sizes(*sync_, data_)) sizes.push_back(std::move(kept));
  return sizes;
}

/// The first rank of the data axis that holds the stage of this tensor.
int Engine::holder_of(const std::string& tensor) const {
  if (!link_ || tensor.empty()) return 0;
  const size_t stage = stage_of(model_, tensor);
  const auto& ranges = choices_.ranges;
  const auto part = std::find_if(ranges.begin(), ranges.end(), [&](const auto& range) { return stage < range.end; });
  return choices_.mesh.rank(0, static_cast<int>(part - ranges.begin()) % choices_.mesh.pipe);
}

void Engine::for_each_state(const UseTensor& use) {
  agree_on_buffers();
  show_average(false);
  const auto expected = expected_state(model_, update_->optimizer().state(), average_.has_value());
  auto next = expected.begin();
  // Rank 0 fetches what the ranks with other parts hold when its turn comes; each of them sends in the same order.
  const auto go_to = [&](const std::string& name) {
    for (; next != expected.end() && next->name != name; ++next) {
      use(next->name, transfer(world_, holder_of(next->of_tensor), next->like, device_, next->name));
    }
  };
  for_each_held([&](const std::string& name, const torch::Tensor& tensor) {
    if (world_.rank() == 0) {
      go_to(name);
      use(name, tensor);
      ++next;
    } else if (data_rank() == 0 && name != kSteps) {
      transfer(world_, world_.rank(), tensor, device_, name);
    }
  });
  if (world_.rank() == 0) go_to("");
  for_each_kept(*sync_, data_, use);
}

void Engine::load_state(const StateDict& state) {
  auto& optimizer = update_->optimizer().state();
  show_average(false);
  const auto expected = expected_state(model_, optimizer, average_.has_value());
  for (const auto& [name, of_tensor, tensor] : expected) {
    const auto found = state.find(name);
    if (found == state.end())
      throw corrupt_error(concat("tensor ", name, " is missing; expected it, as the model has it"));
    if (found->second.sizes() != tensor.sizes() || found->second.scalar_type() != tensor.scalar_type())
      throw corrupt_error(concat("tensor ", name, " is ", found->second.scalar_type(), " ", found->second.sizes(),
                                 "; expected the model's, ", tensor.scalar_type(), " ", tensor.sizes()));
  }
  for (const auto& [name, tensor] : state)
    if (!is_kept_entry(name) && std::none_of(expected.begin(), expected.end(),
                                             [&, &name = name](const auto& entry) { return entry.name == name; }))
      throw corrupt_error(concat("tensor ", name, " is one too many; expected the model's tensors alone"));
  at::NoGradGuard no_grad;
  for (const auto* held : {&part_.parameters(), &part_.buffers()})
    for (const auto& item : *held) part_.load(item.first, state.at("model." + item.first));
  for (size_t slot = 0; slot < optimizer.slots.size(); ++slot) {
    std::vector<torch::Tensor> whole;
    for (const auto& [name, tensor] : part_.trained())
      whole.push_back(state.at(slot_prefix(optimizer.slots[slot]) + name));
    update_->load_slot(slot, whole);
  }
  if (optimizer.step_count) optimizer.step_count = state.at(kSteps).item<int64_t>();
  if (average_)
    for (const auto& [name, tensor] : average_->tensors()) tensor.copy_(state.at(kAverage + name));
  left_out_ = load_kept(state, *sync_, data_.rank(), data_.world_size());
}

}  // namespace penstock::detail
