// Lists: split, checked, and refused where a value stands twice.
#include "tools/train/flags/lists.h"

#include <algorithm>

#include "core/error.h"
#include "core/spec.h"
#include "core/text.h"
#include "core/whole_number.h"
#include "train/run/program.h"

namespace penstock {
namespace {

template <class Value>
void check_different(const char* flag, const std::string& text, std::vector<Value> values) {
  std::sort(values.begin(), values.end());
  const auto twice = std::adjacent_find(values.begin(), values.end());
  if (twice != values.end())
    throw config_error(
        concat(flag, " is ", in_quotes(text), ", with ", *twice, " twice; expected each value only once"));
}

std::vector<std::string> parse_specs(const char* flag, const char* kind, const std::string& text,
                                     const std::vector<std::string>& known) {
  std::vector<std::string> specs;
  for (const auto& spec : parse_spec_list(kind, text)) {
    if (std::find(known.begin(), known.end(), spec.name()) == known.end())
      throw config_error(concat(flag, ": ", unknown_name(kind, spec.name(), known)));
    specs.push_back(spec.text());
  }
  if (specs.empty()) throw config_error(concat(flag, " is \"\"; expected ", kind, "s of ", join(known)));
  check_different(flag, text, specs);
  return specs;
}

}  // namespace

std::vector<int> parse_counts(const char* flag, const std::string& text, int least, const char* example) {
  std::vector<int> counts;
  for (const auto& part : split(text, ',')) {
    const auto count = whole_number(part);
    if (!count || *count < least)
      throw config_error(
          concat(flag, " is ", in_quotes(text), "; expected whole numbers, ", least, " or more, such as ", example));
    counts.push_back(*count);
  }
  check_different(flag, text, counts);
  return counts;
}

std::vector<std::string> parse_modes(const std::string& text) {
  return parse_specs("--modes", "mode", text, mode_names());
}

std::vector<std::string> parse_archs(const std::string& text) {
  return parse_specs("--arch", "arch", text, arch_names());
}

}  // namespace penstock
