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

std::vector<size_t> buckets_of(const std::vector<std::vector<size_t>>& members, size_t parameter_count) {
  std::vector<size_t> buckets(parameter_count);
  for (size_t bucket = 0; bucket < members.size(); ++bucket)
    for (const size_t i : members[bucket]) buckets[i] = bucket;
  return buckets;
}

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

BucketReadiness::BucketReadiness(const std::vector<torch::Tensor>& parameters, std::vector<std::vector<size_t>> members,
                                 int backward_count, std::function<void(size_t)> on_complete,
                                 std::function<void()> on_gradient)
    : members_(std::move(members)),
      backward_count_(backward_count),
      on_complete_(std::move(on_complete)),
      on_gradient_(std::move(on_gradient)),
      missing_(members_.size()),
      bucket_of_(buckets_of(members_, parameters.size())),
      hooks_(parameters, [this](size_t parameter) { count(parameter); }) {
  restart();
}

void BucketReadiness::restart() {
  for (size_t bucket = 0; bucket < members_.size(); ++bucket)
    missing_[bucket] = members_[bucket].size() * static_cast<size_t>(backward_count_);
}

void BucketReadiness::count(size_t parameter) {
  const size_t bucket = bucket_of_[parameter];
  if (missing_[bucket] > 0 && --missing_[bucket] == 0) on_complete_(bucket);
  on_gradient_();
}

}  // namespace penstock::detail
