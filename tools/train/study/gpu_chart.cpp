// GPU chart: one line for the share of time in which kernels ran, one for the share of the memory that was taken.
#include "tools/train/study/gpu_chart.h"

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "core/number_text.h"
#include "core/regular_file.h"
#include "core/text.h"
#include "tools/train/study/html_text.h"

namespace penstock {
namespace {

constexpr double kChartWidth = 1080, kChartHeight = 90, kChartLeft = 96;

struct GpuRow {
  double step = 0, seconds = 0, busy_percent = 0, memory_busy_percent = 0, memory_bytes = 0, total_bytes = 0;
};

std::vector<GpuRow> read_gpu_rows(const std::filesystem::path& csv) {
  std::istringstream file(read_text(csv, kMostOfLog));
  std::string line;
  std::getline(file, line);  // the names of the columns
  std::vector<GpuRow> rows;
  while (std::getline(file, line)) {
    GpuRow row;
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream words(line);
    if (!(words >> row.step >> row.seconds >> row.busy_percent >> row.memory_busy_percent >> row.memory_bytes >>
          row.total_bytes) ||
        row.total_bytes <= 0)
      throw corrupt_error(concat(csv.string(), ": row ", rows.size() + 1, " is ", in_quotes(line),
                                 "; expected a step, seconds, two shares in percent and two numbers of bytes"));
    // A run that went on counts its seconds from 0 again.
    if (!rows.empty() && row.seconds < rows.back().seconds) rows.clear();
    rows.push_back(row);
  }
  return rows;
}

std::string polyline(const std::vector<GpuRow>& rows, const char* name, double (*percent)(const GpuRow&)) {
  const double first = rows.front().seconds, span = std::max(rows.back().seconds - first, 1e-3);
  std::string points;
  for (const auto& row : rows) {
    char point[64];
    std::snprintf(point, sizeof point, "%.1f,%.1f ",
                  kChartLeft + (row.seconds - first) / span * (kChartWidth - kChartLeft),
                  kChartHeight * (1 - percent(row) / 100));
    points += point;
  }
  return concat("<polyline class=\"", name, "\" points=\"", points, "\"/>\n");
}

}  // namespace

std::string gpu_chart(const std::filesystem::path& csv) {
  std::error_code failure;
  if (!std::filesystem::exists(csv, failure)) return "";
  const auto rows = read_gpu_rows(csv);
  if (rows.empty()) return "";
  double busy = 0, most = 0;
  for (const auto& row : rows) {
    busy += row.busy_percent / static_cast<double>(rows.size());
    most = std::max(most, row.memory_bytes);
  }
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f s", rows.back().seconds - rows.front().seconds);
  const std::string text = concat("GPU: busy ", percent_text(busy / 100), " of ", seconds, ", at most ",
                                  byte_text(static_cast<uint64_t>(most)), " of ",
                                  byte_text(static_cast<uint64_t>(rows.front().total_bytes)), " taken");
  return concat("<svg class=\"timeline gpu\" viewBox=\"0 -4 ", kChartWidth, " ", kChartHeight + 8,
                "\" role=\"img\" aria-label=\"", html_text(text), "\">\n<rect class=\"lane\" x=\"", kChartLeft,
                "\" y=\"0\" width=\"", kChartWidth - kChartLeft, "\" height=\"", kChartHeight, "\"/>\n",
                "<text class=\"name\" x=\"", kChartLeft - 6, "\" y=\"12\">GPU busy</text>\n",
                "<text class=\"name full\" x=\"", kChartLeft - 6, "\" y=\"28\">memory taken</text>\n",
                polyline(rows, "busy", [](const GpuRow& row) { return row.busy_percent; }),
                polyline(rows, "full", [](const GpuRow& row) { return 100 * row.memory_bytes / row.total_bytes; }),
                "</svg>\n<p class=\"quiet\">", html_text(text), "</p>\n");
}

}  // namespace penstock
