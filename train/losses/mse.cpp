// mse: squared errors.
#include "train/losses/elementwise_loss.h"

namespace penstock {
namespace {

class SquaredError final : public detail::ErrorLoss {
 public:
  using ErrorLoss::ErrorLoss;

 private:
  torch::Tensor of_elements(const torch::Tensor& outputs, const torch::Tensor& targets) const override {
    return torch::mse_loss(outputs, targets, at::Reduction::None);
  }
  bool is_squared() const override { return true; }
};

const Registered<LossKind> kMse{
    "mse",
    {"target"},
    "mean squared error: target=FIELD of numbers (default: 1 for the class, 0 for the others)",
    [](const Spec& spec, const LossOptions& options) { return std::make_unique<SquaredError>(spec, options); }};

}  // namespace
}  // namespace penstock
