// Engine: puts a rank's parts together, and keeps their order in a step.
#include "train/parallel/engine/engine.h"

#include <torch/cuda.h>

#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "train/nn/layers.h"
#include "train/nn/model.h"
#include "train/parallel/pipeline/schedule_file.h"
#include "train/tensor/ordered_sum.h"

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
  if (mesh.size() != world.world_size())
    throw bug_error(concat("a mesh of ", mesh.size(), " ranks; expected one of ", world.world_size()));
  if (mesh.pipe == 1) return nullptr;
  return mesh.data == 1 ? make_self_comm() : world.split(mesh.pipe_rank(world.rank()));
}

/// The ranks of the same copy of the model; null where that is all of them.
std::unique_ptr<Comm> pipe_axis(Comm& world, const Mesh& mesh) {
  if (mesh.data == 1) return nullptr;
  return mesh.pipe == 1 ? make_self_comm() : world.split(mesh.pipe + mesh.data_rank(world.rank()));
}

/// What this rank holds.
std::vector<BlockRange> ranges_of(const StepPlan& plan, const Placement& placement, const Model& model, int rank) {
  if (plan.stages.empty()) return {{0, model.blocks().size()}};
  std::vector<BlockRange> own;
  for (const int part : placement.parts_of(plan.mesh.pipe_rank(rank)))
    own.push_back(plan.stages[static_cast<size_t>(part)]);
  return own;
}

}  // namespace

Engine::Engine(const StrategyContext& context, const StepPlan& plan, OwnParts own)
    : measured_(measured(context, fitted(plan, facts_of(context.model)))),
      plan_(measured_.plan),
      placed_(placed_schedules(plan_)),
      makers_(plan_, std::move(own), context),
      model_(context.model),
      device_(context.device),
      skips_overflows_(context.step.skips_overflows && context.emulation.learns()),
      leaves_out_single_rows_(context.step.leaves_out_single_rows),
      world_(context.comm),
      data_comm_(data_axis(world_, plan_.mesh)),
      pipe_comm_(pipe_axis(world_, plan_.mesh)),
      data_(data_comm_ ? *data_comm_ : world_),
      part_(context.model, ranges_of(plan_, placed_.placement, context.model, world_.rank()), context.device,
            /*is_outline=*/context.weights != nullptr),
      norms_(context.model, data_, context.recorder, plan_.syncs_batch_norm && data_.world_size() > 1),
      link_(pipe_comm_ ? *pipe_comm_ : world_, placed_.placement, context.device, context.recorder,
            plan_.mesh.rank(data_rank(), 0), loss_of(context.step)->target().outputs,
            is_schedule_file(plan_.schedule.name)) {
  for (const auto& item : context.model.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    if (part_.holds(item.key())) places_.push_back(trained_count_);
    ++trained_count_;
  }
  take_weights(context);
  agree_on_buffers();
  std::vector<char> are_vectors;
  for (const auto& [name, parameter] : part_.trained())
    are_vectors.push_back(context.step.no_matrices.contains(name) ? 1 : 0);
  update_ = makers_.make_update(
      {part_.trained(), data_, context.recorder, context.optimizer,
       numbers_of(part_.trained(), context.rate_factors, 1), plan_.mesh.micro_shards > 0,
       numbers_of(part_.trained(), context.step.weight_decays, context.optimizer.weight_decay), context.step.clip,
       [this, device = context.device](const torch::Tensor& numbers) { return sum_over_parts(numbers, device); },
       std::move(are_vectors)});
  sync_ = makers_.make_sync({part_.trained(), data_, context.recorder, plan_.schedule.micro_batches});
  const StepParts parts{plan_,
                        placed_.placement,
                        placed_.ranks[static_cast<size_t>(plan_.mesh.pipe_rank(world_.rank()))],
                        part_,
                        link_,
                        *update_,
                        *sync_,
                        data_,
                        plan_.mesh.pipe_rank(world_.rank()),
                        context.device,
                        context.recorder,
                        !norms_.empty(),
                        makers_.replicas(),
                        context.taps};
  runner_ = makers_.make_runner(parts, context);
  average_ = std::make_unique<WeightAverage>(part_, context.step.keeps_average);
  state_ = std::make_unique<EngineState>(context.model, world_, parts, *average_);
}

