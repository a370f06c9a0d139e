// smooth-l1: squared errors near 0, absolute ones beyond.
#include "core/error.h"
#include "core/text.h"
#include "train/losses/elementwise_loss.h"

namespace penstock {
namespace {

/// An error d costs d^2 / (2 beta) below beta, otherwise |d| - beta / 2 (Girshick 2015, "Fast R-CNN", eq. 3, has beta
/// 1).
class SmoothL1 final : public detail::ErrorLoss {
 public:
  SmoothL1(const Spec& spec, const LossOptions& options) : ErrorLoss(spec, options), beta_(spec.get("beta", 1.0)) {
    if (!(beta_ > 0 && beta_ < INFINITY))
      throw config_error(concat("--loss ", spec.text(), ": beta is ", beta_, "; expected more than 0"));
  }

 private:
  torch::Tensor of_elements(const torch::Tensor& outputs, const torch::Tensor& targets) const override {
    return torch::smooth_l1_loss(outputs, targets, at::Reduction::None, beta_);
  }

  double beta_;
};

const Registered<LossKind> kSmoothL1{
    "smooth-l1",
    {"target", "beta"},
    "l1, but squared below an error of beta (default 1): target as of mse",
    [](const Spec& spec, const LossOptions& options) { return std::make_unique<SmoothL1>(spec, options); }};

}  // namespace
}  // namespace penstock
