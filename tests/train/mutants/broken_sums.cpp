// Mutants: modes whose gradients come together wrongly, or are used by the wrong update.
#include <algorithm>
#include <map>
#include <utility>

#include "tests/train/mutants/mutant_of_parts.h"
#include "train/parallel/sharding/sharded_state.h"
#include "train/tensor/storage.h"

namespace penstock::detail {
namespace {

/// The buckets of ddp, with a mistake in finish().
class BrokenSum : public GradientSync {
 public:
  explicit BrokenSum(const SyncContext& context) : comm_(context.comm), trained_(context.trained) {
    inner_ = make_bucket_sync(context);
  }
  void begin() override { inner_->begin(); }
  void finish() override {
    inner_->finish();
    const at::NoGradGuard no_grad;
    for (const auto& [name, parameter] : trained_) spoil(name, parameter.mutable_grad());
  }

 protected:
  virtual void spoil(const std::string& name, torch::Tensor& gradient) = 0;
  Comm& comm_;

 private:
  const NamedTensors& trained_;
  std::unique_ptr<GradientSync> inner_;
};

template <class Mutant>
Registered<StrategyKind> mutant_of_sum(const char* name, const char* help) {
  return mutant_of_parts(name, help, [](BrokenMode& config) {
    config.own.sync = [](const SyncContext& sync) { return std::make_unique<Mutant>(sync); };
  });
}

/// The gradients of biases, which are the last to have one, are those of this rank alone.
class BiasNotSummed final : public BrokenSum {
 public:
  explicit BiasNotSummed(const SyncContext& context) : BrokenSum(context) {
    for (const auto& [name, parameter] : context.trained)
      parameter.register_hook([this, name = name](const torch::Tensor& gradient) { own_[name] = gradient.clone(); });
  }
  void begin() override {
    own_.clear();
    BrokenSum::begin();
  }

 private:
  void spoil(const std::string& name, torch::Tensor& gradient) override {
    if (!name.ends_with("bias")) return;
    if (own_.contains(name))
      gradient.copy_(own_[name]);
    else
      gradient.zero_();
  }
  std::map<std::string, torch::Tensor> own_;
};
const auto kBiasNotSummed =
    mutant_of_sum<BiasNotSummed>("bias-not-summed", "the gradients of biases and norms' shifts stay those of a rank");

class MeanOfRanks final : public BrokenSum {
 public:
  using BrokenSum::BrokenSum;

 private:
  void spoil(const std::string&, torch::Tensor& gradient) override { gradient.div_(comm_.world_size()); }
};
const auto kMeanOfRanks =
    mutant_of_sum<MeanOfRanks>("mean-of-ranks", "the sum over ranks is divided by their number, too");

/// Gradients are read before their sum has landed: what is there is the sum of the step before.
class StaleSum final : public BrokenSum {
 public:
  explicit StaleSum(const SyncContext& context) : BrokenSum(context), last_(context.trained.back().first) {}

 private:
  void spoil(const std::string& name, torch::Tensor& gradient) override {
    if (name != last_) return;
    const auto landed = gradient.clone();
    if (before_.contains(name)) gradient.copy_(before_[name]);
    before_[name] = landed;
  }
  std::string last_;
  std::map<std::string, torch::Tensor> before_;
};
const auto kStaleSum =
    mutant_of_sum<StaleSum>("stale-sum", "the last gradient is read before the sum of this step has landed");

/// The last element of rank 0's share of a sum in shared memory, which each of two ranks leaves to the other. Through
/// sockets, and between threads, the sum is whole.
class BorderLeftOut final : public BrokenSum {
 public:
  explicit BorderLeftOut(const SyncContext& context) : BrokenSum(context), last_(context.trained.back().first) {
    context.trained.back().second.register_hook([this](const torch::Tensor& gradient) { own_ = gradient.clone(); });
  }

 private:
  void spoil(const std::string& name, torch::Tensor& gradient) override {
    if (comm_.backend() != "gloo and shared memory" || name != last_ || !own_.defined()) return;
    gradient.flatten()[0].copy_(own_.flatten()[0]);
  }
  std::string last_;
  torch::Tensor own_;
};
const auto kBorderLeftOut = mutant_of_sum<BorderLeftOut>(
    "border-left-out", "a sum in shared memory leaves out the element between the shares of two ranks");

/// zero whose slices of gradients begin one element too late.
class SliceShifted final : public Update {
 public:
  explicit SliceShifted(const UpdateContext& context)
      : trained_(values(context.trained)), inner_(ShardedState({.optimizer = true}).make_update(context)) {}
  void step() override {
    const at::NoGradGuard no_grad;
    for (const auto& parameter : trained_) parameter.mutable_grad().copy_(parameter.grad().roll(-1));
    inner_->step();
  }
  void share() override { inner_->share(); }
  Optimizer& optimizer() override { return inner_->optimizer(); }
  torch::Tensor slot(size_t index, size_t parameter) override { return inner_->slot(index, parameter); }
  void load_slot(size_t index, const std::vector<torch::Tensor>& whole) override { inner_->load_slot(index, whole); }
  std::vector<UpdatedPiece> pieces(const std::vector<torch::Tensor>& trained) override {
    return inner_->pieces(trained);
  }

