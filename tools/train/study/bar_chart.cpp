// Bar chart: places, names of several lines, and a block of numbers.
#include "tools/train/study/bar_chart.h"

#include <algorithm>
#include <utility>

#include "core/text.h"

namespace penstock {
namespace {

constexpr size_t kNameWidth = 36;  // characters of a line, about a third of the picture
constexpr double kLinePixels = 15, kBarPixels = 20, kFramePixels = 130;

/// The lines of a name, broken after commas.
std::vector<std::string> lines_of(const std::string& name) {
  std::vector<std::string> lines{""};
  for (const auto& piece : split(name, ',')) {
    const std::string text = lines.size() == 1 && lines[0].empty() ? piece : "," + piece;
    if (!lines.back().empty() && lines.back().size() + text.size() > kNameWidth) {
      lines.back() += ',';
      lines.push_back(piece.substr(piece.find_first_not_of(' ')));
    } else {
      lines.back() += text;
    }
  }
  return lines;
}

/// A string of gnuplot in which a line ends at \n.
std::string quoted_lines(const std::vector<std::string>& lines) {
  std::string result = "\"";
  for (const char c : join(lines, "\n"))
    result += c == '\n' ? "\\n" : c == '"' || c == '\\' ? concat('\\', c) : std::string(1, c);
  return result + "\"";
}

/// Where each row lies, from the top, in rows. Groups stand apart, unless each is one row.
std::vector<double> places_of(const std::vector<BarRow>& rows) {
  const auto is_alike = [](const BarRow& a, const BarRow& b) { return a.group == b.group; };
  const bool has_groups = std::adjacent_find(rows.begin(), rows.end(), is_alike) != rows.end();
  std::vector<double> places;
  for (size_t i = 0; i < rows.size(); ++i)
    places.push_back(i == 0 ? 0 : places.back() + (has_groups && !is_alike(rows[i], rows[i - 1]) ? 1.4 : 1));
  return places;
}

/// Place, low, high, text, and where each part begins and ends.
std::string data_block(const BarChart& chart, const std::vector<double>& places) {
  std::string text = concat("$", chart.name, " << EOD\n");
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    const auto& row = chart.rows[i];
    text += concat(places[i], ' ', row.low, ' ', row.high, ' ', row.text);
    double end = 0;
    for (const double part : row.parts) text += concat(' ', std::exchange(end, end + part), ' ', end + part);
    text += '\n';
  }
  return text + "EOD\n";
}

/// `half`: of the thickness of a bar, in rows.
std::string plot(const BarChart& chart, double half) {
  const std::string block = concat("$", chart.name, " using ");
  std::vector<std::string> plots;
  for (size_t part = 0; part < chart.parts.size(); ++part) {
    const size_t begin = 5 + 2 * part, end = begin + 1;
    plots.push_back(concat(block, end, ":1:", begin, ":", end, ":($1 - ", half, "):($1 + ", half,
                           ") with boxxyerror lc rgb '", chart.parts[part].second, "' title ",
                           gnuplot_quoted(chart.parts[part].first)));
  }
  const size_t last = 4 + 2 * chart.parts.size();
  const auto has_range = [](const BarRow& row) { return row.low != row.high; };
  if (std::any_of(chart.rows.begin(), chart.rows.end(), has_range))
    plots.push_back(concat(block, last, ":1:2:3 with xerrorbars lc rgb '#1c1c1c' lw 1.5 pt -1 title ''"));
  plots.push_back(concat(block, "($3 > $", last, " ? $3 : $", last, "):1:4 with labels left offset 0.8,0 title ''"));
  return "plot " + join(plots, ", \\\n  ") + "\n";
}

}  // namespace

std::string open_chart(const std::string& name, bool is_svg, int height) {
  // The PNG has half as many pixels again.
  const std::string size = is_svg ? concat("svg size 820,", height, " dynamic name '", name,
                                           "' background rgb 'white' font 'DejaVu Sans,12'")
                                  : concat("pngcairo size 1230,", height * 3 / 2, " font 'DejaVu Sans,13'");
  return concat("reset\nset terminal ", size, " noenhanced\nset output 'chart-", name, is_svg ? ".svg" : ".png",
                "'\nset border 3\nset tics nomirror out\nset grid ytics lc rgb '#dddddd' lt 1\n");
}

std::string gnuplot_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("''") : std::string(1, c);
  return result + "'";
}

std::string gnuplot_bars(const BarChart& chart) {
  const auto places = places_of(chart.rows);
  std::vector<std::string> tics;
  size_t most_lines = 1;
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    const auto lines = lines_of(chart.rows[i].name);
    most_lines = std::max(most_lines, lines.size());
    tics.push_back(concat(quoted_lines(lines), ' ', places[i]));
  }
  const auto row_height = static_cast<double>(most_lines + 1) * kLinePixels;
  const auto height = static_cast<int>(kFramePixels + (places.back() + 1) * row_height);
  const bool has_key =
      std::any_of(chart.parts.begin(), chart.parts.end(), [](const auto& part) { return !part.first.empty(); });
  std::string text = data_block(chart, places);
  for (const bool is_svg : {true, false})
    text += concat(open_chart(chart.name, is_svg, height), "set title ", gnuplot_quoted(chart.title), "\nset xlabel ",
                   gnuplot_quoted(chart.axis), "\nset xrange [0:*]\nset grid noytics xtics\nset yrange [",
                   places.back() + 0.6, ":-0.6]\nset ytics (", join(tics),
                   ") scale 0\nset rmargin 12\nset bars 0.6\nset style fill solid noborder\n",
                   has_key ? "set key outside top center horizontal\n" : "set key off\n",
                   chart.mark > 0 ? concat("set arrow from ", chart.mark, ",graph 0 to ", chart.mark,
                                           ",graph 1 nohead dt 2 lc rgb '#555555'\n")
                                  : "",
                   plot(chart, kBarPixels / 2 / row_height));
  return text;
}

}  // namespace penstock
