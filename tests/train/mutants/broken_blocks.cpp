// Mutants: modes in which something is wrong between blocks, or between a forward and its backward.
#include <map>
#include <optional>
#include <utility>

#include "tests/train/mutants/mutant_of_parts.h"
#include "train/nn/row_draws.h"
#include "train/nn/weight_gradients.h"

namespace penstock::detail {
namespace {

using Forward = Model::BlockForward;

/// Runs `mutant` in place of one block.
void replace_block(const StrategyContext& context, size_t which,
                   const std::function<Forward(Forward forward)>& mutant) {
  context.model.wrap_blocks(
      [&](size_t block, Forward forward) { return block == which ? mutant(std::move(forward)) : forward; });
}

constexpr size_t kBlockAfterCut = 3;  // of lenet over two ranks: rank 0 has conv1 to fc1

const auto kActivationScaled = mutant_of_pipeline(
    "activation-scaled", "a stage multiplies what it receives", {}, [](const StrategyContext& context) {
      replace_block(context, kBlockAfterCut, [](Forward forward) -> Forward {
        return [forward = std::move(forward)](const torch::Tensor& x) { return forward(x * 1.001); };
      });
    });

/// The buffer into which an activation is received is read before it has arrived. It then holds the one before.
const auto kActivationStale = mutant_of_pipeline(
    "activation-stale", "a stage reads an activation before it has arrived", {}, [](const StrategyContext& context) {
      replace_block(context, kBlockAfterCut, [](Forward forward) -> Forward {
        return [forward = std::move(forward), before = torch::Tensor()](const torch::Tensor& x) mutable {
          const bool has_before = before.defined() && before.sizes() == x.sizes();
          const auto arrived = x + (has_before ? before - x.detach() : torch::zeros_like(x));
          before = x.detach().clone();
          return forward(arrived);
        };
      });
    });

/// As if the second halves of backward took the factors of the micro-batch before.
const auto kWrongWeightGradient = mutant_of_pipeline(
    "weight-gradient-of-another", "zero-bubble adds the weight gradient of the micro-batch before",
    {.name = "zero-bubble"}, [](const StrategyContext& context) {
      const auto parameters = context.model.parameters();
      auto weight = parameters[parameters.size() - 2];  // of the last layer
      weight.register_hook([before = std::make_shared<torch::Tensor>()](const torch::Tensor& gradient) {
        if (!gradient.defined()) return gradient;
        const auto given = before->defined() ? *before : torch::zeros_like(gradient);
        *before = gradient.clone();
        return given;
      });
    });

/// Nobody sees it who makes the gradients of each micro-batch alone, as taps do.
const auto kFactorsLost = mutant_of_pipeline(
    "factors-lost", "weight gradients that micro-batches make together lack the first two", {},
    [](const StrategyContext& context) {
      replace_block(context, kBlockAfterCut, [](Forward forward) -> Forward {
        return [forward = std::move(forward), backwards = std::make_shared<int>(0)](const torch::Tensor& x) {
          auto y = forward(x);
          auto* gradients = WeightGradients::current();
          if (gradients && y.requires_grad())
            y.register_hook([gradients, backwards](const torch::Tensor& gradient) {
              if (++*backwards % 4 == 3) gradients->clear();
              return gradient;
            });
          return y;
        };
      });
    });

/// The second forward of some rows draws other random numbers than the first.
const auto kOtherDraws =
    mutant_of_pipeline("recompute-draws-others", "a forward that is run again drops other elements",
                       {.recompute = Recompute::kAlways}, [](const StrategyContext& context) {
                         context.model.wrap_blocks([](size_t, Forward forward) -> Forward {
                           return [forward = std::move(forward)](const torch::Tensor& x) {
                             const BatchRows* rows = RowScope::rows();
                             if (!rows || !torch::GradMode::is_enabled()) return forward(x);
                             BatchRows others = *rows;
                             ++others.seed;
                             const RowScope scope(others);
                             return forward(x);
                           };
                         });
                       });

}  // namespace
}  // namespace penstock::detail
