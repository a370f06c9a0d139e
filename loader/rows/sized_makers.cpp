// SizedMakers: lists of transforms in the sizes of a schedule.
#include "loader/rows/sized_makers.h"

#include <algorithm>

namespace penstock::detail {
namespace {

/// The options of a stage: views that have the size of `pipeline` get the stage's.
LoaderOptions in_size(LoaderOptions options, const Pipeline& pipeline, int size) {
  const auto stated = stated_size(pipeline.text());
  for (auto& view : options.views)
    if (stated_size(view) == stated) view = with_size(view, size);
  return options;
}

int64_t pixels_of(const Extent& extent) { return int64_t{extent.height} * extent.width; }

}  // namespace

SizedMakers::SizedMakers(const std::shared_ptr<const Dataset>& dataset, const Pipeline& pipeline,
                         const LoaderOptions& options)
    : schedule_("size schedule", options.size_schedule) {
  if (schedule_.is_empty()) {
    makers_.push_back(std::make_unique<const RowMaker>(dataset, pipeline, options));
    return;
  }
  for (const auto& [first_epoch, size] : schedule_.stages()) {
    Pipeline sized = with_size(pipeline, size);
    const LoaderOptions own = in_size(options, pipeline, size);
    makers_.push_back(makers_.empty() ? std::make_unique<const RowMaker>(dataset, std::move(sized), own)
                                      : std::make_unique<const RowMaker>(any(), std::move(sized), own));
  }
}

size_t SizedMakers::most_block_bytes() const {
  size_t most = 0;
  for (const auto& maker : makers_) most = std::max(most, maker->format()->block_bytes);
  return most;
}

Extent SizedMakers::largest() const {
  const auto largest = std::max_element(makers_.begin(), makers_.end(), [](const auto& a, const auto& b) {
    return pixels_of(a->format()->extent) < pixels_of(b->format()->extent);
  });
  return (*largest)->format()->extent;
}

}  // namespace penstock::detail
