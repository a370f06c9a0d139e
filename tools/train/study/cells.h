// Cells: a table of texts, before it becomes Markdown, CSV or a page.
#pragma once

#include <string>
#include <vector>

namespace penstock {

struct Cell {
  std::string value;
  std::string range;  ///< The range over the repeats, "34.1-36.2", or "".
};
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
};

std::string markdown_table(const Table& table);

}  // namespace penstock