/// The weights of data rank 0, or those of the context.
void Engine::take_weights(const StrategyContext& context) {
  if (!context.weights) broadcast(data_, part_.parameters());
  if (auto store = makers_.make_store(part_, data_, context.recorder)) part_.keep_in(std::move(store));
  if (!context.weights) return;
  context.weights([this](const std::string& name, const torch::Tensor& value) { part_.load(name, value); });
  world_.barrier();  // ranks that are threads draw from the same random numbers
  if (part_.store() == nullptr) broadcast(data_, part_.parameters());
}

void Engine::average_weights(double decay, bool restarts) {
  agree_on_buffers();
  average_->update(decay, restarts);
}

StepSums Engine::step(const DeviceBatch& batch) {
  begin_step();
  if (leaves_out_all(batch)) {
    auto sums = no_sums(device_);
    sums.has_rows = false;
    return sums;
  }
  auto sums = compute_gradients(batch);
  sums.is_skipped = skips_overflows_ && overflows();
  finish_step(!sums.is_skipped);
  return sums;
}

/// Whether no rank or replica has more than one row; with ranks of their own shards (--shuffle rank-local), whether
/// that may be so. With --exact the first shard has two rows where there are two.
bool Engine::leaves_out_all(const DeviceBatch& batch) const {
  const auto& mesh = plan_.mesh;
  const bool is_divided = mesh.micro_shards == 0 && norms_.empty();
  return leaves_out_single_rows_ && batch.global_count <= (is_divided ? int64_t{mesh.data} * mesh.replicas : 1);
}

/// Collective: whether some rank has a gradient that is not finite. Slices and parts of the model are of one rank
/// alone.
bool Engine::overflows() {
  auto found = update_->overflow().to(device_);
  world_.all_reduce_sum(found)->wait();
  return found.item<double>() > 0;
}

void Engine::compute_in(const Precision& precision) {
  penstock::compute_in(model_, precision);
  if (auto* replicas = makers_.replicas()) replicas->compute_in(precision);
}

std::string Engine::capture_obstacle() const {
  return skips_overflows_ ? "the scale of --precision f16 adapts; expected one that stays, such as f16(scale=1024)"
                          : runner_->capture_obstacle();
}

/// One entry per trained parameter of the model: it is held by one rank of each copy, and x + 0 is x. These are added
/// in the order of the model.
torch::Tensor Engine::sum_over_parts(const torch::Tensor& numbers, const torch::Device& device) {
  auto all = torch::zeros({trained_count_}, torch::dtype(torch::kFloat64).device(device));
  if (!places_.empty()) all.index_copy_(0, torch::tensor(places_).to(device), numbers.to(device));
  if (plan_.mesh.pipe > 1) (pipe_comm_ ? *pipe_comm_ : world_).all_reduce_sum(all)->wait();
  return folded_sum(all);
}

void Engine::finish_step(bool updates) {
  if (updates) runner_->update();
  are_buffers_agreed_ = false;
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

std::vector<KindMemory> Engine::memory() const {
  return measured_memory(plan_, part_, *sync_, update_->optimizer().state(), values(average_->tensors()),
                         values(update_->rank_local_state().common));
}

torch::Tensor Engine::evaluate(DeviceBatch& batch) {
  meet();
  agree_on_buffers();
  average_->show(evaluates_average_);
  at::NoGradGuard no_grad;
  part_.train(false);
  batch = link_.with_targets(batch);
  const auto logits = runner_->evaluate(batch);
  link_.finish();
  return logits;
}

void Engine::agree_on_buffers() {
  if (are_buffers_agreed_) return;
  broadcast(data_, part_.buffers());
  are_buffers_agreed_ = true;
}

std::vector<ReplicaUse> Engine::replica_use() {
  auto* replicas = makers_.replicas();
  return replicas ? replicas->use() : std::vector<ReplicaUse>();
}

void Engine::for_each_state(const UseTensor& use) {
  agree_on_buffers();
  average_->show(false);
  state_->for_each(use);
}

void Engine::load_state(const StateDict& state) {
  average_->show(false);
  update_->restart();
  left_out_ = state_->load(state);
}

MeshRequest request_of(const StrategyContext& context) {
  return {.ranks = context.comm.world_size(),
          .micro_shards = context.micro_shards,
          .gpus = context.device.is_cuda() ? static_cast<int>(torch::cuda::device_count()) : 0,
          .optimizer = parse_spec("optimizer", context.optimizer.spec)};
}

std::unique_ptr<Strategy> make_by_plan(const Spec& spec, const StrategyContext& context) {
  return std::make_unique<Engine>(context, plan_of(spec, request_of(context)));
}

}  // namespace penstock::detail
