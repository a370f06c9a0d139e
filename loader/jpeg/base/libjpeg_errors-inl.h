// LibjpegErrors: turns what libjpeg reports into a message and a jump. Included by the .cpp files that call libjpeg.
#pragma once

#include <csetjmp>
#include <cstdio>
#include <new>

#include "core/error.h"
#include "core/text.h"

// After <cstdio>, because it uses FILE and size_t without including anything.
#include <jpeglib.h>
// After <jpeglib.h>, because it uses its types.
#include <jerror.h>

namespace penstock::detail {

/// Whether the warning that libjpeg has just given changes no pixel. parse_jpeg_header() takes the same headers.
inline bool is_harmless_warning(j_common_ptr info) {
  switch (info->err->msg_code) {
    case JWRN_JFIF_MAJOR:      // an unknown revision of JFIF
    case JWRN_ADOBE_XFORM:     // an unknown colour transform in APP14: libjpeg takes YCbCr, or YCCK with 4 components
    case JWRN_NOT_SEQUENTIAL:  // Ss, Se, Ah and Al of a sequential scan, which have one sensible value and are not used
      return true;
    case JWRN_EXTRANEOUS_DATA:
      // Bytes before a marker where one is due. After the first scan they count: a flipped bit in a scan mostly leaves
      // such bytes.
      return info->is_decompressor && reinterpret_cast<j_decompress_ptr>(info)->input_scan_number == 0;
    default:
      return false;
  }
}

/// An error of libjpeg, and also a warning that is not harmless, ends the call by longjmp to `jump`, with `message`
/// set. The jump must not skip destructors. libjpeg is therefore called in functions that hold no objects with
/// destructors and that return false when setjmp(errors.jump) reports that the call failed.
struct LibjpegErrors {
  jpeg_error_mgr manager{};  // must be first, because libjpeg gives back a pointer to it
  std::jmp_buf jump{};
  char message[JMSG_LENGTH_MAX]{};

  LibjpegErrors() {
    jpeg_std_error(&manager);
    manager.error_exit = fail;
    manager.emit_message = on_message;
  }

  static LibjpegErrors& of(j_common_ptr info) { return *reinterpret_cast<LibjpegErrors*>(info->err); }

  [[noreturn]] static void fail(j_common_ptr info) {
    info->err->format_message(info, of(info).message);
    std::longjmp(of(info).jump, 1);
  }

  /// Throws the error of a failed call. A lack of memory is not a fault of the picture, and is thrown as
  /// std::bad_alloc.
  [[noreturn]] void raise() const {
    if (manager.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
    throw corrupt_error(concat("JPEG: ", message, "; expected a whole picture"));
  }

 private:
  static void on_message(j_common_ptr info, int level) {
    // A level below 0 is a warning, the others are traces.
    if (level < 0 && !is_harmless_warning(info)) fail(info);
  }
};

}  // namespace penstock::detail
