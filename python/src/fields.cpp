// Types of fields: there and back.
#include "python/src/fields.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace penstock::python {

namespace nb = nanobind;

nb::list field_tuples(const std::vector<FieldType>& fields) {
  nb::list tuples;
  for (const auto& type : fields)
    tuples.append(nb::make_tuple(type.name, field_kind_name(type.kind), dtype_name(type.dtype), type.shape, type.of,
                                 type.fill, type.swapped, type.names));
  return tuples;
}

std::vector<FieldType> fields_of_tuples(const nb::list& tuples) {
  std::vector<FieldType> fields;
  for (const nb::handle tuple : tuples) {
    const auto name = nb::cast<std::string>(tuple[0]);
    const auto kind = nb::cast<std::string>(tuple[1]), dtype = nb::cast<std::string>(tuple[2]);
    const auto found_kind = field_kind_of_name(kind);
    const auto found_dtype = dtype_of_name(dtype);
    if (!found_kind || !found_dtype)
      throw config_error(concat("pack: field ", in_quotes(name), " is ", kind, " of ", dtype,
                                "; expected a kind: number, ",
                                "text, bytes, labels, boxes, keypoints, mask, instances or picture"));
    fields.push_back({.name = name,
                      .kind = *found_kind,
                      .dtype = *found_dtype,
                      .shape = nb::cast<std::vector<int64_t>>(tuple[3]),
                      .of = nb::cast<std::string>(tuple[4]),
                      .fill = nb::cast<double>(tuple[5]),
                      .swapped = nb::cast<std::optional<std::vector<std::pair<int, int>>>>(tuple[6]),
                      .names = nb::cast<std::vector<std::string>>(tuple[7])});
  }
  return fields;
}

}  // namespace penstock::python
