// evaluate(): sums are kept on the device and reduced once, at the end.
#include "train/loop/evaluate.h"

#include <algorithm>

namespace penstock {

int64_t eval_rows(int64_t pixels, int64_t samples, int64_t ranks) {
  constexpr int64_t kMost = 256, kPixels = kMost * 64 * 64;
  return std::clamp<int64_t>(kPixels / pixels, 1, std::clamp<int64_t>((samples + ranks - 1) / ranks, 1, kMost));
}

std::optional<Evaluation> evaluate(Strategy& strategy, Comm& comm, Feeder& feeder, const Loss& loss,
                                   int64_t class_count, const torch::Device& device, int64_t pass,
                                   const EvaluationCalls& calls, TestViews views) {
  at::NoGradGuard no_grad;
  // Row 0: the samples of each class, then the sum of the losses. Row 1: the hits of each class. f64 counts exactly to
  // 2^53.
  auto sums = torch::zeros({2, class_count + 1}, torch::dtype(torch::kFloat64).device(device));
  const auto classes = torch::arange(class_count, torch::dtype(torch::kInt64).device(device));
  feeder.start_epoch(pass, 0);
  while (auto batch = feeder.next()) {
    if (calls.goes_on && !calls.goes_on()) return std::nullopt;
    const auto logits = evaluate_views(strategy, *batch, views);
    const auto losses = logits.defined() ? loss.of_rows(logits, *batch) : torch::Tensor();
    if (calls.on_batch) calls.on_batch(*batch, logits, losses);
    if (!logits.defined()) continue;  // another rank has the last stage, and counts
    const auto counted = batch->weights.gt(0);
    const auto is_of_class = batch->labels.unsqueeze(1).eq(classes).logical_and_(counted.unsqueeze(1));
    const auto hits = logits.argmax(1).eq(batch->labels);
    sums[0].narrow(0, 0, class_count).add_(is_of_class.sum(0));
    sums[1].narrow(0, 0, class_count).add_(is_of_class.logical_and(hits.unsqueeze(1)).sum(0));
    sums[0][class_count].add_(losses.to(torch::kFloat64).masked_fill(counted.logical_not(), 0).sum());
  }
  comm.all_reduce_sum(sums)->wait();
  const auto totals = sums.cpu();
  const auto at = [&](int row, int64_t column) { return totals[row][column].item<double>(); };
  Evaluation result;
  double sample_count = 0, hit_count = 0;
  for (int64_t i = 0; i < class_count; ++i) {
    sample_count += at(0, i);
    hit_count += at(1, i);
    result.class_accuracy.push_back(at(0, i) > 0 ? std::optional(at(1, i) / at(0, i)) : std::nullopt);
  }
  result.sample_count = static_cast<int64_t>(sample_count);
  result.accuracy = sample_count > 0 ? hit_count / sample_count : 0;
  result.loss = sample_count > 0 ? at(0, class_count) / sample_count : 0;
  return result;
}

}  // namespace penstock
