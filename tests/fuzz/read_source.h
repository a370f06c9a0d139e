// read_source(): what the fuzz targets of sources ask of every sample that can be read.
#pragma once

#include <cstdlib>

#include "loader/sources/source.h"

namespace penstock::fuzzing {

/// Reads all samples, and ends the process where one has a class that there is not, or not the fields that the source
/// says. Throws what read() throws.
inline void read_source(const Source& source) {
  const auto types = source.fields();
  const auto names = source.class_names();
  for (uint64_t i = 0; i < source.size(); ++i) {
    if (!names.empty() && static_cast<uint64_t>(source.label(i)) >= names.size()) std::abort();
    const auto sample = source.read(i);
    if (sample.fields.size() != types.size()) std::abort();
    for (size_t field = 0; field < types.size(); ++field)
      check_field_value(types[field], sample.fields[field], sample.extent.height, sample.extent.width);
  }
}

}  // namespace penstock::fuzzing
