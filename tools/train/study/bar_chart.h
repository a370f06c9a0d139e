// Bar chart: gnuplot's commands for bars that lie, one below the other, each beside its name.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace penstock {

struct BarRow {
  std::string name;           ///< As group_text() and row_text() write it; long ones get several lines.
  int group = 0;              ///< Rows of different groups have a gap between them.
  std::vector<double> parts;  ///< Lengths, drawn one after the other.
  double low = 0, high = 0;   ///< A range around the end of the bar; none if both are equal.
  std::string text;           ///< One word, written after the bar.
};

struct BarChart {
  std::string name;  ///< Of the files, "chart-" NAME ".svg" and ".png".
  std::string title, axis;
  std::vector<std::pair<std::string, std::string>> parts;  ///< Name and colour of each part; no name: no key.
  std::vector<BarRow> rows;
  double mark = 0;  ///< A dashed line at this length; 0: none.
};

/// Commands that write both files into the working folder. As many rows as there are make the picture taller, not the
/// bars thinner, so that none hides another. Requires as many parts in every row as in the chart.
std::string gnuplot_bars(const BarChart& chart);

/// Commands that begin chart NAME, 820 x `height` pixels as SVG, and nothing is set of the chart before.
std::string open_chart(const std::string& name, bool is_svg, int height);

/// `text` as one of gnuplot's strings.
std::string gnuplot_quoted(const std::string& text);

}  // namespace penstock
