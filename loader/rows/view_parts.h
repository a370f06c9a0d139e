// ViewParts: which views of a sample are rendered from one decoded region.
#pragma once

#include <cstddef>
#include <span>

#include "augment/plan/plan.h"

namespace penstock::detail {

/// What one view of a row wants.
struct ViewPart {
  Plan plan;          // of the whole picture
  Plan scaled;        // the same at the DCT scale
  int dct_scale = 8;  // eighths
  Region region;      // what `scaled` looks at; of a leader, after share_regions(), all that is decoded for it
  size_t leader = 0;  // the part whose region is decoded for this one; its own number where it leads
  std::byte* output = nullptr;  // its row
};

/// The smallest rectangle that has both; an empty one adds nothing.
Region hull_of(const Region& a, const Region& b);

/// Sets the leaders, and their regions. A part joins the first leader of its DCT scale where the hull of both regions
/// is no larger than the two are together, so that it costs no more to decode. With `costs_what_is_above`, as of a PNG,
/// all that lies above a region is decoded for it as well; then a hull costs as much as the lower of the two, and every
/// part joins.
void share_regions(std::span<ViewPart> parts, bool costs_what_is_above);

}  // namespace penstock::detail
