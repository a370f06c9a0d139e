// SizedMakers: a RowMaker for each size that a size schedule gives the pictures of a loader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "augment/size_schedule.h"
#include "loader/rows/row_maker.h"

namespace penstock::detail {

/// Without a schedule there is one maker. With a schedule there is one per stage, of the pipeline with_size(); a view
/// whose list states the same size as the pipeline follows it, and other views keep their sizes. All of them share the
/// order of the samples and the record of corrupt ones. Thread-safety: as RowMaker.
class SizedMakers {
 public:
  /// Throws config_error as RowMaker and SizeSchedule do.
  SizedMakers(const std::shared_ptr<const Dataset>& dataset, const Pipeline& pipeline, const LoaderOptions& options);

  const RowMaker& of(int64_t epoch) const { return *makers_[schedule_.is_empty() ? 0 : schedule_.stage_of(epoch)]; }
  const RowMaker& any() const { return *makers_.front(); }  ///< For what does not depend on the epoch.
  size_t most_block_bytes() const;                          ///< The largest BatchFormat::block_bytes.
  Extent largest() const;                                   ///< The extent of the most pixels.

 private:
  SizeSchedule schedule_;
  std::vector<std::unique_ptr<const RowMaker>> makers_;  // one entry per stage
};

}  // namespace penstock::detail
