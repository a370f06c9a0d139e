// Page: the values that the script of page.html draws, as JSON.
#include "tools/train/study/page.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_text.h"
#include "tools/train/study/link_table.h"
#include "tools/train/study/mode_table.h"
#include "tools/train/study/table.h"
#include "tools/train/study/timeline.h"

namespace penstock {
namespace {

using Json = nlohmann::json;

/// `groups`: one entry per row; a line is drawn where the group changes.
Json table_json(const std::string& heading, const Table& table, const std::vector<int>& groups,
                const std::vector<std::string>& notes) {
  Json rows = Json::array();
  for (const auto& row : table.rows) {
    rows.push_back(Json::array());
    for (const auto& cell : row) rows.back().push_back({cell.value, cell.range});
  }
  return {{"heading", heading}, {"columns", table.columns}, {"rows", rows}, {"groups", groups}, {"notes", notes}};
}

Json tables_json(const StudyResults& results) {
  std::vector<int> groups;
  for (const auto& row : results.rows) groups.push_back(row.row.group);
  Json tables = {table_json("", table_of(results), groups, table_notes(results))};
  const auto add = [&](const char* heading, const Table& table, const std::vector<std::string>& notes) {
    if (!table.rows.empty()) tables.push_back(table_json(heading, table, std::vector<int>(table.rows.size()), notes));
  };
  add("Modes", mode_table(results), mode_table_notes());
  add("Link", link_table(results), link_table_notes());
  return tables;
}

/// What `read` returns, or a text that says why there is none.
Json value_or_reason(const std::string& what, const std::function<Json()>& read) {
  try {
    return read();
  } catch (const Error& error) {
    return "no " + what + ": " + error.what();
  }
}

Json row_json(const RowResult& row) {
  const Spread& total = row.total_s;
  return {{"name", row_text(row.row)},
          {"group_name", group_text(row.row)},
          {"group", row.row.group},
          {"workers", row.row.workers},
          {"load_ms", row.load_ms.median},
          {"update_ms", row.update_ms.median},
          {"total_s", {total.median, total.low, total.high}},
          {"predicted_s", row.predicted_s ? Json(*row.predicted_s) : Json()},
          {"sentence", row.sentence},
          {"others", row.other_cores > 0 ? others_text(row) : ""},
          {"timeline", value_or_reason("timeline", [&] { return read_timeline(row.folder / "trace.json"); })},
          {"gpu", value_or_reason("chart of the GPU", [&] { return read_gpu_use(row.folder / "gpu.csv"); })}};
}

}  // namespace

std::string page(const StudyResults& results) {
  Json rows = Json::array(), speeds = Json::array();
  for (const auto& row : results.rows) rows.push_back(row_json(row));
  for (const auto& [name, factor] : speed_ups(results)) speeds.push_back({name, factor});
  const std::string text = json_text(Json{{"mark", results.is_emulated ? " [emulated]" : ""},
                                          {"command", results.command},
                                          {"setting", results.setting},
                                          {"repeat_count", results.repeat_count},
                                          {"findings", findings(results)},
                                          {"tables", tables_json(results)},
                                          {"speed_ups", speeds},
                                          {"rows", rows}});
  std::string value;
  for (const char c : text) c == '<' ? value += "\\u003c" : value += c;  // no tag in a value ends the script element
  std::string page(kPageTemplate);
  constexpr std::string_view kPlace = ">STUDY<";
  return page.replace(page.find(kPlace) + 1, kPlace.size() - 2, value);
}

}  // namespace penstock
