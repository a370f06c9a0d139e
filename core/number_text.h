// Numbers as people read them in a sentence.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

/// "1 worker", "2 workers".
std::string count_text(int64_t count, std::string_view noun);

/// "71 %" of 0.71, or with `digits` behind the point: "71.00 %".
std::string percent_text(double share, int digits = 0);

/// "1.07x" below 1.2, where a digit less would round a gain away; "2.1x" below 10; "12x".
std::string factor_text(double factor);

}  // namespace penstock