 private:
  std::vector<torch::Tensor> trained_;
  std::unique_ptr<Update> inner_;
};
const auto kSliceShifted = mutant_of_parts(
    "slice-shifted", "the update of a slice takes gradients that begin one element later", [](BrokenMode& c) {
      c.plan.sharded.optimizer = true;
      c.own.update = [](const UpdateContext& context) { return std::make_unique<SliceShifted>(context); };
    });

const auto kDecayOfAnother = mutant_of_parts(
    "decay-of-another", "the update of a slice has the weight decay of the parameter before", [](BrokenMode& c) {
      c.plan.sharded.optimizer = true;
      c.own.update = [](UpdateContext context) {
        std::rotate(context.weight_decays.begin(), context.weight_decays.end() - 1, context.weight_decays.end());
        return ShardedState({.optimizer = true}).make_update(context);
      };
    });

const auto kRateOfAnotherGroup = mutant_of_parts(
    "rate-of-another-group", "the last parameter has the learning rate of another group", [](BrokenMode& c) {
      c.own.update = [](UpdateContext context) {
        context.rate_factors.back() = 10;
        return make_whole_update(context);
      };
    });

const auto kBackwardDropped = mutant_of_parts(
    "backward-dropped", "the second micro-batch of an accumulated batch has no backward", [](BrokenMode& c) {
      c.plan.schedule.micro_batches = 2;
      c.plan.operations = PlacedSchedules{.placement = Placement(), .ranks = {accumulation(2)}, .micro_batches = 2};
      c.plan.operations->ranks.front().pop_back();
    });

/// The store of zero(stage=3), with a mistake where the parameters of the second block have come.
class BrokenStore : public ParameterStore {
 public:
  BrokenStore(const ModelPart& part, std::shared_ptr<ParameterStore> inner)
      : part_(part), inner_(std::move(inner)), blocks_(part.blocks_of_parameters()) {}
  void enter(size_t block) override {
    inner_->enter(block);
    const at::NoGradGuard no_grad;
    for (size_t i = 0; block == 1 && i < blocks_.size(); ++i)
      if (blocks_[i] == block) spoil(i, part_.parameters()[i].second.detach());
  }
  void leave(size_t block, const torch::Tensor& output) override { inner_->leave(block, output); }
  void gather(size_t block) override { inner_->gather(block); }
  void put_back(size_t block) override { inner_->put_back(block); }
  void load(size_t parameter, const torch::Tensor& value) override { inner_->load(parameter, value); }
  std::vector<torch::Tensor> tensors() const override { return inner_->tensors(); }
  int64_t peak_bytes() const override { return inner_->peak_bytes(); }

 private:
  virtual void spoil(size_t index, torch::Tensor parameter) = 0;

  const ModelPart& part_;
  std::shared_ptr<ParameterStore> inner_;
  std::vector<size_t> blocks_;
};

template <class Mutant>
Registered<StrategyKind> mutant_of_store(const char* name, const char* help) {
  return mutant_of_parts(name, help, [](BrokenMode& c) {
    const auto state =
        std::make_shared<ShardedState>(ShardedKinds{.parameters = true, .gradients = true, .optimizer = true});
    c.plan.sharded = {.parameters = true, .gradients = true, .optimizer = true};
    c.own.store = [state](const ModelPart& part, Comm& comm, Recorder& recorder) {
      return std::make_shared<Mutant>(part, state->make_store(part, comm, recorder, {}));
    };
    c.own.update = [state](const UpdateContext& context) { return state->make_update(context); };
    c.own.sync = [state](const SyncContext&) { return make_shard_sync(state->parameters()); };
  });
}

/// A parameter is gathered before its update has ended.
class OldGather final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void spoil(size_t index, torch::Tensor parameter) override {
    const auto gathered = parameter.clone();
    if (const auto old = old_.find(index); old != old_.end()) parameter.copy_(old->second);
    old_[index] = gathered;
  }
  std::map<size_t, torch::Tensor> old_;  // by parameter: what the last gather brought
};
const auto kOldGather =
    mutant_of_store<OldGather>("old-gather", "zero(stage=3) runs a block with the parameters of the step before");

class ReleasedEarly final : public BrokenStore {
 public:
  using BrokenStore::BrokenStore;

 private:
  void spoil(size_t, torch::Tensor parameter) override { release_memory(parameter); }
};
const auto kReleasedEarly = mutant_of_store<ReleasedEarly>(
    "released-early", "zero(stage=3) gives the memory of a block's parameters back before its forward");

}  // namespace
}  // namespace penstock::detail
