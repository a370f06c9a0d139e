// print_fields(): what `info` says of the fields of a data set.
#pragma once

#include "loader/shards/dataset.h"

namespace penstock {

/// A line per field: kind, dtype and shape, and the least, mean and greatest of its numbers or, of a variable one, how
/// many entries there are. Reads all values of numbers. Throws what Dataset::field() does.
void print_fields(const Dataset& dataset);

}  // namespace penstock
