// Hooks after each parameter's accumulation.
#include "train/parallel/sync/backward_hooks.h"

#include <torch/csrc/autograd/variable.h>

namespace penstock::detail {
namespace {

class AfterAccumulation final : public torch::autograd::FunctionPostHook {
 public:
  explicit AfterAccumulation(std::function<void()> call) : call_(std::move(call)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

}  // namespace

AccumulationHooks::AccumulationHooks(const std::vector<torch::Tensor>& parameters, std::function<void(size_t)> after)
    : after_(std::move(after)) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    // The parameter holds its accumulator weakly: without our reference the hook would be gone with the first graph.
    auto accumulator = torch::autograd::impl::grad_accumulator(parameters[i]);
    auto hook = std::make_unique<AfterAccumulation>([this, i] { after_(i); });
    hooks_.emplace_back(accumulator, accumulator->add_post_hook(std::move(hook)));
  }
}

AccumulationHooks::~AccumulationHooks() {
  for (const auto& [accumulator, key] : hooks_) accumulator->del_post_hook(key);
}

}  // namespace penstock::detail
