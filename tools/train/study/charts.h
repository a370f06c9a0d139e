// Charts: total time and stages of every row, drawn by gnuplot.
#pragma once

#include <filesystem>

#include "tools/train/study/results.h"

namespace penstock {

/// Writes charts.gp into `out` and has gnuplot draw chart-total and chart-stages, each as .svg and .png, from it.
/// Returns "" or, without gnuplot or when it fails, a line that says so. Throws io_error.
std::string draw_charts(const StudyResults& results, const std::filesystem::path& out);

}  // namespace penstock
