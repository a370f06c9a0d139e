// Link table: what came over the network in the runs of a study.
#pragma once

#include <string>
#include <vector>

#include "tools/train/study/cells.h"
#include "tools/train/study/results.h"

namespace penstock {

/// One row per row of the study whose data were far away, of its last repeat; no rows where none were.
Table link_table(const StudyResults& results);
std::vector<std::string> link_table_notes();

}  // namespace penstock
