// Plan table: cells and JSON.
#include "tools/train/plan/plan_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "core/number_text.h"
#include "core/text.h"

namespace penstock {
namespace {

std::string line_of(const std::vector<std::string>& cells) { return concat("| ", join(cells, " | "), " |\n"); }

std::string whole(double value) { return printed("%.0f", value); }

}  // namespace

double fullest_rank_bytes(const detail::Prediction& prediction) {
  return *std::max_element(prediction.rank_bytes.begin(), prediction.rank_bytes.end());
}

std::string step_text(double seconds) {
  return seconds < 0.1 ? printed("%.2f ms", 1e3 * seconds) : printed("%.3f s", seconds);
}

std::string plan_table(const std::vector<PlanRow>& rows, int64_t batch_size, bool has_limit) {
  std::vector<std::string> head{"mode",      "ranks",
                                "threads",   "workers",
                                "a step",    "images/s",
                                "bubble",    "exposed communication",
                                "load wait", "memory of the fullest rank"};
  if (has_limit) head.push_back("fits");
  std::string text = line_of(head) + "|---" + [&] {
    std::string ruler;
    for (size_t i = 1; i < head.size(); ++i) ruler += "|---:";
    return ruler;
  }() + "|\n";
  for (const auto& row : rows) {
    std::vector<std::string> cells{row.mode, std::to_string(row.ranks), std::to_string(row.threads),
                                   std::to_string(row.workers)};
    if (row.prediction) {
      const auto& one = *row.prediction;
      cells.insert(cells.end(),
                   {step_text(one.step_seconds), whole(static_cast<double>(batch_size) / one.step_seconds),
                    percent_text(one.bubble), percent_text(one.exposed_communication), percent_text(one.load_wait),
                    byte_text(static_cast<uint64_t>(fullest_rank_bytes(one)))});
    } else {
      cells.insert(cells.end(), {"no prediction", "-", "-", "-", "-", "-"});
    }
    if (has_limit) cells.push_back(!row.prediction ? "-" : row.fits ? "yes" : "no");
    text += line_of(cells);
  }
  return text;
}

std::string plan_json(const std::vector<PlanRow>& rows, const std::string& setting) {
  nlohmann::ordered_json json{{"setting", setting}, {"rows", nlohmann::ordered_json::array()}};
  for (const auto& row : rows) {
    nlohmann::ordered_json one{
        {"mode", row.mode}, {"ranks", row.ranks}, {"threads", row.threads}, {"workers", row.workers}};
    if (row.prediction) {
      one["step_seconds"] = row.prediction->step_seconds;
      one["bubble"] = row.prediction->bubble;
      one["exposed_communication"] = row.prediction->exposed_communication;
      one["load_wait"] = row.prediction->load_wait;
      one["rank_bytes"] = row.prediction->rank_bytes;
      one["fits"] = row.fits;
    }
    json["rows"].push_back(std::move(one));
  }
  return json_text(json, 2) + "\n";
}

}  // namespace penstock
