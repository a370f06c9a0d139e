// Loss: the plug-in that says how far the outputs of a model are from what a batch wants.
//
// Lives here: plug-ins that make one number per row of outputs and targets, and the metrics of evaluations.
// Not here: weights of rows and the sum over ranks (parallel/engine/schedule_runner.h, loop/evaluate.h).
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>

#include "core/registry.h"
#include "train/losses/metric.h"
#include "train/losses/target.h"
#include "train/tensor/device_batch.h"

namespace penstock {

/// Training, evaluations and predictions have the same one. A loss is immutable, and what it computes for a row depends
/// on no other row: batches are cut into micro-batches and over ranks.
class Loss {
 public:
  virtual ~Loss() = default;

  /// One number per row, which carries gradients to `outputs`, N x numbers of the target. The loss of a row that was
  /// mixed (mixup, cutmix) is share * that of its own label + (1 - share) * that of its second one.
  torch::Tensor of_rows(const torch::Tensor& outputs, DeviceBatch rows) const;

  /// What it compares outputs with: the class, where it does not say otherwise.
  virtual const LossTarget& target() const;
  /// What evaluations say besides the loss, of models with so many outputs.
  virtual std::unique_ptr<Metric> metric(int64_t outputs) const { return make_accuracy(outputs); }

 private:
  /// The same for rows that are not mixed. Their images are undefined: the last stage of a pipeline has none. For CUDA
  /// graphs it waits for nothing on the device.
  virtual torch::Tensor of_targets(const torch::Tensor& outputs, const DeviceBatch& rows) const = 0;
};

struct LossOptions {
  /// In training only: the share of each label that is spread evenly over all classes (Szegedy et al. 2016,
  /// "Rethinking the Inception architecture", sec. 7).
  double label_smoothing = 0;
  /// The manifest of the training split. Null: texts are checked before data are opened, and what follows from data is
  /// left out.
  const Manifest* data = nullptr;
};

struct LossTraits {
  bool smooths_labels = false;  ///< Whether it heeds LossOptions::label_smoothing.
};

struct LossKind {
  using Interface = Loss;
  using Traits = LossTraits;
  static constexpr const char* kName = "loss";
  using Factory = std::function<std::unique_ptr<Loss>(const Spec&, const LossOptions&)>;
};
using LossRegistry = Registry<LossKind>;
inline constexpr const char* kDefaultLoss = "cross-entropy";

/// The loss that --loss names. Throws config_error for unknown names and keys, and for smoothed labels where the loss
/// has none.
std::shared_ptr<const Loss> make_loss(const std::string& text = kDefaultLoss, const LossOptions& options = {});

/// i64 scalar: rows of weight above 0 whose largest output is the label of the greater share, at a half the own one.
torch::Tensor hits(const torch::Tensor& outputs, const DeviceBatch& rows);

}  // namespace penstock
