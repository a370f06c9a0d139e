// Table: the rows of a study as cells, Markdown and CSV.
#pragma once

#include <string>
#include <vector>

#include "tools/train/study/cells.h"
#include "tools/train/study/results.h"

namespace penstock {

/// The last cell of each row says whether its times are `measured` or `emulated`.
Table table_of(const StudyResults& results);
/// Sentences that say what the columns mean.
std::vector<std::string> table_notes(const StudyResults& results);

std::string markdown(const StudyResults& results);  ///< study.md
std::string csv(const StudyResults& results);  ///< study.csv: with more digits, and ranges in columns of their own.

}  // namespace penstock
