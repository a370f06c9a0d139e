// ViewColumns: the makers of a loader's columns, and the view whose plan each of them follows.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "loader/rows/column.h"

namespace penstock::detail {

struct ViewColumns {
  std::unique_ptr<const ColumnMaker> maker;
  size_t view = 0;
  std::vector<Column> columns = {};  // of the maker; those of view 1 are called view1.NAME
};

std::string view_name(size_t view);  ///< "view1": the column of its pictures.

/// The makers that the specs in `columns` name. All of them take the key `view`, the number of the view that they
/// follow: 0, if it is not given. `views`: one entry per view. Throws config_error.
std::vector<ViewColumns> make_view_columns(const std::string& columns, const std::vector<ColumnContext>& views);

}  // namespace penstock::detail
