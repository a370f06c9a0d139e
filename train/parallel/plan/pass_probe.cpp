// Pass probe: times of each block, in the order in which a run computes them.
#include "train/parallel/plan/pass_probe.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/machine.h"
#include "train/nn/batch_norm.h"
#include "train/nn/model.h"
#include "train/nn/row_draws.h"
#include "train/nn/weight_gradients.h"
#include "train/parallel/pipeline/split_backward.h"
#include "train/parallel/plan/process_memory.h"
#include "train/parallel/plan/trials.h"

namespace penstock::detail {
namespace {

// Seconds of a pass: in a long one caches that were cold do not count any more, and a very long one is its own mean
// over a processor whose speed changes within a second.
constexpr double kLong = 0.3, kVeryLong = 1;

/// As long as this lives, layers compute what they do with the statistics of all ranks. Without `exchange` the others
/// have the same, and nobody waits for them.
class Synced {
 public:
  Synced(const std::vector<std::shared_ptr<BatchNorm2dImpl>>& layers, Exchange* exchange) : layers_(layers) {
    constexpr int64_t kRanks = 2;
    for (const auto& layer : layers_)
      layer->gather_by([exchange](const torch::Tensor& mine) {
        return exchange ? exchange->gather(mine) : torch::stack(std::vector(kRanks, mine));
      });
  }
  ~Synced() {
    for (const auto& layer : layers_) layer->gather_by(nullptr);
  }
  Synced(const Synced&) = delete;
  Synced& operator=(const Synced&) = delete;

 private:
  const std::vector<std::shared_ptr<BatchNorm2dImpl>>& layers_;
};

/// Seconds of what computes, without gathers of the layers in it.
class ComputeClock {
 public:
  explicit ComputeClock(const Exchange* exchange) : exchange_(exchange), waited_(waited()) {}
  double seconds() const { return seconds_since(start_ns_) - (waited() - waited_); }

 private:
  double waited() const { return exchange_ ? exchange_->gather_wait() : 0; }
  const Exchange* exchange_;
  int64_t start_ns_ = now_ns();
  double waited_;
};

}  // namespace

/// Micro-batches through the whole model, cut at each block as between two stages.
class Pass {
 public:
  Pass(Model& model, const Loss& loss, const ProbeOptions& options, const PassRequest& request)
      : model_(model), loss_(loss), request_(request), outputs_(options.outputs), parameters_(model.parameters()) {
    for (const auto& module : model.modules(/*include_self=*/false))
      if (auto layer = std::dynamic_pointer_cast<BatchNorm2dImpl>(module); layer && request.syncs)
        synced_.push_back(std::move(layer));
    std::erase_if(parameters_, [](const auto& parameter) { return !parameter.requires_grad(); });
    auto sizes = options.picture;
    sizes.insert(sizes.begin(), request.rows);
    batch_.rows = batch_.count = batch_.global_count = request.rows;
    batch_.images = torch::randn(sizes, at::detail::createCPUGenerator(/*seed_val=*/0));
    batch_.labels = torch::arange(request.rows, torch::kInt64).remainder_(std::max<int64_t>(outputs_, 1));
    batch_.weights = torch::ones({request.rows});
  }

  /// The bytes of all gradients, which then have no memory.
  double drop_gradients() {
    double bytes = 0;
    for (auto& parameter : parameters_) {
      parameter.mutable_grad().reset();
      bytes += static_cast<double>(parameter.nbytes());
    }
    return bytes;
  }

  size_t block_count() const { return model_.blocks().size(); }

  /// `exchange` null: without messages and sums. With `turns`, each forward and each backward waits for its turn, as in
  /// a pipeline.
  Trial run(bool splits, Exchange* exchange = nullptr, Turns* turns = nullptr) {
    Trial trial{.blocks = std::vector<Trial::Block>(model_.blocks().size())};
    for (auto& parameter : parameters_) parameter.mutable_grad().reset();
    WeightGradients joined;
    const int count = request_.micro_batches;
    exchange_ = count > 1 ? exchange : nullptr;
    if (exchange) exchange->restart();
    gathering_ = exchange;
    const Synced synced(synced_, exchange);
    const WeightGradients::Scope scope(count > 1 ? &joined : nullptr);
    for (int m = 0; m < count; ++m) {
      const RowScope rows(BatchRows{});
      if (turns) turns->take();
      auto gradient = forward(trial);
      if (turns) turns->pass_on(), turns->take();
      joined.begin_backward(/*is_last=*/m + 1 == count);
      splits ? split(std::move(gradient), trial) : backward(std::move(gradient), trial);
      if (turns) turns->pass_on();
      places_.clear();
    }
    for (auto& block : trial.blocks)
      for (double* part : {&block.forward, &block.backward, &block.input_gradient, &block.weight_gradient})
        *part /= count;
    trial.loss /= count;
    if (exchange && exchange->gather_count() > 0)
      trial.gather_wait = exchange->gather_wait() / exchange->gather_count();
    if (exchange_) exchange_->wait_for_message();
    if (exchange && count == 1) {
      const int64_t start_ns = now_ns();
      exchange->sum();
      trial.sum_wait = seconds_since(start_ns);
    }
    return trial;
  }

