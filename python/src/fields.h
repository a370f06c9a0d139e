// Types of fields as tuples of Python: (name, kind, dtype, shape, of, fill, swapped, names).
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "loader/files/field.h"

namespace penstock::python {

nanobind::list field_tuples(const std::vector<FieldType>& fields);
/// Throws config_error for a kind or dtype that is none.
std::vector<FieldType> fields_of_tuples(const nanobind::list& tuples);

}  // namespace penstock::python
