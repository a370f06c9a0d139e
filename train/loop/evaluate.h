// evaluate(): loss and metric over a data set; every sample counts once, for any number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/comm/comm.h"
#include "train/feed/feeder.h"
#include "train/loop/tta.h"
#include "train/losses/loss.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock {

/// A number of a metric.
struct Score {
  std::string name;  ///< "accuracy"
  double value = 0;

  std::string key() const;  ///< For JSON: "mean_average_precision".
};

/// The keys of the scores that evaluations by `loss` give beside the accuracy, of models with so many outputs; with
/// `beside_average` those of add_scores_of_weights() as well.
std::vector<std::string> score_keys(const Loss& loss, int64_t outputs, bool beside_average = false);

struct Evaluation {
  int64_t sample_count = 0;
  double loss = 0;
  std::vector<Score> scores = {{"accuracy", 0}};         ///< The loss's metric.
  std::vector<std::optional<double>> class_scores = {};  ///< One entry per class; nothing for a class without samples.
  bool is_error = false;                                 ///< Metric::is_error().

  /// Nothing where the model is not trained on classes.
  std::optional<double> accuracy() const;
  /// Whether these weights are better than those of the `best` first score so far.
  bool is_better_than(std::optional<double> best) const;
};

/// Adds loss and scores of the weights beside their average: "loss_of_weights", "accuracy_of_weights".
void add_scores_of_weights(const Evaluation& evaluation, std::vector<std::pair<std::string, double>>& scores);

/// Rows per rank in a batch of an evaluation, if `-b` asks for no more: small pictures fill a processor only in large
/// batches. 256 of 64 x 64 pixels or less, 20 of 224 x 224; never more than there are samples for a rank.
int64_t eval_rows(int64_t pixels, int64_t samples, int64_t ranks);
/// The rows of such a batch over all ranks, at least `-b`. With `micro_shards` (--exact) it does not depend on the
/// number of ranks, and is a multiple of the shards.
int64_t eval_batch(int64_t pixels, int64_t samples, int64_t ranks, int micro_shards, int64_t batch_size);

/// What an evaluation calls; each may be empty.
struct EvaluationCalls {
  /// Hears of every batch, its logits and the loss of each row, both undefined at a rank that does not hold the last
  /// stage.
  std::function<void(const DeviceBatch&, const torch::Tensor& logits, const torch::Tensor& losses)> on_batch = {};
  /// Asked before every batch. Its answer is the same at every rank, and may come from a sum over them.
  std::function<bool()> goes_on = {};
};

/// Collective: every rank calls it with its part of the data and gets the same result, or nothing if it was not to go
/// on. Padding and masked rows do not count. `pass` is the epoch for which the feeder is started. Logits are means
/// over `views`.
///
/// With `micro_shards` (--exact) a batch is counted in as many pieces, whose sums are added in the order of the tree,
/// and the result has the same bits in every mode and at every world size. Requires that the feeder divides short
/// batches as short_batch_of() says, and that the shards divide its batches.
std::optional<Evaluation> evaluate(Strategy& strategy, Comm& comm, Feeder& feeder, const Loss& loss,
                                   int64_t output_count, const torch::Device& device, int64_t pass,
                                   const EvaluationCalls& calls = {}, TestViews views = TestViews::kNone,
                                   int micro_shards = 0);

/// What `evaluate` says of the weights, where the strategy would use their average.
std::optional<Evaluation> evaluate_weights(Strategy& strategy,
                                           const std::function<std::optional<Evaluation>()>& evaluate);

}  // namespace penstock
