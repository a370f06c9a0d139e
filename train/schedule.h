// Learning-rate schedules: pure functions of the step, so that a resumed run needs no state for them.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

/// The learning rate of `step` (from 0) of `step_count`:
///
///     constant   lr
///     cosine     lr * (1 + cos(pi * step / step_count)) / 2      (Loshchilov, Hutter 2017, eq. 5, one period, to 0)
///     step       lr, a tenth of it from 1/2 of the steps on, a hundredth from 3/4 on
///
/// Throws config_error for another name.
double learning_rate_at(const std::string& schedule, double learning_rate, int64_t step, int64_t step_count);

}  // namespace penstock