 private:
  struct Place {
    torch::Tensor input, output;
  };

  /// Returns the gradient of the logits.
  torch::Tensor forward(Trial& trial) {
    torch::Tensor x = batch_.images;
    for (size_t block = 0; block < model_.blocks().size(); ++block) {
      const auto input = x.detach().requires_grad_(block > 0);
      const auto taken = block > 0 ? input.clone() : input;  // a block may write to its input
      const ComputeClock clock(gathering_);
      x = model_.blocks()[block].forward(taken);
      trial.blocks[block].forward += clock.seconds();
      places_.push_back({input, x});
      if (exchange_ && block == middle()) exchange_->message(x);
    }
    const int64_t start_ns = now_ns();
    const auto logits = x.detach().requires_grad_();
    const bool is_class = loss_.target().is_class();
    const auto value = is_class ? (loss_.of_rows(logits, batch_) * batch_.weights).sum() : logits.square().sum();
    value.backward(torch::full_like(value, 1.0 / static_cast<double>(request_.rows)));
    if (is_class) hits(logits.detach(), batch_);
    trial.loss += seconds_since(start_ns);
    return logits.grad();
  }

  void backward(torch::Tensor gradient, Trial& trial) {
    for (size_t block = places_.size(); block-- > 0;) {
      auto& [input, output] = places_[block];
      if (!output.requires_grad()) return;
      const ComputeClock clock(gathering_);
      output.backward(gradient);
      output.reset();
      trial.blocks[block].last_backward = clock.seconds();
      trial.blocks[block].backward += trial.blocks[block].last_backward;
      gradient = input.grad();
      if (exchange_ && block == middle() + 1) exchange_->message(gradient);
    }
  }

  void split(torch::Tensor gradient, Trial& trial) {
    std::vector<std::optional<SplitBackward>> rest(places_.size());
    for (size_t block = places_.size(); block-- > 1;) {
      auto& [input, output] = places_[block];
      if (!output.requires_grad()) break;
      const int64_t start_ns = now_ns();
      rest[block].emplace(output, gradient, input);
      trial.blocks[block].input_gradient += seconds_since(start_ns);
      gradient = input.grad();
      if (exchange_ && block == middle() + 1) exchange_->message(gradient);
    }
    for (size_t block = 1; block < places_.size(); ++block) {
      if (!rest[block]) continue;
      const int64_t start_ns = now_ns();
      rest[block]->finish(parameters_);
      rest[block].reset();
      places_[block].output.reset();
      trial.blocks[block].last_weight_gradient = seconds_since(start_ns);
      trial.blocks[block].weight_gradient += trial.blocks[block].last_weight_gradient;
    }
    if (places_.front().output.requires_grad()) places_.front().output.backward(gradient);
  }

  size_t middle() const { return (model_.blocks().size() - 1) / 2; }

