// Page: HTML with inline SVG and no script.
#include "tools/train/study/page.h"

#include <fstream>
#include <iterator>
#include <regex>

#include "core/error.h"
#include "core/text.h"
#include "tools/train/study/gpu_chart.h"
#include "tools/train/study/html_text.h"
#include "tools/train/study/link_table.h"
#include "tools/train/study/mode_table.h"
#include "tools/train/study/table.h"
#include "tools/train/study/timeline.h"
#include "train/measure/recorder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

// Colours that colour-blind people can tell apart too (Okabe and Ito 2008).
constexpr const char* kStyle = R"(
body { font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; color: #1c1c1c; background: #fff; max-width: 1240px;
  margin: 32px auto; padding: 0 24px; overflow-wrap: anywhere; }
h1 { font-size: 26px; margin: 0 0 8px; } h2 { font-size: 19px; margin: 36px 0 8px; }
h3 { font-size: 15px; margin: 22px 0 2px; } p { margin: 4px 0; } ul { margin: 12px 0; padding-left: 20px; }
pre { background: #f4f4f4; padding: 8px 12px; white-space: pre-wrap; font-size: 13px; }
.quiet, .range { color: #666; font-size: 13px; } .emulated { color: #a04000; }
.table { overflow-x: auto; margin: 12px 0; }
table { border-collapse: collapse; width: 100%; font-size: 13px; line-height: 1.35; font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 600; vertical-align: bottom; border-bottom: 1px solid #444; padding: 4px 6px;
  overflow-wrap: normal; }
td { text-align: right; vertical-align: top; padding: 4px 6px; border-bottom: 1px solid #e6e6e6; }
th:first-child, td:first-child { text-align: left; } td { overflow-wrap: normal; } td:first-child { overflow-wrap: break-word; }
  td .range { display: block; line-height: 1.2; white-space: nowrap; }
tr.group td { border-top: 1px solid #999; }
.chart svg { width: 100%; height: auto; } svg.timeline { width: 100%; height: auto; display: block; margin: 6px 0; }
.timeline text { font-size: 11px; fill: #444; } text.name { text-anchor: end; } text.tick { text-anchor: middle; }
line.tick { stroke: #ccc; } rect.lane { fill: #f3f3f3; }
rect.gap { fill: #fff; stroke: #444; stroke-width: 0.5; stroke-dasharray: 2 2; }
text.turn { font-weight: 600; fill: #1c1c1c; paint-order: stroke; stroke: #fff; stroke-width: 3; } text.left { text-anchor: end; }
.legend { position: sticky; top: 0; background: #fff; padding: 6px 0; border-bottom: 1px solid #e6e6e6; font-size: 13px; }
.legend span { margin-right: 14px; white-space: nowrap; }
.legend svg { width: 12px; height: 12px; vertical-align: -1px; margin-right: 4px; }
.wait { fill: #d55e00; } .host_to_device { fill: #e6c700; } .forward { fill: #56b4e9; } .backward { fill: #0072b2; }
.communication { fill: #cc79a7; } .bubble { fill: #e69f00; } .optimizer { fill: #009e73; } .other { fill: #a8a8a8; }
.gpu polyline { fill: none; stroke-width: 1.5; } .gpu .busy { stroke: #0072b2; } .gpu .full { stroke: #d55e00; }
.gpu text { fill: #0072b2; } .gpu text.full { fill: #d55e00; }
.chart { max-width: 960px; }
@media (max-width: 1000px) {
  table { font-size: 11px; } th, td { padding: 3px; }
  th:not(:first-child) { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left; padding: 3px 1px; }
}
.even { fill: #7a7a9e; } .odd { fill: #b3b3cc; }
)";

std::string element(const std::string& name, const std::string& text) {
  return concat("<", name, ">", html_text(text), "</", name.substr(0, name.find(' ')), ">\n");
}

/// `groups`: one entry per row; a line is drawn where the group changes.
std::string table_html(const Table& table, const std::vector<int>& groups) {
  std::string text = "<div class=\"table\">\n<table>\n<thead><tr>";
  for (const auto& column : table.columns) text += concat("<th>", html_text(column), "</th>");
  text += "</tr></thead>\n<tbody>\n";
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const bool is_first = i > 0 && groups[i] != groups[i - 1];
    text += is_first ? "<tr class=\"group\">" : "<tr>";
    for (const auto& cell : table.rows[i]) {
      // A long mode is broken where one of its keys ends.
      text += concat("<td>", std::regex_replace(html_text(cell.value), std::regex("[(,](?! )"), "$&<wbr>"));
      if (!cell.range.empty()) text += concat("<span class=\"range\">", html_text(cell.range), "</span>");
      text += "</td>";
    }
    text += "</tr>\n";
  }
  return text + "</tbody>\n</table>\n</div>\n";
}

std::string tables_html(const StudyResults& results, const std::string& mark) {
  std::vector<int> groups;
  for (const auto& row : results.rows) groups.push_back(row.row.group);
  std::string text = table_html(table_of(results), groups);
  for (const auto& note : table_notes(results)) text += element("p class=\"quiet\"", note);
  const auto add = [&](const char* heading, const Table& table, const std::vector<std::string>& notes) {
    if (table.rows.empty()) return;
    text += element("h2", heading + mark) + table_html(table, std::vector<int>(table.rows.size()));
    for (const auto& note : notes) text += element("p class=\"quiet\"", note);
  };
  add("Modes", mode_table(results), mode_table_notes());
  add("Link", link_table(results), link_table_notes());
  return text;
}

/// gnuplot's file from <svg> on. Its ids get a prefix, because two charts share the page.
std::string chart_html(const fs::path& path, const std::string& prefix, const std::string& label) {
  std::ifstream file(path);
  const std::string svg((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t begin = svg.find("<svg");
  if (begin == std::string::npos) return "";
  static const std::regex ids(R"re((\bid=["']|href=["']#|url\(#))re");
  return concat("<div class=\"chart\" role=\"img\" aria-label=\"", html_text(label), "\">\n",
                std::regex_replace(svg.substr(begin), ids, "$1" + prefix + "-"), "</div>\n");
}

std::string legend_html() {
  const auto entry = [](const std::string& name, const std::string& text) {
    return concat("<span><svg viewBox=\"0 0 12 12\"><rect class=\"", name, "\" width=\"12\" height=\"12\"/></svg>",
                  text, "</span>\n");
  };
  std::string text = "<div class=\"legend\">";
  for (const std::string name : kPhaseNames) text += entry(name, name == "host_to_device" ? "host to device" : name);
  return text + entry("even", "a batch being made") + entry("odd", "the next batch") + entry("gap", "between steps") +
         "</div>\n";
}

std::string timeline_html(const RowResult& row, const std::string& mark) {
  std::string text = concat("<section class=\"row\">\n", element("h3", row_text(row.row)), element("p", row.sentence));
  if (row.other_cores > 0) text += element("p class=\"quiet\"", others_text(row));
  try {
    Timeline timeline = read_timeline(row.folder / "trace.json");
    if (row.row.workers == 0)
      for (auto& lane : timeline.lanes)
        if (lane.name != "trainer") lane.name = "load, same thread";
    text += timeline_svg(timeline) + element("p class=\"quiet\"", timeline_text(timeline) + mark);
  } catch (const Error& error) {
    text += element("p class=\"quiet\"", concat("no timeline: ", error.what()));
  }
  try {
    text += gpu_chart(row.folder / "gpu.csv");
  } catch (const Error& error) {
    text += element("p class=\"quiet\"", concat("no chart of the GPU: ", error.what()));
  }
  return text + "</section>\n";
}

}  // namespace

std::string page(const StudyResults& results, const fs::path& out, const std::string& charts_note) {
  const std::string mark = results.is_emulated ? " [emulated]" : "";
  std::string text =
      concat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
             element("title", "Worker study" + mark), "<style>", kStyle, "</style>\n</head>\n<body>\n",
             "<h1>Worker study", results.is_emulated ? " <span class=\"emulated\">[emulated]</span>" : "", "</h1>\n",
             element("pre", results.command), element("p", results.setting), "<ul>\n");
  for (const auto& line : findings(results)) text += element("li", line);
  text += "</ul>\n" + tables_html(results, mark);
  text += element("h2", "Charts" + mark);
  if (!charts_note.empty()) text += element("p", charts_note);
  text += chart_html(out / "chart-total.svg", "total", "total training time of every row, measured and predicted");
  if (!mode_table(results).rows.empty())
    text += chart_html(out / "chart-modes.svg", "modes", "speed-up of every mode over single");
  text += chart_html(out / "chart-stages.svg", "stages", "load and update per batch of every row");
  text += element("h2", "Timelines" + mark) + legend_html();
  for (const auto& row : results.rows) text += timeline_html(row, mark);
  return text + "</body>\n</html>\n";
}

}  // namespace penstock
