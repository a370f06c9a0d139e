// l1: absolute errors.
#include "train/losses/elementwise_loss.h"

namespace penstock {
namespace {

class AbsoluteError final : public detail::ErrorLoss {
 public:
  using ErrorLoss::ErrorLoss;

 private:
  torch::Tensor of_elements(const torch::Tensor& outputs, const torch::Tensor& targets) const override {
    return torch::l1_loss(outputs, targets, at::Reduction::None);
  }
};

const Registered<LossKind> kL1{
    "l1", {"target"}, "mean absolute error: target as of mse", [](const Spec& spec, const LossOptions& options) {
      return std::make_unique<AbsoluteError>(spec, options);
    }};

}  // namespace
}  // namespace penstock
