// Number texts: numbers in the form in which people read them in a sentence.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

/// What printf() prints, cut after 511 bytes.
[[gnu::format(printf, 1, 2)]] std::string printed(const char* format, ...);

/// "1,234,567".
std::string grouped(uint64_t number);

/// "1 worker", "2 workers", "1,200 workers"; give `plural` where it is not the noun and an s: "2 classes".
std::string count_text(uint64_t count, std::string_view noun, std::string_view plural = {});

/// "9.5 MB". Units are powers of 1000, as in the advertised size of a disk.
std::string byte_text(uint64_t byte_count);

/// "9.5 s".
std::string seconds_text(double seconds);

/// "9.5 ms".
std::string ms_text(double ms);

/// "71 %" for 0.71; "71.00 %" with two `digits` after the decimal point.
std::string percent_text(double share, int digits = 0);

/// "1.07x" below 1.2, where fewer digits would round a small gain away; "2.1x" below 10; otherwise "12x".
std::string factor_text(double factor);

}  // namespace penstock
