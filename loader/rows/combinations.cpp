// Combinations: what would have to be made of rows that are not there, or of two rows at once.
#include "loader/rows/combinations.h"

#include "augment/targets/on_picture.h"
#include "core/error.h"
#include "core/number_text.h"
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

namespace {

bool mirrors(const Pipeline& pipeline) {
  constexpr uint32_t kTries = 1000;
  for (uint32_t i = 0; i < kTries; ++i)
    if (is_mirrored(pipeline.plan(32, 32, 0, i % 2, i))) return true;
  return false;
}

}  // namespace

std::vector<std::string> column_warnings(const Pipeline& pipeline, const std::vector<ViewColumns>& columns,
                                         uint64_t row_count) {
  constexpr uint64_t kMuch = 1'000'000'000;
  std::vector<std::string> warnings;
  for (const auto& made : columns) {
    uint64_t row_bytes = 0;
    for (const auto& column : made.columns) row_bytes += column.row_bytes();
    if (made.maker->is_in_pixels() && row_bytes * row_count > kMuch)
      warnings.push_back(concat("columns: ", made.columns.front().name, " and what belongs to it take ",
                                byte_text(row_bytes * row_count), " per batch of ", row_count,
                                " rows, because every row has room for the most objects of any sample; ",
                                "boxes(most=M,over=largest) keeps the M largest"));
  }
  for (const auto& made : columns)
    if (const std::string field = made.maker->lacks_pairs(); !field.empty() && mirrors(pipeline)) {
      warnings.push_back(
          concat("field ", in_quotes(field), " has key points and no pairs of left and right, and ", pipeline.text(),
                 " mirrors pictures, so that mirrored points keep their names; name the pairs when ",
                 "packing (coco: pairs=a/b:c/d, Python: Field(swapped=[(a, b)])), or say that there are none ",
                 "(pairs=none, swapped=[])"));
      break;
    }
  return warnings;
}

}  // namespace penstock::detail
