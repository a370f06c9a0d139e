// WeightAverage: in place, tensor by tensor.
#include "train/parallel/engine/weight_average.h"

namespace penstock::detail {

WeightAverage::WeightAverage(const ModelPart& part) {
  at::NoGradGuard no_grad;
  part.for_each_whole(
      [&](const std::string& name, const torch::Tensor& parameter) { tensors_.emplace_back(name, parameter.clone()); });
  for (const auto& [name, buffer] : part.buffers()) tensors_.emplace_back(name, buffer.detach().clone());
}

/// `use` gets the average's tensor, the part's, and what gives the part a value in its place: a gathered parameter that
/// is written to is released with what was written.
template <class Use>
void WeightAverage::for_each_pair(ModelPart& part, const Use& use) {
  at::NoGradGuard no_grad;
  size_t next = 0;
  part.for_each_whole([&](const std::string& name, const torch::Tensor& parameter) {
    use(tensors_[next++].second, parameter, [&](const torch::Tensor& value) { part.load(name, value); });
  });
  for (const auto& [name, buffer] : part.buffers()) {
    const auto own = buffer.detach();
    use(tensors_[next++].second, own, [&](const torch::Tensor& value) { own.copy_(value); });
  }
}

void WeightAverage::update(ModelPart& part, double decay, bool restarts) {
  for_each_pair(part, [&](const torch::Tensor& average, const torch::Tensor& own, const auto& set) {
    if (!average.is_floating_point()) {
      average.copy_(own);
      return;
    }
    average.lerp_(own, 1 - decay);
    if (restarts) set(average);
  });
}

void WeightAverage::swap(ModelPart& part) {
  for_each_pair(part, [](const torch::Tensor& average, const torch::Tensor& own, const auto& set) {
    const auto kept = own.clone();
    set(average);
    average.copy_(kept);
  });
  is_shown_ = !is_shown_;
}

}  // namespace penstock::detail
