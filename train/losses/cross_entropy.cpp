// cross-entropy: -log of the probability that softmax gives the label.
#include "train/losses/loss.h"

namespace penstock {
namespace {

/// With smoothing e and K classes: (1 - e) * -log p(label) + e / K * the sum of -log p over all classes.
class CrossEntropy final : public Loss {
 public:
  explicit CrossEntropy(double smoothing) : smoothing_(smoothing) {}

 private:
  torch::Tensor of_targets(const torch::Tensor& outputs, const DeviceBatch& rows) const override {
    return torch::cross_entropy_loss(outputs, rows.labels, {}, at::Reduction::None, /*ignore_index=*/-100, smoothing_);
  }

  double smoothing_;
};

const Registered<LossKind> kCrossEntropy{
    "cross-entropy",
    {},
    "-log of the probability that softmax gives the label",
    [](const Spec&, const LossOptions& options) { return std::make_unique<CrossEntropy>(options.label_smoothing); },
    {.smooths_labels = true}};

}  // namespace
}  // namespace penstock
