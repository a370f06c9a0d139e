// NestedList: parses the list, and refuses what cannot be drawn within another transform.
#include "augment/transforms/nested_list.h"

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

std::string_view without_braces(std::string_view text) {
  const bool has_braces = text.size() >= 2 && text.front() == '{' && text.back() == '}';
  return has_braces ? text.substr(1, text.size() - 2) : text;
}

bool can_be_nested(const Spec& spec, const Transform& transform) {
  const TransformTraits& traits = TransformRegistry::entry(spec.name()).traits;
  const auto effect = transform.effect();
  return (effect == Transform::Effect::kGeometry || effect == Transform::Effect::kColor) && !traits.sets_size &&
         traits.excludes.empty() && !transform.alternates() && !transform.repeats_border() &&
         !transform.mixes_chains() && !transform.makes_rgb() && transform.boxes_field().empty();
}

}  // namespace

NestedList::NestedList(const Spec& outer, std::string_view text, const DataStatistics& statistics) {
  for (const Spec& spec : parse_spec_list(TransformKind::kName, without_braces(text))) {
    auto transform = TransformRegistry::make(spec, statistics);
    if (!can_be_nested(spec, *transform))
      throw config_error(concat(outer.where(), ": its list has ", spec.name(),
                                "; expected transforms of geometry and colour that keep the size"));
    color_steps_ += transform->color_steps();
    moves_ |= transform->effect() == Transform::Effect::kGeometry;
    transforms_.push_back(std::move(transform));
  }
}

}  // namespace penstock::detail
