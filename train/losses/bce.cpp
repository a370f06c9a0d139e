// bce: binary cross entropy of every output with a yes or no, for samples that have any number of labels.
#include "train/losses/elementwise_loss.h"

namespace penstock {
namespace {

/// With an output x and a target t: -t log s(x) - (1 - t) log(1 - s(x)), s the logistic function. Smoothed, t becomes
/// (1 - E) t + E / (outputs) for a class, as in timm's BinaryCrossEntropy, and (1 - E) t + E / 2 for a field, whose
/// numbers are a yes or a no each, as in Keras' BinaryCrossentropy.
class BinaryCrossEntropy final : public detail::ElementwiseLoss {
 public:
  BinaryCrossEntropy(const Spec& spec, const LossOptions& options)
      : ElementwiseLoss(detail::field_target(spec, options.data, /*takes_labels=*/true)),
        smoothing_(options.label_smoothing) {}
  std::unique_ptr<Metric> metric(int64_t outputs) const override {
    return target().is_class() ? make_accuracy(outputs) : make_average_precision(outputs);
  }

 private:
  torch::Tensor of_elements(const torch::Tensor& outputs, const torch::Tensor& targets) const override {
    const double evenly = target().is_class() ? 1 / static_cast<double>(outputs.size(1)) : 0.5;
    const auto smoothed = smoothing_ == 0 ? targets : targets * (1 - smoothing_) + smoothing_ * evenly;
    return torch::binary_cross_entropy_with_logits(outputs, smoothed, {}, {}, at::Reduction::None);
  }

  double smoothing_;
};

const Registered<LossKind> kBce{
    "bce",
    {"target", "classes"},
    "binary cross entropy of every output: target=FIELD, of numbers 0 to 1, or of labels, "
    "with classes=, how many there are, unless the field has names (default: the class)",
    [](const Spec& spec, const LossOptions& options) { return std::make_unique<BinaryCrossEntropy>(spec, options); },
    {.smooths_labels = true}};

}  // namespace
}  // namespace penstock
