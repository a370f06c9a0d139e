// Block costs: blocks run one by one on random numbers, and everything that they change is put back.
#include "train/parallel/pipeline/block_costs.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/autograd.h>
#ifdef PENSTOCK_HAS_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

#include <algorithm>
#include <map>

#include "core/choice.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "train/nn/model.h"
#include "train/nn/row_draws.h"
#include "train/nn/weight_gradients.h"
#include "train/parallel/pipeline/rank_schedules.h"
#include "train/parallel/strategy/borrowed_block.h"

namespace penstock::detail {
namespace {

/// Counts what this thread allocates for tensors and does not give back, on any device. LibTorch's allocators tell its
/// profiler, whose place this takes as long as it counts.
class AllocationCounter final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* memory, int64_t byte_count, size_t, size_t, c10::Device) override {
    if (byte_count > 0)
      held_[memory] = byte_count;
    else
      held_.erase(memory);  // memory that was allocated before is not in the map
  }
  bool memoryProfilingEnabled() const override { return true; }

  double bytes() const {
    double sum = 0;
    for (const auto& [memory, byte_count] : held_) sum += static_cast<double>(byte_count);
    return sum;
  }

 private:
  std::map<void*, int64_t> held_;
};

void wait_for([[maybe_unused]] const torch::Device& device) {
#ifdef PENSTOCK_HAS_CUDA
  if (device.is_cuda()) c10::cuda::device_synchronize();
#endif
}

/// Forward and backward of one block.
class Trial {
 public:
  Trial(const Block& block, const std::vector<torch::Tensor>& trained, const torch::Tensor& input)
      : block_(block), trained_(trained), input_(input) {}

  /// One micro-batch. Gives what forward allocates and does not give back.
  double bytes() {
    const auto counter = std::make_shared<AllocationCounter>();
    double bytes = 0;
    const auto output = forward([&](const torch::Tensor& x) {
      const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
      auto y = block_.forward(x);
      bytes = counter->bytes();
      return y;
    });
    backward(output);
    return bytes;
  }

  /// Per micro-batch, of so many after one another.
  double ms(int micro_batches) {
    WeightGradients gradients;
    const WeightGradients::Scope scope(micro_batches > 1 ? &gradients : nullptr);
    wait_for(input_.device());
    const int64_t start_ns = now_ns();
    for (int i = 0; i < micro_batches; ++i) {
      gradients.begin_backward(/*is_last=*/i + 1 == micro_batches);
      backward(forward([&](const torch::Tensor& x) { return block_.forward(x); }));
    }
    wait_for(input_.device());
    return ms_since(start_ns) / micro_batches;
  }

  const torch::Tensor& output() const { return output_; }

 private:
  template <class Forward>
  torch::Tensor forward(const Forward& run) {
    const RowScope scope(BatchRows{});
    leaf_ = input_.detach().requires_grad_(input_.requires_grad());
    return output_ = run(leaf_.clone());  // a block may write to its input
  }

  void backward(const torch::Tensor& output) {
    if (!output.requires_grad()) return;
    auto inputs = trained_;
    if (leaf_.requires_grad()) inputs.push_back(leaf_);
    torch::autograd::grad({output}, inputs, {torch::ones_like(output)}, /*retain_graph=*/std::nullopt,
                          /*create_graph=*/false, /*allow_unused=*/true);
  }

  const Block& block_;
  const std::vector<torch::Tensor>& trained_;
  torch::Tensor input_, leaf_, output_;
};

BlockCost cost_of(const Block& block, const std::vector<torch::Tensor>& trained, int micro_batches,
                  torch::Tensor& activation) {
  constexpr size_t kTrials = 3;
  Trial trial(block, trained, activation);
  const double bytes = trial.bytes();  // and sets up what the library keeps for these sizes
  std::vector<double> times;
  for (size_t i = 0; i < kTrials; ++i) times.push_back(trial.ms(micro_batches));
  std::nth_element(times.begin(), times.begin() + kTrials / 2, times.end());
  activation = trial.output().detach().requires_grad_(trial.output().requires_grad());
  return {times[kTrials / 2], bytes};
}

std::string cost_text(double ms) { return printed("%.*f ms", ms < 1 ? 2 : ms < 10 ? 1 : 0, ms); }

}  // namespace

Balance balance_named(const std::string& where, const std::string& name) {
  return choice<Balance>(where, name,
                         {{"parameters", Balance::kParameters}, {"time", Balance::kTime}, {"memory", Balance::kMemory}},
                         "balance");
}

