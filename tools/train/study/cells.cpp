// Cells: as Markdown.
#include "tools/train/study/cells.h"

#include "core/text.h"

namespace penstock {

std::string markdown_table(const Table& table) {
  std::string text = "| " + join(table.columns, " | ") + " |\n|";
  for (size_t i = 0; i < table.columns.size(); ++i) text += i == 0 || i + 1 == table.columns.size() ? "---|" : "---:|";
  for (const auto& row : table.rows) {
    text += "\n|";
    for (const auto& cell : row)
      text += concat(" ", cell.value, cell.range.empty() ? "" : " (" + cell.range + ")", " |");
  }
  return text + "\n";
}

}  // namespace penstock
