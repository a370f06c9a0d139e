// single: one rank does everything.
#include "core/text.h"
#include "train/strategies/replicated.h"

namespace penstock {
namespace {

class Single final : public detail::Replicated {
 public:
  explicit Single(const StrategyContext& context) : Replicated(checked(context)) {}

 private:
  static const StrategyContext& checked(const StrategyContext& context) {
    if (context.comm.world_size() != 1)
      throw config_error(
          concat("--mode single: launched with ", context.comm.world_size(), " ranks; expected 1 (use --mode ddp)"));
    return context;
  }

  /// Undefined rather than 0: autograd then moves the first gradient in, which saves a fill and an addition a
  /// parameter.
  void begin_gradients() override {
    for (const auto& [name, parameter] : trained()) parameter.mutable_grad().reset();
  }
  void finish_gradients() override {
    for (const auto& [name, parameter] : trained())
      if (!parameter.grad().defined()) parameter.mutable_grad() = torch::zeros_like(parameter);
  }
};

const Registered<StrategyKind> kRegistered{
    "single", {}, "one rank does everything", [](const Spec&, const StrategyContext& context) {
      return std::make_unique<Single>(context);
    }};

}  // namespace
}  // namespace penstock
