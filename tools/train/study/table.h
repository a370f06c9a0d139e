// Table: the rows of a study as cells, Markdown and CSV.
#pragma once

#include <string>
#include <vector>

#include "tools/train/study/results.h"

namespace penstock {

struct Cell {
  std::string value;
  std::string range;  ///< "34.1-36.2" over repeats, or "".
};
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
};

/// A row's last cell says whether its times are `measured` or `emulated`.
Table table_of(const StudyResults& results);
/// What the columns mean, a sentence each.
std::vector<std::string> table_notes(const StudyResults& results);

std::string markdown_table(const StudyResults& results);
std::string markdown(const StudyResults& results);  ///< study.md
std::string csv(const StudyResults& results);       ///< study.csv: full precision, ranges in columns of their own.

}  // namespace penstock
