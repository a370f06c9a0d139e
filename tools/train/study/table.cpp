// Table: the cells, and the table as Markdown and CSV.
#include "tools/train/study/table.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "core/text.h"
#include "tools/train/study/mode_table.h"

namespace penstock {
namespace {

/// `value` with the decimals that suit `size`: "0.031", "5.21", "72.8".
std::string number(double value, double size) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", size < 1 ? 3 : size < 10 ? 2 : 1, value);
  return text;
}

Cell cell(const Spread& spread, int repeat_count) {
  const auto text = [&](double value) { return number(value, spread.median); };
  return {text(spread.median), repeat_count > 1 ? concat(text(spread.low), "-", text(spread.high)) : ""};
}

Cell percent_cell(const Spread& share, int repeat_count) {
  const auto text = [](double value) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.2f", 100 * value);
    return std::string(buffer);
  };
  return {text(share.median) + " %", repeat_count > 1 ? concat(text(share.low), "-", text(share.high)) : ""};
}

/// The prediction, with its range if it has one.
Cell predicted_cell(const RowResult& one) {
  if (!one.predicted_s) return {"-", ""};
  const auto text = [&](double value) { return number(value, one.total_s.median); };
  const bool has_range = one.predicted_high_s > 1.02 * one.predicted_low_s;
  return {text(*one.predicted_s), has_range ? concat(text(one.predicted_low_s), "-", text(one.predicted_high_s)) : ""};
}

std::string error_text(double error) {
  char text[32];
  std::snprintf(text, sizeof text, "%+.1f %%", 100 * error);
  return text;
}

constexpr int kStorageColumn = 5;  // after "load ms per batch"

/// Whether the loader of any row waited for the storage for a hundredth of the training or more.
bool waits_for_storage(const StudyResults& results) {
  return std::any_of(results.rows.begin(), results.rows.end(), [](const RowResult& row) {
    return row.storage_ms.median > 0.01 * (row.load_ms.median + row.update_ms.median);
  });
}

const char* kind(const StudyResults& results) { return results.is_emulated ? "emulated" : "measured"; }

/// `text` as a field of CSV (RFC 4180): in quotation marks if it holds a comma, a quotation mark or a line end.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? std::string("\"\"") : std::string(1, c);
  return field + "\"";
}

}  // namespace

Table table_of(const StudyResults& results) {
  Table table{{"mode", "ranks", "augment", "workers", "load ms per batch", "update ms per batch", "total s", "accuracy",
               "predicted s", "error", "times"},
              {}};
  const int repeats = results.repeat_count;
  const bool has_storage = waits_for_storage(results);
  if (has_storage) table.columns.insert(table.columns.begin() + kStorageColumn, "storage ms per batch");
  for (const auto& one : results.rows) {
    const auto error = one.error();
    table.rows.push_back({{one.row.mode, ""},
                          {std::to_string(one.row.ranks), ""},
                          {one.row.is_augmented ? "on" : "off", ""},
                          {std::to_string(one.row.workers), ""},
                          cell(one.load_ms, repeats),
                          cell(one.update_ms, repeats),
                          cell(one.total_s, repeats),
                          one.accuracy ? percent_cell(*one.accuracy, repeats) : Cell{"-", ""},
                          predicted_cell(one),
                          {error ? error_text(*error) : "-", ""},
                          {kind(results), ""}});
    auto& row = table.rows.back();
    if (has_storage) row.insert(row.begin() + kStorageColumn, cell(one.storage_ms, repeats));
  }
  return table;
}

std::vector<std::string> table_notes(const StudyResults& results) {
  std::vector<std::string> notes{
      "load is the time that the trainer waited for a batch, update is the rest of the step; total is the training "
      "without the start and the evaluations.",
      "predicted is the total that the first row of the same mode, ranks and augment predicted for this row; for the "
      "first row, the one that the second row predicted. error is predicted / measured - 1. predicted has a range if "
      "other programs used the cores or the storage could not be measured."};
  if (waits_for_storage(results))
    notes.emplace_back(
        "storage is the time that the loader's threads waited for pages of the data, summed over the threads.");
  if (results.repeat_count > 1) {
    notes.push_back(concat("Medians of ", results.repeat_count,
                           " runs, with the range. The runs were interleaved: every row once, then every row again."));
  }
  if (results.is_emulated)
    notes.push_back(
        "Times are emulated: a wait stands for the device or for a slower network, or wasted processor time stands for "
        "a "
        "slower loader.");
  return notes;
}

std::string markdown(const StudyResults& results) {
  const std::string mark = results.is_emulated ? " [emulated]" : "";
  std::string text = concat("# Worker study", mark, "\n\n    ", results.command, "\n\n", results.setting, "\n\n",
                            markdown_table(table_of(results)), "\n");
  for (const auto& line : findings(results)) text += concat("- ", line, "\n");
  text += "\n";
  for (const auto& note : table_notes(results)) text += concat(note, "\n");
  if (const Table modes = mode_table(results); !modes.rows.empty()) {
    text += concat("\n## Modes", mark, "\n\n", markdown_table(modes), "\n");
    for (const auto& note : mode_table_notes()) text += concat(note, "\n");
  }
  text += concat("\n## What limited each row", mark, "\n\n");
  for (const auto& row : results.rows) text += concat("- ", row_text(row.row), ": ", row.sentence, "\n");
  return text;
}

std::string csv(const StudyResults& results) {
  std::ostringstream text;
  text.precision(9);
  text << "mode,ranks,augment,workers";
  for (const char* name : {"load_ms", "update_ms", "total_s", "accuracy", "storage_ms"})
    text << ',' << name << ',' << name << "_low," << name << "_high";
  text << ",predicted_s,predicted_s_low,predicted_s_high,error,other_cores,times\r\n";
  for (const auto& one : results.rows) {
    text << csv_field(one.row.mode) << ',' << one.row.ranks << ',' << (one.row.is_augmented ? "on" : "off") << ','
         << one.row.workers;
    const auto put = [&](const Spread& spread) {
      text << ',' << spread.median << ',' << spread.low << ',' << spread.high;
    };
    put(one.load_ms);
    put(one.update_ms);
    put(one.total_s);
    one.accuracy ? put(*one.accuracy) : void(text << ",,,");
    put(one.storage_ms);
    text << ',';
    if (one.predicted_s) text << *one.predicted_s << ',' << one.predicted_low_s << ',' << one.predicted_high_s;
    if (!one.predicted_s) text << ",,";
    text << ',';
    if (const auto error = one.error()) text << *error;
    text << ',' << one.other_cores << ',' << kind(results) << "\r\n";
  }
  return text.str();
}

}  // namespace penstock
