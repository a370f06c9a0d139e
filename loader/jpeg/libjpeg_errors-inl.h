// LibjpegErrors: what libjpeg reports, as a message and a jump. Part of the .cpp files that call libjpeg.
#pragma once

#include <csetjmp>
#include <cstdio>

// Behind <cstdio>: it uses FILE and size_t without including anything.
#include <jpeglib.h>
// Behind <jpeglib.h>, whose types it uses.
#include <jerror.h>

namespace penstock::detail {

/// libjpeg's errors, and its warnings too, end a call by longjmp to `jump`, with `message` set; but for two warnings of
/// whole pictures that are common: an unknown revision of JFIF, and bytes between the last scan and EOI. The jump must
/// not pass objects with destructors: libjpeg is called in functions that hold none, and which return false when
/// setjmp(errors.jump) says that the call failed.
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

 private:
  static bool is_harmless(const jpeg_error_mgr& error) {
    constexpr int kEndOfImage = 0xD9;
    return error.msg_code == JWRN_JFIF_MAJOR ||
           (error.msg_code == JWRN_EXTRANEOUS_DATA && error.msg_parm.i[1] == kEndOfImage);
  }
  static void on_message(j_common_ptr info, int level) {
    if (level < 0 && !is_harmless(*info->err)) fail(info);  // below 0: a warning; above: a trace
  }
};

}  // namespace penstock::detail
