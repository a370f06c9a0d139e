// evaluate(): sums are kept on the device, and those of some batches are added up over the ranks at once.
#include "train/loop/evaluate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "loader/batch/loader.h"
#include "train/comm/sum_over_copies.h"
#include "train/tensor/ordered_sum.h"

namespace penstock {

int64_t eval_rows(int64_t pixels, int64_t samples, int64_t ranks) {
  constexpr int64_t kMost = 256, kPixels = kMost * 64 * 64;
  return std::clamp<int64_t>(kPixels / pixels, 1, std::clamp<int64_t>((samples + ranks - 1) / ranks, 1, kMost));
}

int64_t eval_batch(int64_t pixels, int64_t samples, int64_t ranks, int micro_shards, int64_t batch_size) {
  if (micro_shards == 0) return std::max(batch_size, eval_rows(pixels, samples, ranks) * ranks);
  const int64_t least = std::max(batch_size, eval_rows(pixels, samples, /*ranks=*/1));
  return (least + micro_shards - 1) / micro_shards * micro_shards;
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

/// Sums over batches and ranks, f64. Ranks add up those of several batches at once, each batch in the order of
/// sum_over_copies(), and one batch after the other.
class BatchSums {
 public:
  BatchSums(Comm& comm, int copies) : comm_(comm), copies_(copies) {}

  /// Collective after every kMostPending batches.
  void add(torch::Tensor of_batch) {
    pending_.push_back(std::move(of_batch));
    if (pending_.size() == kMostPending) add_pending();
  }
  /// Collective: the sums so far, on the CPU. Requires one batch or more.
  torch::Tensor total() {
    if (!pending_.empty()) add_pending();
    return total_;
  }

 private:
  static constexpr size_t kMostPending = 16;  // 256 kB per rank with accuracies of 1,000 classes

  void add_pending() {
    for (const auto& batch : sum_over_copies(comm_, copies_, at::stack(std::exchange(pending_, {}))).unbind())
      total_ = total_.defined() ? total_.add_(batch) : batch.clone();
  }

  Comm& comm_;
  int copies_;
  std::vector<torch::Tensor> pending_;  // those of this rank, one entry per batch
  torch::Tensor total_;
};

/// Counts a rank's batches in pieces of equal rows, which with --exact are shards.
class Counter {
 public:
  /// What is added up, before the metric's sums: the losses, the rows that count, and those of corrupt samples; exact
  /// to 2^53.
  enum Number { kLoss, kCount, kCorruptCount, kNumberCount };

  Counter(const Loss& loss, const Metric& metric, Comm& comm, int copies, int pieces, const torch::Device& device)
      : loss_(loss),
        metric_(metric),
        comm_(comm),
        pieces_(pieces),
        options_(torch::dtype(torch::kFloat64).device(device)),
        sums_(comm, copies) {}

  /// Collective. `outputs` are undefined at a rank without the last stage. Returns the losses of the rows, undefined
  /// where these are.
  torch::Tensor add(const torch::Tensor& outputs, const DeviceBatch& batch) {
    std::vector<torch::Tensor> losses, sums{torch::zeros({kNumberCount + sum_count()}, options_)};
    const int64_t each = (batch.rows + pieces_ - 1) / pieces_;
    for (int64_t first = 0; outputs.defined() && first < batch.rows; first += each) {
      const auto rows = batch.narrow(first, std::min(each, batch.rows - first));
      const auto of_rows = outputs.narrow(0, first, rows.rows);
      losses.push_back(loss_.of_rows(of_rows, rows));
      sums.push_back(sums_of(losses.back(), of_rows, rows));
    }
    if (sums.size() > 1) sums.erase(sums.begin());
    auto sum = detail::pairwise_sum(sums);
    sum[kCorruptCount] = batch.corrupt_count;
    sums_.add(std::move(sum));
    if (metric_.keeps_rows()) keep_rows(outputs, batch);
    return losses.empty() ? torch::Tensor() : torch::cat(losses);
  }

  /// Collective: all numbers, and the metric's sums where it has some.
  torch::Tensor sums() { return sums_.total(); }

  /// Collective: as Metric::scores(), at every rank.
  torch::Tensor scores() {
    if (!metric_.keeps_rows()) return metric_.scores(sums().slice(0, kNumberCount));
    auto scores = torch::zeros({static_cast<int64_t>(metric_.names().size()) + metric_.class_count()}, options_);
    if (comm_.rank() == 0) {
      rows_.push_back(torch::zeros({0, metric_.size()}, torch::kFloat64));
      scores.copy_(metric_.scores(torch::cat(rows_)));
    }
    comm_.broadcast(scores, 0);
    return scores.cpu();
  }

 private:
  int64_t sum_count() const { return metric_.keeps_rows() ? 0 : metric_.size(); }

  torch::Tensor sums_of(const torch::Tensor& losses, const torch::Tensor& outputs, const DeviceBatch& rows) const {
    const auto counted = rows.weights.gt(0);
    const auto loss = losses.to(torch::kFloat64).masked_fill(counted.logical_not(), 0).sum();
    const auto sums = torch::stack({loss, counted.sum().to(torch::kFloat64), torch::zeros_like(loss)});
    return metric_.keeps_rows() ? sums : torch::cat({sums, metric_.of_batch(outputs, rows)});
  }

  void keep_rows(const torch::Tensor& outputs, const DeviceBatch& batch) {
    const auto own =
        outputs.defined() ? metric_.of_batch(outputs, batch) : torch::zeros({batch.rows, metric_.size()}, options_);
    const auto all = comm_.all_gather(own).cpu().reshape({-1, metric_.size()});
    if (comm_.rank() == 0) rows_.push_back(all.index({all.select(1, 0).gt(0)}));
  }

  const Loss& loss_;
  const Metric& metric_;
  Comm& comm_;
  int pieces_;
  torch::TensorOptions options_;
  BatchSums sums_;
  std::vector<torch::Tensor> rows_;  // at rank 0, those of weight above 0
};

}  // namespace

std::optional<Evaluation> evaluate(Strategy& strategy, Comm& comm, Feeder& feeder, const Loss& loss,
                                   int64_t output_count, const torch::Device& device, int64_t pass,
                                   const EvaluationCalls& calls, TestViews views, int micro_shards) {
  at::NoGradGuard no_grad;
  const auto metric = loss.metric(output_count);
  const int copies = micro_shards > 0 ? strategy.data_world_size() : comm.world_size();
  Counter counter(loss, *metric, comm, copies, micro_shards > 0 ? micro_shards / copies : 1, device);
  feeder.start_epoch(pass, 0);
  while (auto batch = feeder.next()) {
    if (calls.goes_on && !calls.goes_on()) return std::nullopt;
    const auto outputs = evaluate_views(strategy, *batch, views);
    const auto losses = counter.add(outputs, *batch);
    if (calls.on_batch) calls.on_batch(*batch, outputs, losses);
  }
  const auto totals = counter.sums(), scores = counter.scores();
  const double count = totals[Counter::kCount].item<double>();
  const auto corrupt_count = static_cast<int64_t>(totals[Counter::kCorruptCount].item<double>());
  check_corrupt_share("evaluation", corrupt_count, static_cast<int64_t>(count) + corrupt_count,
                      LoaderOptions().most_corrupt);
  Evaluation result{.sample_count = static_cast<int64_t>(count),
                    .loss = count > 0 ? totals[Counter::kLoss].item<double>() / count : 0,
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
