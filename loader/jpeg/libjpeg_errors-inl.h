// LibjpegErrors: what libjpeg reports, as a message and a jump. Part of the .cpp files that call libjpeg.
#pragma once

#include <csetjmp>
#include <cstdio>
#include <new>

#include "core/error.h"
#include "core/text.h"

// Behind <cstdio>: it uses FILE and size_t without including anything.
#include <jpeglib.h>
// Behind <jpeglib.h>, whose types it uses.
#include <jerror.h>

namespace penstock::detail {

/// libjpeg's errors, and its warnings too, end a call by longjmp to `jump`, with `message` set; but for the one about
/// an unknown revision of JFIF, which says nothing about the picture. (Bytes left over before EOI do: they are what a
/// flipped bit in a scan mostly leaves.) The jump must not pass objects with destructors: libjpeg is called in
/// functions that hold none, and which return false when setjmp(errors.jump) says that the call failed.
struct LibjpegErrors {
  jpeg_error_mgr manager{};  // first: libjpeg hands back a pointer to it
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

  /// What a call that failed throws: a lack of memory is none of the picture's faults.
  [[noreturn]] void raise() const {
    if (manager.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
    throw corrupt_error(concat("JPEG: ", message, "; expected a whole picture"));
  }

 private:
  static void on_message(j_common_ptr info, int level) {
    if (level < 0 && info->err->msg_code != JWRN_JFIF_MAJOR) fail(info);  // below 0: a warning; above: a trace
  }
};

}  // namespace penstock::detail
