// evaluate(): sums are kept on the device and reduced once, at the end.
#include "train/loop/evaluate.h"

#include <algorithm>
#include <cmath>

#include "loader/batch/loader.h"

namespace penstock {

int64_t eval_rows(int64_t pixels, int64_t samples, int64_t ranks) {
  constexpr int64_t kMost = 256, kPixels = kMost * 64 * 64;
  return std::clamp<int64_t>(kPixels / pixels, 1, std::clamp<int64_t>((samples + ranks - 1) / ranks, 1, kMost));
}

std::string Score::key() const {
  std::string key = name;
  std::replace(key.begin(), key.end(), ' ', '_');
  return key;
}

std::vector<std::string> score_keys(const Loss& loss, int64_t outputs, bool beside_average) {
  std::vector<std::string> keys;
  Evaluation of_weights{.scores = {}};
  for (const auto& name : loss.metric(outputs)->names()) {
    of_weights.scores.push_back({name, 0});
    if (name != "accuracy") keys.push_back(of_weights.scores.back().key());
  }
  std::vector<std::pair<std::string, double>> beside;
  if (beside_average) add_scores_of_weights(of_weights, beside);
  for (const auto& [key, value] : beside) keys.push_back(key);
  return keys;
}

void add_scores_of_weights(const Evaluation& evaluation, std::vector<std::pair<std::string, double>>& scores) {
  scores.emplace_back("loss_of_weights", evaluation.loss);
  for (const auto& score : evaluation.scores) scores.emplace_back(score.key() + "_of_weights", score.value);
}

std::optional<double> Evaluation::accuracy() const {
  return scores.front().name == "accuracy" ? std::optional(scores.front().value) : std::nullopt;
}

bool Evaluation::is_better_than(std::optional<double> best) const {
  const double now = scores.front().value;
  return !std::isnan(now) && (!best || (is_error ? now < *best : now > *best));
}

namespace {

/// What the metric has taken of all batches.
class Taken {
 public:
  Taken(const Metric& metric, Comm& comm, const torch::Device& device)
      : metric_(metric), comm_(comm), options_(torch::dtype(torch::kFloat64).device(device)) {
    if (!metric_.keeps_rows()) sums_ = torch::zeros({metric_.size()}, options_);
  }

  /// Collective where rows are kept. `outputs` are undefined at a rank without the last stage.
  void add(const torch::Tensor& outputs, const DeviceBatch& batch) {
    if (!metric_.keeps_rows()) {
      if (outputs.defined()) sums_.add_(metric_.of_batch(outputs, batch));
      return;
    }
    const auto own =
        outputs.defined() ? metric_.of_batch(outputs, batch) : torch::zeros({batch.rows, metric_.size()}, options_);
    const auto all = comm_.all_gather(own).cpu().reshape({-1, metric_.size()});
    if (comm_.rank() == 0) rows_.push_back(all.index({all.select(1, 0).gt(0)}));
  }

  /// Collective: as Metric::scores(), at every rank.
  torch::Tensor scores() {
    if (!metric_.keeps_rows()) {
      comm_.all_reduce_sum(sums_)->wait();
      return metric_.scores(sums_.cpu());
    }
    auto scores = torch::zeros({static_cast<int64_t>(metric_.names().size()) + metric_.class_count()}, options_);
    if (comm_.rank() == 0) {
      rows_.push_back(torch::zeros({0, metric_.size()}, torch::kFloat64));
      scores.copy_(metric_.scores(torch::cat(rows_)));
    }
    comm_.broadcast(scores, 0);
    return scores.cpu();
  }

 private:
  const Metric& metric_;
  Comm& comm_;
  torch::TensorOptions options_;
  torch::Tensor sums_;
  std::vector<torch::Tensor> rows_;  // at rank 0, those of weight above 0
};

}  // namespace

std::optional<Evaluation> evaluate(Strategy& strategy, Comm& comm, Feeder& feeder, const Loss& loss,
                                   int64_t output_count, const torch::Device& device, int64_t pass,
                                   const EvaluationCalls& calls, TestViews views) {
  at::NoGradGuard no_grad;
  const auto metric = loss.metric(output_count);
  Taken taken(*metric, comm, device);
  // The losses, the rows that count, and those of corrupt samples; exact to 2^53.
  auto sums = torch::zeros({3}, torch::dtype(torch::kFloat64).device(device));
  feeder.start_epoch(pass, 0);
  while (auto batch = feeder.next()) {
    if (calls.goes_on && !calls.goes_on()) return std::nullopt;
    const auto outputs = evaluate_views(strategy, *batch, views);
    const auto losses = outputs.defined() ? loss.of_rows(outputs, *batch) : torch::Tensor();
    if (calls.on_batch) calls.on_batch(*batch, outputs, losses);
    taken.add(outputs, *batch);
    if (!outputs.defined()) continue;  // another rank has the last stage, and counts
    const auto counted = batch->weights.gt(0);
    sums[0].add_(losses.to(torch::kFloat64).masked_fill(counted.logical_not(), 0).sum());
    sums[1].add_(counted.sum());
    sums[2].add_(batch->corrupt_count);
  }
  comm.all_reduce_sum(sums)->wait();
  const auto totals = sums.cpu(), scores = taken.scores();
  const double count = totals[1].item<double>();
  const auto corrupt_count = static_cast<int64_t>(totals[2].item<double>());
  check_corrupt_share("evaluation", corrupt_count, static_cast<int64_t>(count) + corrupt_count,
                      LoaderOptions().most_corrupt);
  Evaluation result{.sample_count = static_cast<int64_t>(count),
                    .loss = count > 0 ? totals[0].item<double>() / count : 0,
                    .scores = {},
                    .is_error = metric->is_error()};
  int64_t number = 0;
  for (const auto& name : metric->names()) result.scores.push_back({name, scores[number++].item<double>()});
  for (; number < scores.numel(); ++number) {
    const double score = scores[number].item<double>();
    result.class_scores.push_back(std::isnan(score) ? std::nullopt : std::optional(score));
  }
  return result;
}

std::optional<Evaluation> evaluate_weights(Strategy& strategy,
                                           const std::function<std::optional<Evaluation>()>& evaluate) {
  strategy.evaluate_average(false);
  auto evaluation = evaluate();
  strategy.evaluate_average(true);
  return evaluation;
}

}  // namespace penstock
