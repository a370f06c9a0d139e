// WeightAverage: in place, tensor by tensor.
#include "train/parallel/engine/weight_average.h"

#include "core/error.h"

namespace penstock::detail {

WeightAverage::WeightAverage(ModelPart& part, bool is_kept) : part_(part), is_kept_(is_kept) {
  if (!is_kept) return;
  at::NoGradGuard no_grad;
  part.for_each_whole(
      [&](const std::string& name, const torch::Tensor& parameter) { tensors_.emplace_back(name, parameter.clone()); });
  for (const auto& [name, buffer] : part.buffers()) tensors_.emplace_back(name, buffer.detach().clone());
}

/// `use` gets the average's tensor, the part's, and what gives the part a value in its place: a gathered parameter that
/// is written to is released with what was written.
template <class Use>
void WeightAverage::for_each_pair(const Use& use) {
  at::NoGradGuard no_grad;
  size_t next = 0;
  part_.for_each_whole([&](const std::string& name, const torch::Tensor& parameter) {
    use(tensors_[next++].second, parameter, [&](const torch::Tensor& value) { part_.load(name, value); });
  });
  for (const auto& [name, buffer] : part_.buffers()) {
    const auto own = buffer.detach();
    use(tensors_[next++].second, own, [&](const torch::Tensor& value) { own.copy_(value); });
  }
}

void WeightAverage::update(double decay, bool restarts) {
  if (!is_kept_) throw bug_error("an average that was not announced; expected StepOptions::keeps_average");
  show(false);
  for_each_pair([&](const torch::Tensor& average, const torch::Tensor& own, const auto& set) {
    if (!average.is_floating_point()) {
      average.copy_(own);
      return;
    }
    average.lerp_(own, 1 - decay);
    if (restarts) set(average);
  });
}

void WeightAverage::show(bool on) {
  if (!is_kept_ || is_shown_ == on) return;
  for_each_pair([](const torch::Tensor& average, const torch::Tensor& own, const auto& set) {
    const auto kept = own.clone();
    set(average);
    average.copy_(kept);
  });
  is_shown_ = on;
}

}  // namespace penstock::detail
