// GradientSync: none, for one rank.
#include "train/parallel/strategy/gradient_sync.h"

namespace penstock::detail {
namespace {

class NoSync final : public GradientSync {
 public:
  explicit NoSync(const NamedTensors& trained) : trained_(values(trained)) {}
  void begin() override {
    for (const auto& parameter : trained_) parameter.mutable_grad().reset();
  }
  void finish() override {
    for (const auto& parameter : trained_)
      if (!parameter.grad().defined()) parameter.mutable_grad() = torch::zeros_like(parameter);
  }
  bool defers_weight_gradients() const override { return true; }

 private:
  std::vector<torch::Tensor> trained_;
};

}  // namespace

std::unique_ptr<GradientSync> make_no_sync(const SyncContext& context) {
  return std::make_unique<NoSync>(context.trained);
}

}  // namespace penstock::detail
