// SizeSchedule: parses stages, and finds the transform whose size they replace.
#include "augment/size_schedule.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

constexpr int kMostSize = 65535;

std::optional<int64_t> whole_in(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

std::vector<std::string> size_setters() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : TransformRegistry::entries())
    if (entry.traits.sets_size) names.push_back(name);
  return names;
}

/// The place of the last transform that sets the size; the size of the list if there is none. `crop(pad=4)` and
/// `shift` keep the size that they find.
size_t size_setter_in(const std::vector<Spec>& specs) {
  for (size_t i = specs.size(); i-- > 0;) {
    const Spec& spec = specs[i];
    const bool has_size = spec.has("size") || spec.has("height") || spec.has("width");
    if (has_size && TransformRegistry::entry(spec.name()).traits.sets_size) return i;
  }
  return specs.size();
}

/// The spec with another size, which comes last among its keys.
std::string resized(const Spec& spec, int size) {
  std::string text = spec.without("size").text();
  if (text.back() != ')') return concat(text, "(size=", size, ")");
  text.back() = ',';
  return concat(text, "size=", size, ")");
}

}  // namespace

SizeSchedule::SizeSchedule(const std::string& where, const std::string& text) {
  if (text.empty()) return;
  const auto wrong = [&](const std::string& problem) {
    return config_error(
        concat(where, " is ", in_quotes(text), ": ", problem,
               "; expected EPOCH:SIZE,... with ascending epochs from 0 on, such as 0:128,6:160,12:224"));
  };
  for (const auto& part : split(text, ',')) {
    const auto words = split(part, ':');
    const auto epoch = words.size() == 2 ? whole_in(words[0]) : std::nullopt;
    const auto size = words.size() == 2 ? whole_in(words[1]) : std::nullopt;
    if (!epoch || !size) throw wrong(concat(in_quotes(part), " is not EPOCH:SIZE"));
    if (*size < 1 || *size > kMostSize) throw wrong(concat("size is ", *size, ", not 1 to ", kMostSize));
    if (stages_.empty() && *epoch != 0) throw wrong(concat("it begins with epoch ", *epoch));
    if (!stages_.empty() && *epoch <= stages_.back().first_epoch)
      throw wrong(concat("epoch ", *epoch, " comes after epoch ", stages_.back().first_epoch));
    stages_.push_back({*epoch, static_cast<int>(*size)});
  }
}

size_t SizeSchedule::stage_of(int64_t epoch) const {
  const auto after = std::upper_bound(stages_.begin(), stages_.end(), epoch,
                                      [](int64_t value, const Stage& stage) { return value < stage.first_epoch; });
  return static_cast<size_t>(after - stages_.begin()) - 1;
}

std::string SizeSchedule::text() const {
  std::vector<std::string> parts;
  for (const auto& [epoch, size] : stages_) parts.push_back(concat(epoch, ":", size));
  return join(parts, ",");
}

std::optional<int> stated_size(const std::string& spec_list) {
  const auto specs = parse_spec_list(TransformKind::kName, spec_list);
  const size_t setter = size_setter_in(specs);
  if (setter == specs.size() || !specs[setter].has("size")) return std::nullopt;
  return specs[setter].get("size", 0);
}

std::string with_size(const std::string& spec_list, int size) {
  const auto specs = parse_spec_list(TransformKind::kName, spec_list);
  const size_t setter = size_setter_in(specs);
  if (setter == specs.size())
    throw config_error(concat("size schedule: the transforms ", in_quotes(spec_list), " set no size; expected one of ",
                              join(size_setters()), " among them"));
  if (!specs[setter].has("size"))
    throw config_error(concat("size schedule: transform ", specs[setter].text(),
                              " has a height and a width; expected size= in their place"));
  std::vector<std::string> texts;
  for (const auto& spec : specs) texts.push_back(spec.text());
  texts[setter] = resized(specs[setter], size);
  return join(texts, ",");
}

Pipeline with_size(const Pipeline& pipeline, int size) {
  return {with_size(pipeline.text(), size), pipeline.statistics()};
}

Pipeline in_epoch(const Pipeline& pipeline, const SizeSchedule& schedule, int64_t epoch) {
  return schedule.is_empty() ? pipeline : with_size(pipeline, schedule.size_of(epoch));
}

}  // namespace penstock
