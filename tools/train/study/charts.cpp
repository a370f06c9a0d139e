// Charts: a gnuplot script with the data inside.
#include "tools/train/study/charts.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/text.h"
#include "tools/train/study/bar_chart.h"
#include "tools/train/study/mode_table.h"
#include "tools/train/study/process.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// Rows [begin, end) of one group.
struct Group {
  size_t begin = 0, end = 0;
};

std::vector<Group> groups_of(const StudyResults& results) {
  std::vector<Group> groups;
  for (size_t i = 0; i < results.rows.size(); ++i) {
    if (i == 0 || results.rows[i].row.group != results.rows[i - 1].row.group) groups.push_back({i, i});
    groups.back().end = i + 1;
  }
  return groups;
}

/// One data block per group, one line per row: place on the axis, total with its range, prediction.
std::string data_blocks(const StudyResults& results, const std::vector<Group>& groups) {
  std::ostringstream text;
  for (size_t g = 0; g < groups.size(); ++g) {
    text << "$group" << g << " << EOD\n";
    for (size_t i = groups[g].begin; i < groups[g].end; ++i) {
      const auto& row = results.rows[i];
      text << i - groups[g].begin << ' ' << row.total_s.median << ' ' << row.total_s.low << ' ' << row.total_s.high
           << ' ';
      row.predicted_s ? text << *row.predicted_s : text << '?';
      text << '\n';
    }
    text << "EOD\n";
  }
  return text.str();
}

/// Measured totals are a line with the ranges as bars, and predicted ones are rings of the same colour. Groups are
/// shifted against each other a little, so that no bar hides another.
std::string total_plot(const StudyResults& results, const std::vector<Group>& groups) {
  std::vector<std::string> parts;
  for (size_t g = 0; g < groups.size(); ++g) {
    const double aside = 0.06 * (static_cast<double>(g) - static_cast<double>(groups.size() - 1) / 2);
    const std::string block = concat("$group", g, " using ($1 + ", aside, "):"), color = concat(" lt ", g + 1, " ");
    parts.push_back(concat(block, "2:3:4 with yerrorlines", color, "lw 2 pt 7 ps 0.7 title ",
                           gnuplot_quoted(group_text(results.rows[groups[g].begin].row))));
    parts.push_back(concat(block, "5 with points", color, "lw 2 pt 6 ps 1.6 title ''"));
  }
  parts.push_back("keyentry with points lc rgb '#555555' lw 2 pt 6 ps 1.6 title 'predicted'");
  return "plot " + join(parts, ", \\\n  ") + "\n";
}

constexpr const char* kLoadColour = "#d55e00";
constexpr const char* kUpdateColour = "#0072b2";

/// "8.31", "72.8".
std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.2f" : "%.1f", value);
  return text;
}

/// Load and update of every row.
std::string stages_chart(const StudyResults& results, const std::string& mark) {
  BarChart chart{
      "stages", "time per step" + mark, "ms per batch, median", {{"load", kLoadColour}, {"update", kUpdateColour}}, {}};
  for (const auto& row : results.rows) {
    const double load_ms = row.load_ms.median, update_ms = row.update_ms.median;
    chart.rows.push_back(
        {row_text(row.row), row.row.group, {load_ms, update_ms}, 0, 0, number_text(load_ms + update_ms)});
  }
  return gnuplot_bars(chart);
}

/// A bar per mode, with a line where `single` is.
std::string modes_chart(const StudyResults& results, const std::string& mark) {
  BarChart chart{"modes", "images per second, as a multiple of single" + mark, "speed-up", {{"", kUpdateColour}}, {},
                 1};
  for (const auto& [name, factor] : speed_ups(results)) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2fx", factor);
    chart.rows.push_back({name, 0, {factor}, 0, 0, text});
  }
  return chart.rows.empty() ? "" : gnuplot_bars(chart);
}

/// The totals of rows of one number of workers, which have no axis to lie along.
std::string total_bars(const StudyResults& results, const std::string& mark) {
  BarChart chart{"total",
                 "training time" + mark,
                 results.repeat_count > 1 ? "total s, median and range" : "total s",
                 {{"", kUpdateColour}},
                 {}};
  for (const auto& row : results.rows)
    chart.rows.push_back({row_text(row.row),
                          0,
                          {row.total_s.median},
                          row.total_s.low,
                          row.total_s.high,
                          number_text(row.total_s.median)});
  return gnuplot_bars(chart);
}

/// The totals over the numbers of workers.
std::string total_lines(const StudyResults& results, const std::vector<Group>& groups, const std::string& mark) {
  const size_t most = groups.front().end;  // all groups have the same numbers of workers
  std::vector<std::string> tics;
  for (size_t i = 0; i < most; ++i) tics.push_back(concat("'", results.rows[i].row.workers, "' ", i));
  std::string text = data_blocks(results, groups);
  for (const bool is_svg : {true, false})
    text += concat(
        open_chart("total", is_svg, 420 + 20 * static_cast<int>(groups.size())),
        "set datafile missing '?'\nset style data lines\n", "set key outside top center vertical maxrows ",
        groups.size() + 1, "\nset title ", gnuplot_quoted("training time" + mark),
        "\nset xlabel 'workers per rank'\nset ylabel 'total s, median and range'\nset yrange [0:*]\nset xrange [-0.5:",
        most, " - 0.5]\nset xtics (", join(tics), ")\nset bars 0.6\n", total_plot(results, groups));
  return text;
}

std::string script(const StudyResults& results) {
  const auto groups = groups_of(results);
  const std::string mark = results.is_emulated ? " [emulated]" : "";
  const bool has_axis = groups.front().end > 1;
  return concat("# Draws the charts of a study: gnuplot charts.gp, in the study's folder.\nset encoding utf8\n",
                "set linetype 1 lc rgb '#0072b2'\nset linetype 2 lc rgb '#d55e00'\nset linetype 3 lc rgb '#009e73'\n",
                "set linetype 4 lc rgb '#cc79a7'\nset linetype 5 lc rgb '#56b4e9'\nset linetype 6 lc rgb '#e69f00'\n",
                "set linetype 7 lc rgb '#555555'\nset linetype 8 lc rgb '#8a6d3b'\nset linetype cycle 8\n",
                has_axis ? total_lines(results, groups, mark) : total_bars(results, mark), stages_chart(results, mark),
                modes_chart(results, mark), "unset output\n");
}

}  // namespace

std::string draw_charts(const StudyResults& results, const fs::path& out) {
  for (const char* name : {"chart-total", "chart-stages", "chart-modes"})
    for (const char* kind : {".svg", ".png"}) fs::remove(out / concat(name, kind));  // it would be of an earlier report
  write_text(out / "charts.gp", script(results));
  const fs::path errors = out / "charts.err";
  const auto end = run_process({"env", "-C", out.string(), "gnuplot", "charts.gp"}, "/dev/null", errors);
  const std::string said = last_line(errors);
  fs::remove(errors);
  if (end.exit_code == 0) return "";
  if (end.exit_code == 127)
    return "gnuplot is not installed, so no charts were drawn; install gnuplot-nox and run the same command again";
  return concat("gnuplot: exit code ", end.exit_code, " (", said, "), so charts are missing; see ",
                (out / "charts.gp").string());
}

}  // namespace penstock
