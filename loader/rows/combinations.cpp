// Combinations: what would have to be made of rows that are not there, or of two rows at once.
#include "loader/rows/combinations.h"

#include <string>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {

void check_combinations(const LoaderOptions& options, const Pipeline& pipeline,
                        const std::vector<ViewColumns>& columns) {
  const std::string& transforms = pipeline.text();
  const bool mixes = pipeline.batch_mix().kind != BatchMix::Kind::kNone, has_views = !options.views.empty();
  if (has_views && mixes)
    throw config_error(concat("loader: has ", options.views.size() + 1, " views, and the transforms ", transforms,
                              " mix rows of a batch; expected one of the two"));
  if (options.leaves_out && mixes)
    throw bug_error(concat("loader: leaves samples out, and the transforms ", transforms,
                           " mix rows of a batch; expected one of the two"));
  for (const auto& made : columns)
    if (mixes && made.maker->is_in_pixels())
      throw config_error(concat("columns: ", made.columns.front().name, " is in pixels, and the transforms ",
                                transforms, " mix the pixels of two rows; expected one of the two"));
  if (options.leaves_out && (!columns.empty() || has_views))
    throw bug_error(concat("loader: leaves samples out, and has ",
                           columns.empty() ? "views" : "the columns " + options.columns, "; expected one of the two"));
  if (options.leaves_out && options.on_corrupt == OnCorrupt::kSubstitute)
    throw bug_error(
        "loader: leaves samples out, and puts others in the place of corrupt ones; expected one of the two");
}

}  // namespace penstock::detail
