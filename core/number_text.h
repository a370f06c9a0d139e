// Numbers as people read them in a sentence.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

/// "1,234,567".
std::string grouped(uint64_t number);

/// "1 worker", "2 workers", "1,200 workers"; `plural` where it takes more than an s: "2 classes".
std::string count_text(uint64_t count, std::string_view noun, std::string_view plural = {});

/// "9.5 MB": powers of 1000, as disks are sold.
std::string byte_text(uint64_t byte_count);

/// "71 %" of 0.71, or with `digits` behind the point: "71.00 %".
std::string percent_text(double share, int digits = 0);

/// "1.07x" below 1.2, where a digit less would round a gain away; "2.1x" below 10; "12x".
std::string factor_text(double factor);

}  // namespace penstock
