// check_scans(): checks that the scans of a JPEG gave the whole picture. Included by the .cpp files that call libjpeg.
#pragma once

#include "core/error.h"
#include "core/text.h"
#include "loader/jpeg/base/libjpeg_errors-inl.h"

namespace penstock::detail {

/// Throws corrupt_error when a component has no scan, or when the scans of a progressive picture left out a coefficient
/// or the last bits of one. libjpeg does not warn about this. It takes missing coefficients for zeros, and smooths the
/// blocks when it decodes to pixels but not when it gives coefficients. Without this check the pixels would depend on
/// how the picture is stored and on the version of libjpeg.
///
/// Requires that all scans have been read: jpeg_start_decompress() or jpeg_read_coefficients() has returned.
inline void check_scans(const jpeg_decompress_struct& info) {
  const auto fail = [&](int component, const std::string& missing) {
    throw corrupt_error(concat("JPEG: no scan has ", missing, "component ", component + 1, " of ", info.num_components,
                               "; expected a whole picture"));
  };
  for (int i = 0; i < info.num_components; ++i) {
    // The first scan of a component sets its quantisation table.
    if (info.comp_info[i].quant_table == nullptr) fail(i, "");
    if (info.coef_bits == nullptr) continue;  // not progressive: each scan has all coefficients
    for (int k = 0; k < DCTSIZE2; ++k) {
      const int bits_left = info.coef_bits[i][k];  // below 0: all of them are missing
      if (bits_left != 0) fail(i, concat(bits_left < 0 ? "" : "the last bits of ", "coefficient ", k, " of "));
    }
  }
}

}  // namespace penstock::detail
