// Table: the rows of a study as cells, Markdown and CSV.
#pragma once

#include <string>
#include <vector>

#include "tools/train/study/results.h"

namespace penstock {

struct Cell {
  std::string value;
  std::string range;  ///< The range over the repeats, "34.1-36.2", or "".
};
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
};

/// The last cell of each row says whether its times are `measured` or `emulated`.
Table table_of(const StudyResults& results);
/// Sentences that say what the columns mean.
std::vector<std::string> table_notes(const StudyResults& results);

std::string markdown_table(const Table& table);
std::string markdown(const StudyResults& results);  ///< study.md
std::string csv(const StudyResults& results);  ///< study.csv: with more digits, and ranges in columns of their own.

}  // namespace penstock
