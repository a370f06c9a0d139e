// Lists: values of flags that are separated by commas.
#pragma once

#include <string>
#include <vector>

namespace penstock {

/// Whole numbers of `least` or more, each once. Throws config_error naming the flag, with the example.
std::vector<int> parse_counts(const char* flag, const std::string& text, int least, const char* example);

/// Specs of registered modes, each once: "ddp,zero(stage=2)". Throws config_error naming --modes.
std::vector<std::string> parse_modes(const std::string& text);

/// The same of models; names --arch.
std::vector<std::string> parse_archs(const std::string& text);

}  // namespace penstock
