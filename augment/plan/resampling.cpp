// Resampling: the choices of render_rows.cpp.
#include "augment/plan/resampling.h"

#include "augment/plan/sampling.h"

namespace penstock {

Resampling resampling_of(const Plan& plan) {
  Resampling found;
  found.seen = detail::seen_from_view(plan);
  // Where every pixel's centre falls on a pixel's centre, all filters copy that pixel.
  if (is_translation(found.seen.map) || plan.filter == Filter::kNearest) return found;
  const detail::SamplingAxes axes = detail::sampling_axes(plan);
  found.kind = axes.are_filtered                               ? Resampling::Kind::kFiltered
               : point_filter(plan.filter) == Filter::kBicubic ? Resampling::Kind::kBicubic
                                                               : Resampling::Kind::kBilinear;
  found.turns = axes.turns;
  found.columns = axes.turns ? axes.y : axes.x;
  found.rows = axes.turns ? axes.x : axes.y;
  return found;
}

}  // namespace penstock
