// read_from(): runs code that reads a memory map, and then asks whether all that was read came from the file.
#pragma once

#include "core/error.h"

namespace penstock {

/// Runs `body`, which reads what `reader` (Dataset, ShardReader) has mapped of sample `where`. When the file could not
/// be read, because it was cut short or the disk fails, `body` saw zeros. Then this throws io_error, in place of any
/// Error that these zeros caused.
template <class Reader, class Where, class Body>
void read_from(const Reader& reader, Where where, const Body& body) {
  try {
    body();
  } catch (const Error&) {
    reader.check_file(where);
    throw;
  }
  reader.check_read(where);
}

/// The same for a whole file (Safetensors).
template <class Reader, class Body>
void read_from(const Reader& reader, const Body& body) {
  try {
    body();
  } catch (const Error&) {
    reader.check_file();
    throw;
  }
  reader.check_read();
}

}  // namespace penstock