  Model& model_;
  const Loss& loss_;
  PassRequest request_;
  int64_t outputs_;
  std::vector<torch::Tensor> parameters_;
  std::vector<std::shared_ptr<BatchNorm2dImpl>> synced_;  // none if the layers of a pass know its rows alone
  DeviceBatch batch_;
  std::vector<Place> places_;
  Exchange* exchange_ = nullptr;   // messages during this run
  Exchange* gathering_ = nullptr;  // gathers during this run
};

namespace {

/// The mean of several micro-batches, and the last one of them: what that one takes longer, per micro-batch.
double longer_in_last(double mean, double last, int micro_batches) {
  return micro_batches > 1 ? std::max(0.0, (last - mean) / (micro_batches - 1)) : 0;
}

}  // namespace

double Trial::Block::joined_backward(int micro_batches) const {
  return longer_in_last(backward, last_backward, micro_batches);
}

double Trial::Block::joined_weight_gradient(int micro_batches) const {
  return longer_in_last(weight_gradient, last_weight_gradient, micro_batches);
}

PassProbe::PassProbe(Comm& comm, Model& model, const Loss& loss, const ProbeOptions& options,
                     const PassRequest& request)
    : comm_(comm), request_(request), pass_(std::make_unique<Pass>(model, loss, options, request)) {
  at::set_num_threads(request_.threads);
  const double gradients = pass_->drop_gradients(), before = gradients + restart_peak();
  for (const bool is_again : {false, true}) {
    comm_.barrier();
    const int64_t start_ns = now_ns();
    pass_->run(/*splits=*/false);
    seconds_ = std::max(agreed(comm_, seconds_since(start_ns)), 1e-6);
    if (seconds_ > 2 * kVeryLong && !is_again) break;  // preparing kernels and memory took the smaller part of it
  }
  extra_bytes_ = std::max(0.0, static_cast<double>(peak_resident_bytes()) - before);
}

PassProbe::~PassProbe() = default;

bool PassProbe::is_very_long() const { return seconds_ > kVeryLong; }

void PassProbe::measure(Exchange& exchange, double seconds) {
  constexpr int kMost = 40;
  at::set_num_threads(request_.threads);
  const bool is_long = seconds_ > kLong;
  if (++round_count_ == 1) settle([this] { pass_->run(/*splits=*/false); });
  if (is_long && round_count_ > 2) return;
  const double of_one = (is_long ? 2 : 2 + comm_.world_size()) * seconds_;
  const int count = std::clamp(static_cast<int>(seconds / of_one), 1, kMost);
  for (const bool splits : {false, true}) {
    if (splits && !request_.splits) continue;
    (splits ? halves_ : whole_).add(comm_, count, /*in_turn=*/!is_long, [&](Company company, Turns* turns) {
      return pass_->run(splits, company == Company::kBeside ? &exchange : nullptr, turns);
    });
  }
}

PassCosts PassProbe::costs(double sum_seconds, double gather_seconds) const {
  PassCosts costs{.rows = request_.rows,
                  .threads = request_.threads,
                  .joins = request_.micro_batches > 1,
                  .splits = request_.splits,
                  .syncs = request_.syncs,
                  .blocks = std::vector<BlockWork>(pass_->block_count()),
                  .loss = whole_.typical([](const Trial& trial) { return trial.loss; }),
                  .extra_bytes = extra_bytes_};
  const double wait = whole_.typical([](const Trial& trial) { return trial.sum_wait; }).beside;
  costs.skew = std::max(0.0, wait - sum_seconds);
  if (request_.syncs) {
    const double gather = whole_.typical([](const Trial& trial) { return trial.gather_wait; }).beside;
    costs.gather_skew = std::max(0.0, gather - gather_seconds);
  }
  for (size_t block = 0; block < costs.blocks.size(); ++block) {
    auto& one = costs.blocks[block];
    one.forward = whole_.typical([&](const Trial& trial) { return trial.blocks[block].forward; });
    const int count = request_.micro_batches;
    one.joined = whole_.typical([&](const Trial& trial) { return trial.blocks[block].joined_backward(count); });
    one.backward = whole_.typical(
        [&](const Trial& trial) { return trial.blocks[block].backward - trial.blocks[block].joined_backward(count); });
    if (!request_.splits) continue;
    one.input_gradient = halves_.typical([&](const Trial& trial) { return trial.blocks[block].input_gradient; });
    one.weight_gradient = halves_.typical([&](const Trial& trial) {
      const auto& of = trial.blocks[block];
      return of.weight_gradient - of.joined_weight_gradient(count);
    });
  }
  return costs;
}

double measure_evaluation(Model& model, const Loss& loss, const ProbeOptions& options, double picture_bytes) {
  if (options.evaluated_rows == 0 || options.passes.empty()) return 0;
  Pass pass(model, loss, options, options.passes.front());
  restart_peak();
  pass.run(/*splits=*/false);
  const double before = static_cast<double>(peak_resident_bytes());
  at::NoGradGuard no_grad;
  const RowScope rows(std::nullopt);
  model.train(false);
  auto sizes = options.picture;
  sizes.insert(sizes.begin(), options.evaluated_rows);
  model.forward(torch::zeros(sizes));
  model.train(true);
  const auto evaluated = static_cast<double>(options.evaluated_rows);
  return std::max(0.0, static_cast<double>(peak_resident_bytes()) - before - picture_bytes * evaluated) / evaluated;
}

}  // namespace penstock::detail
