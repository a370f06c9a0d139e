// --average: which mean of the weights of earlier steps is kept, as data.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

/// ema(decay=0.99,every=5,power=0,beside=true): after every `every`-th step, average = d * average + (1 - d) * weights,
/// where d = decay * (share of the steps that are done)^power. lookahead is the same, and the weights then become the
/// average (Zhang et al. 2019, arXiv:1907.08610, whose slow weights these are; with power=3 as in Jordan 2024,
/// arXiv:2404.00498, sec. 3.4, where decay is 0.95^5). The average starts as the weights before the first step. With
/// `beside` the weights are evaluated and saved beside it, which costs one more evaluation each time; that is the
/// default of ema alone, because with lookahead the weights are the average every few steps.
struct AverageOptions {
  std::string name;  // ema or lookahead; "" for none
  int every = 0;     // steps; 0: none is kept
  double decay = 0, power = 0;
  bool restarts = false;   // the weights become the average
  bool is_beside = false;  // the weights are evaluated and saved as well

  bool is_due(int64_t step_count_done) const { return every > 0 && step_count_done % every == 0; }
  /// After `step` (from 1) of `step_count`.
  double decay_after(int64_t step, int64_t step_count) const;
};

/// "" is no average. Throws config_error.
AverageOptions parse_average(const std::string& text);

}  // namespace penstock
