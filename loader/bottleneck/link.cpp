// Link: rates over other links and with other caches, and what the sentence says of them.
#include "loader/bottleneck/link.h"

#include <algorithm>

#include "core/number_text.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

constexpr double kManyTimes = 1.5;  // the bytes of the images; less may be what shards have besides them

StepCosts with_cache(const LoopMeasurement& run, const CacheCase& cache) {
  return with_link(run.times, 1, run.link_bytes > 0 ? cache.link_bytes / run.link_bytes : 1);
}

/// Whether the delays of the requests take more of the step than their bytes.
bool is_delay_bound(const LoopMeasurement& run) {
  constexpr double kInfinite = 1e9;  // times the rate
  if (run.link_delay_ms <= 0) return false;
  return predicted_step_ms(with_requests(run.times, 0), run.workers) <
         predicted_step_ms(with_link(run.times, kInfinite, 1), run.workers);
}

}  // namespace

std::vector<LinkPrediction> link_predictions(const LoopMeasurement& run) {
  std::vector<LinkPrediction> predictions;
  if (run.link_bytes <= 0) return predictions;
  const double now = predicted_step_ms(run.times, run.workers);
  const auto rate_of = [&](const StepCosts& times) {
    const double step = predicted_step_ms(times, run.workers);
    return step > 0 ? run.images_per_second * now / step : 0;
  };
  for (const double factor : {0.25, 0.5, 2.0, 4.0})
    predictions.push_back({.link_factor = factor, .images_per_second = rate_of(with_link(run.times, factor, 1))});
  for (const auto& one : run.cache_cases)
    predictions.push_back({.cache_bytes = one.cache_bytes, .images_per_second = rate_of(with_cache(run, one))});
  return predictions;
}

std::string link_advice(const LoopMeasurement& run) {
  const double now = predicted_step_ms(run.times, run.workers);
  const auto step_of = [&](const StepCosts& times) { return predicted_step_ms(times, run.workers); };
  std::string text =
      is_delay_bound(run)
          ? concat(", half as many shards would give up to ", factor_text(now / step_of(with_requests(run.times, 0.5))))
          : concat(", twice the link would give ", factor_text(now / step_of(with_link(run.times, 2, 1))));
  double best = now / detail::kNoise;
  for (const auto& one : run.cache_cases) best = std::min(best, step_of(with_cache(run, one)));
  for (const auto& one : run.cache_cases) {
    if (step_of(with_cache(run, one)) > best * detail::kAsGood) continue;
    text += concat(", a cache of ", byte_text(one.cache_bytes), " would give ",
                   factor_text(now / step_of(with_cache(run, one))), " in later epochs");
    break;
  }
  if (run.coefficient_share > 0 && run.coefficient_share < 1)
    text += concat(", --encode coef would give ",
                   factor_text(now / step_of(with_link(run.times, 1, run.coefficient_share))));
  return text;
}

std::string link_fact(const LoopMeasurement& run) {
  const double image_bytes = run.image_bytes * run.images_per_second * run.step_ms * 1e-3;
  const bool brings_more = image_bytes > 0 && run.link_bytes > kManyTimes * image_bytes;
  const std::string share = brings_more ? concat(factor_text(run.link_bytes / image_bytes), " the bytes of the images")
                                        : percent_text(run.cache_share) + " of the bytes come from the cache";
  const auto count = [](double bytes) { return byte_text(static_cast<uint64_t>(bytes)); };
  const std::string rate = count(run.link_bytes_per_second) + "/s";
  if (!is_delay_bound(run))
    return concat("load-bound: the link gives ", rate, brings_more ? " and brings " : "; ", share);
  return concat("load-bound: each request waits ", ms_text(run.link_delay_ms), " for its first byte, and then ",
                count(run.link_request_bytes), " come at ", rate, brings_more ? "; the link brings " : "; ", share);
}

}  // namespace penstock::detail
