// Mode table: what modes and numbers of ranks give beside each other, in a study of several.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/train/study/cells.h"
#include "tools/train/study/results.h"

namespace penstock {

/// Whether each mode of the study trains what `single` trains, by a short verification with LeNet; sets
/// RowResult::equivalence. Does nothing if all rows have the same mode and number of ranks. Requires what run_launch()
/// requires.
void verify_modes(const StudyOptions& options, StudyResults& results);

/// One row per mode, number of ranks and ablation: its fastest row. No rows if all rows of the study have the same mode
/// and number of ranks.
Table mode_table(const StudyResults& results);
std::vector<std::string> mode_table_notes();

/// "ddp, 2 ranks" and how many times as many images per second it trains as `single`: of the rows of the table, in a
/// study that has `single` and others.
std::vector<std::pair<std::string, double>> speed_ups(const StudyResults& results);

}  // namespace penstock
