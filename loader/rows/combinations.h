// check_combinations(): what a loader cannot be asked for at the same time.
#pragma once

#include <vector>

#include "augment/transform.h"
#include "loader/rows/loader_options.h"
#include "loader/rows/view_columns.h"

namespace penstock::detail {

/// Throws config_error where the transforms mix rows and views or columns in pixels are asked for, and bug_error for
/// what only other parts of the program can ask for.
void check_combinations(const LoaderOptions& options, const Pipeline& pipeline,
                        const std::vector<ViewColumns>& columns);

}  // namespace penstock::detail
