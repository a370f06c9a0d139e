// ViewColumns: the key `view` is taken out of a spec before its maker sees it.
#include "loader/rows/view_columns.h"

#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

size_t view_in(const Spec& spec, size_t view_count) {
  const int view = spec.get("view", 0);
  if (view < 0 || static_cast<size_t>(view) >= view_count)
    throw config_error(concat("column ", spec.text(), ": view is ", view, "; expected 0 to ", view_count - 1,
                              ", the number of a view; 0 is that of images"));
  return static_cast<size_t>(view);
}

}  // namespace

std::string view_name(size_t view) { return concat("view", view); }

std::vector<ViewColumns> make_view_columns(const std::string& columns, const std::vector<ColumnContext>& views) {
  std::vector<ViewColumns> makers;
  for (const Spec& spec : parse_spec_list(ColumnKind::kName, columns)) {
    ViewColumns made{.maker = nullptr, .view = view_in(spec, views.size())};
    made.maker = ColumnRegistry::make(spec.without("view"), views[made.view]);
    made.columns = made.maker->columns();
    const size_t count = made.columns.size();
    if (count < 1 || count > ColumnMaker::kMostColumns)
      throw bug_error(concat("columns: a maker has ", count, "; expected 1 to ", ColumnMaker::kMostColumns));
    if (made.view > 0)
      for (auto& column : made.columns) column.name = concat(view_name(made.view), ".", column.name);
    makers.push_back(std::move(made));
  }
  return makers;
}

}  // namespace penstock::detail
