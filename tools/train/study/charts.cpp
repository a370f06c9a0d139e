// Charts: a gnuplot script with the data inside.
#include "tools/train/study/charts.h"

#include <algorithm>
#include <sstream>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/text.h"
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

std::string gnuplot_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("''") : std::string(1, c);
  return result + "'";
}

/// One data block per group, one line per row: place on the axis, workers, total with its range, prediction, load,
/// update.
std::string data_blocks(const StudyResults& results, const std::vector<Group>& groups) {
  std::ostringstream text;
  for (size_t g = 0; g < groups.size(); ++g) {
    text << "$group" << g << " << EOD\n";
    for (size_t i = groups[g].begin; i < groups[g].end; ++i) {
      const auto& row = results.rows[i];
      text << i - groups[g].begin << ' ' << row.row.workers << ' ' << row.total_s.median << ' ' << row.total_s.low
           << ' ' << row.total_s.high << ' ';
      row.predicted_s ? text << *row.predicted_s : text << '?';
      text << ' ' << row.load_ms.median << ' ' << row.update_ms.median << '\n';
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
    parts.push_back(concat(block, "3:4:5 with yerrorlines", color, "lw 2 pt 7 ps 0.7 title ",
                           gnuplot_quoted(group_text(results.rows[groups[g].begin].row))));
    parts.push_back(concat(block, "6 with points", color, "lw 2 pt 6 ps 1.6 title ''"));
  }
  parts.push_back("keyentry with points lc rgb '#555555' lw 2 pt 6 ps 1.6 title 'predicted'");
  return "plot " + join(parts, ", \\\n  ") + "\n";
}

std::string stages_plot(const StudyResults& results, const std::vector<Group>& groups) {
  std::vector<std::string> parts;
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::string block = concat("$group", g);
    parts.push_back(concat("newhistogram ", gnuplot_quoted(group_text(results.rows[groups[g].begin].row))));
    parts.push_back(concat(block, " using 7:xtic(2) lc rgb '#d55e00' title ", g == 0 ? "'load'" : "''"));
    parts.push_back(concat(block, " using 8 lc rgb '#0072b2' title ", g == 0 ? "'update'" : "''"));
  }
  return "plot " + join(parts, ", \\\n  ") + "\n";
}

/// A bar per mode, with a line where `single` is.
std::string modes_chart(const StudyResults& results, const std::string& mark) {
  const auto all = speed_ups(results);
  if (all.empty()) return "";
  std::string text = "$modes << EOD\n";
  for (const auto& [name, factor] : all) text += concat(in_quotes(name), " ", factor, "\n");
  text += "EOD\n";
  for (const char* terminal : {"svg", "png"})
    text += concat("set terminal @", terminal, terminal == std::string("svg") ? " name 'modes'\n" : "\n",
                   "set output 'chart-modes.", terminal, "'\nset style fill solid border -1\nset boxwidth 0.6\n",
                   "set title ", gnuplot_quoted("images per second, as a multiple of single" + mark),
                   "\nset ylabel 'speed-up'\nunset xlabel\nset xrange [-0.7:", all.size(), " - 0.3]\n",
                   "set xtics rotate by -30 noenhanced\nset bmargin 7\nset rmargin 12\n",
                   "plot $modes using 0:2:xtic(1) with boxes lc rgb '#0072b2' title '', ",
                   "1 with lines lc rgb '#555555' dt 2 title ''\n");
  return text;
}

std::string script(const StudyResults& results) {
  const auto groups = groups_of(results);
  const std::string mark = results.is_emulated ? " [emulated]" : "";
  size_t most = 0;
  std::vector<std::string> tics;
  for (const auto& group : groups) most = std::max(most, group.end - group.begin);
  for (size_t i = 0; i < most; ++i) tics.push_back(concat("'", results.rows[i].row.workers, "' ", i));
  std::string text =
      "# Draws the charts of a study: gnuplot charts.gp, in the study's folder.\n"
      "set encoding utf8\nset datafile missing '?'\nset border 3\nset tics nomirror out\n"
      "set grid ytics lc rgb '#dddddd' lt 1\nset yrange [0:*]\nset xlabel 'workers per rank' noenhanced\n"
      "set linetype 1 lc rgb '#0072b2'\nset linetype 2 lc rgb '#d55e00'\nset linetype 3 lc rgb '#009e73'\n"
      "set linetype 4 lc rgb '#cc79a7'\nset linetype 5 lc rgb '#56b4e9'\nset linetype 6 lc rgb '#e69f00'\n"
      "set linetype 7 lc rgb '#555555'\nset linetype 8 lc rgb '#8a6d3b'\nset linetype cycle 8\n";
  text += data_blocks(results, groups);
  text +=
      "svg = \"svg size 820,420 dynamic noenhanced background rgb 'white' font 'DejaVu Sans,12'\"\n"
      "png = \"pngcairo size 1230,630 noenhanced font 'DejaVu Sans,13'\"\n";
  for (const char* terminal : {"svg", "png"}) {
    text += concat("set terminal @", terminal, terminal == std::string("svg") ? " name 'total'\n" : "\n");
    text +=
        concat("set output 'chart-total.", terminal, "'\nset style data lines\nset key outside top center horizontal\n",
               "set title ", gnuplot_quoted("training time" + mark), "\nset ylabel 'total s, median and range'\n",
               "set xrange [-0.5:", most, " - 0.5]\nset xtics (", join(tics), ")\nset bars 0.6\n",
               total_plot(results, groups));
    text += concat("set terminal @", terminal, terminal == std::string("svg") ? " name 'stages'\n" : "\n");
    text += concat("set output 'chart-stages.", terminal, "'\nset style data histograms\n",
                   "set style histogram rowstacked title offset 0,-0.3\nset style fill solid border -1\n",
                   "set boxwidth 0.6\nset bmargin 4\nset title ",
                   gnuplot_quoted("time per step, by workers per rank" + mark),
                   "\nset ylabel 'ms per batch, median'\nunset xtics\nset xtics scale 0\nset xrange [*:*]\n",
                   "unset xlabel\n", stages_plot(results, groups), "set xlabel 'workers per rank'\nset bmargin\n");
  }
  return text + modes_chart(results, mark) + "unset output\n";
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
