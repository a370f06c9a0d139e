// cross-entropy: -log of the probability that softmax gives the label.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/mutex.h"
#include "core/text.h"
#include "train/losses/loss.h"

namespace penstock {
namespace {

/// One weight per class. `balanced` is samples / (classes that have some * samples of the class), as scikit-learn has
/// it, of the whole split: its mean over all samples of the split is 1, also where --subset, --exclude-ids or a sampler
/// take others. Undefined: 1 for all.
torch::Tensor class_weights(const Spec& spec, const Manifest* data) {
  const std::string text = spec.get("weights", "");
  if (text.empty()) return {};
  std::vector<double> weights;
  if (text != "balanced") {
    weights = spec.get("weights", weights);
    const bool is_wrong =
        std::any_of(weights.begin(), weights.end(), [](double w) { return !(w >= 0 && w < INFINITY); });
    if (is_wrong || *std::max_element(weights.begin(), weights.end()) == 0)
      throw config_error(concat("--loss ", spec.text(), ": weights are ", text,
                                "; expected balanced, or 0 or more for every class and not only 0"));
    if (data != nullptr && weights.size() != data->class_names.size())
      throw config_error(concat("--loss ", spec.text(), ": ", weights.size(), " weights; expected ",
                                data->class_names.size(), ", one for each class"));
  } else if (data != nullptr) {
    const auto& counts = data->class_counts;
    const auto present = static_cast<double>(std::count_if(counts.begin(), counts.end(), [](auto n) { return n > 0; }));
    const auto samples = static_cast<double>(data->sample_count);
    for (const auto count : counts) weights.push_back(count > 0 ? samples / (present * static_cast<double>(count)) : 0);
  }
  return torch::tensor(weights, torch::kFloat64);
}

/// With smoothing e, K classes and weights w: (1 - e) * w[label] * -log p(label) + e / K * the sum of w * -log p over
/// all classes. Deviation from PyTorch's mean: a batch is divided by its samples and not by the sum of their weights,
/// which would be another number in every batch.
class CrossEntropy final : public Loss {
 public:
  CrossEntropy(const Spec& spec, const LossOptions& options)
      : smoothing_(options.label_smoothing), weights_(class_weights(spec, options.data)) {}

 private:
  torch::Tensor of_targets(const torch::Tensor& outputs, const DeviceBatch& rows) const override {
    return torch::cross_entropy_loss(outputs, rows.labels, weights_for(outputs), at::Reduction::None,
                                     /*ignore_index=*/-100, smoothing_);
  }

  /// Where `outputs` are, so that no later step waits for a copy. Ranks that are threads ask for them at once.
  torch::Tensor weights_for(const torch::Tensor& outputs) const {
    if (!weights_.defined()) return {};
    const MutexLock lock(mutex_);
    for (const auto& copy : copies_)
      if (copy.device() == outputs.device() && copy.scalar_type() == outputs.scalar_type()) return copy;
    return copies_.emplace_back(weights_.to(outputs.device(), outputs.scalar_type()));
  }

  double smoothing_;
  torch::Tensor weights_;  // f64, on the CPU
  mutable Mutex mutex_;
  // One entry per device and dtype that was asked for.
  mutable std::vector<torch::Tensor> copies_ PENSTOCK_GUARDED_BY(mutex_);
};

const Registered<LossKind> kCrossEntropy{
    "cross-entropy",
    {"weights"},
    "-log of the probability that softmax gives the label; weights=balanced, or a number for every class, 0.2:1:3",
    [](const Spec& spec, const LossOptions& options) { return std::make_unique<CrossEntropy>(spec, options); },
    {.smooths_labels = true}};

}  // namespace
}  // namespace penstock
