// Local fingerprint: a fingerprint while file_fingerprint() is strict.
#include "loader/sources/local_fingerprint.h"

#include "loader/files/input_file.h"
#include "loader/sources/source.h"

namespace penstock {

std::string local_fingerprint(const Source& source) {
  const detail::StrictFingerprints strict;
  return source.fingerprint();
}

}  // namespace penstock