std::vector<BlockCost> measure_blocks(Model& model, const std::vector<int64_t>& input_sizes, int micro_batches,
                                      const torch::Device& device,
                                      const std::function<void(const BlockCost&)>& on_cost) {
  const at::AutoGradMode with_gradients(true);
  const KeptRandomState kept_on_host(torch::kCPU), kept(device);
  const bool was_training = model.is_training();
  model.train();
  const auto generator = at::detail::createCPUGenerator(/*seed_val=*/0);
  const auto parameters = model.parameters();
  const auto dtype = parameters.empty() ? torch::kFloat32 : parameters.front().scalar_type();
  auto activation = torch::randn(input_sizes, generator, torch::dtype(dtype)).to(device);
  std::vector<BlockCost> costs;
  for (size_t block = 0; block < model.blocks().size(); ++block) {
    const BorrowedBlock borrowed(model, block, device);
    costs.push_back(cost_of(model.blocks()[block], borrowed.trained(), micro_batches, activation));
    on_cost(costs.back());
  }
  model.train(was_training);
  return costs;
}

std::vector<BlockCost> agreed_block_costs(Comm& comm, Model& model, const std::vector<int64_t>& input_sizes,
                                          int micro_batches, const torch::Device& device) {
  // One message per block: no rank waits longer than a block takes, for which --timeout is meant.
  const auto agreed = [&](const BlockCost& own) {
    auto numbers = torch::tensor({own.ms, own.activation_bytes}, torch::kFloat64).to(device);
    comm.broadcast(numbers, 0);
    numbers = numbers.cpu();
    return BlockCost{numbers[0].item<double>(), numbers[1].item<double>()};
  };
  comm.barrier();  // ranks that are threads of one process have its random generators together: none draws meanwhile
  std::vector<BlockCost> costs;
  if (comm.rank() == 0) costs = measure_blocks(model, input_sizes, micro_batches, device, agreed);
  while (costs.size() < model.blocks().size()) costs.push_back(agreed({}));
  comm.barrier();  // only now has rank 0 put the random numbers back, from which the others may draw weights next
  return costs;
}

PartCost part_ms(const std::vector<BlockCost>& costs) {
  std::vector<double> ms;
  for (const auto& cost : costs) ms.push_back(cost.ms);
  return part_sum(ms);
}

PartCost part_bytes(const ModelFacts& model, const std::vector<BlockCost>& costs, const std::vector<int>& alive,
                    const std::vector<KindFormula>& kinds) {
  std::vector<double> bytes(costs.size(), 0), activation_bytes;
  for (const auto& parameter : model.parameters) {
    const auto all = static_cast<double>(parameter.bytes);
    bytes[parameter.block] += kept_bytes(kinds, all, parameter.is_trained ? all : 0);
  }
  for (const auto& cost : costs) activation_bytes.push_back(cost.activation_bytes);
  return [alive, lasting = part_sum(bytes), activations = part_sum(activation_bytes)](size_t part, BlockRange blocks) {
    return lasting(part, blocks) + alive[part] * activations(part, blocks);
  };
}

PartCost stage_cost(const StepPlan& plan, const ModelFacts& model, const std::vector<BlockCost>& costs,
                    int slot_count) {
  if (plan.balance == Balance::kTime) return part_ms(costs);
  return part_bytes(model, costs, alive_of_parts(placed_schedules(plan)), memory_formula(plan, slot_count));
}

MeasuredPlan measured(const StrategyContext& context, StepPlan plan) {
  if (plan.balance == Balance::kParameters || plan.mesh.pipe == 1) return {std::move(plan)};
  if (context.input_sizes.empty())
    throw bug_error("balance: the sizes of a batch are not known; expected StrategyContext::input_sizes");
  const int64_t micro_batches = plan.schedule.micro_batches;
  auto sizes = context.input_sizes;
  sizes.front() /= plan.mesh.data * micro_batches;
  // More of them tell no more; shards are computed one by one, and what memory asks for takes no time.
  constexpr int64_t kMostMicroBatches = 8;
  const bool is_time = plan.balance == Balance::kTime;
  const int64_t joined = is_time && context.micro_shards == 0 ? std::min(micro_batches, kMostMicroBatches) : 1;
  const auto costs = agreed_block_costs(context.comm, context.model, sizes, static_cast<int>(joined), context.device);
  const auto optimizer = make_optimizer({.parameters = {}, .options = context.optimizer});
  const auto cost = stage_cost(plan, facts_of(context.model), costs, static_cast<int>(optimizer->state().slots.size()));
  plan.stages = balanced(costs.size(), static_cast<size_t>(plan.stage_count()), cost);
  MeasuredPlan all{std::move(plan)};
  for (size_t part = 0; part < all.plan.stages.size(); ++part) {
    const double value = cost(part, all.plan.stages[part]);
    all.costs.push_back(is_time ? cost_text(value) : byte_text(static_cast<uint64_t>(value)));
  }
  return all;
}

}  // namespace penstock::detail
