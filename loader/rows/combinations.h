// check_combinations(): what a loader cannot be asked for at the same time.
#pragma once

#include <string>
#include <vector>

#include "augment/transform.h"
#include "loader/rows/loader_options.h"
#include "loader/rows/view_columns.h"

namespace penstock::detail {

/// Throws config_error where the transforms mix rows and views or columns in pixels are asked for, and bug_error for
/// what only other parts of the program can ask for.
void check_combinations(const LoaderOptions& options, const Pipeline& pipeline,
                        const std::vector<ViewColumns>& columns);

/// What a user should know of columns under these transforms, one sentence each: key points that keep their names,
/// although some plans mirror the picture, and columns in pixels that need gigabytes per batch of `row_count` rows.
std::vector<std::string> column_warnings(const Pipeline& pipeline, const std::vector<ViewColumns>& columns,
                                         uint64_t row_count);

}  // namespace penstock::detail
