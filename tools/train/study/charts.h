// Charts: total time, and load and update, of every row, drawn by gnuplot.
#pragma once

#include <filesystem>

#include "tools/train/study/results.h"

namespace penstock {

/// Writes charts.gp into `out` and lets gnuplot draw chart-total and chart-stages from it, each as .svg and .png.
/// Returns "", or a line for people if gnuplot is missing or fails. Throws io_error.
std::string draw_charts(const StudyResults& results, const std::filesystem::path& out);

}  // namespace penstock
