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

/// An error of libjpeg, and also a warning, ends the call by longjmp to `jump`, with `message` set. The one exception
/// is the warning about an unknown revision of JFIF, which says nothing about the picture. (The warning about bytes
/// left over before EOI does count: a flipped bit in a scan mostly leaves such bytes.) The jump must not skip
/// destructors. libjpeg is therefore called in functions that hold no objects with destructors and that return false
/// when setjmp(errors.jump) reports that the call failed.
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
    if (level < 0 && info->err->msg_code != JWRN_JFIF_MAJOR) fail(info);
  }
};

}  // namespace penstock::detail
