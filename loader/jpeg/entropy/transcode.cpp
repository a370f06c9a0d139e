// transcode_to_baseline(): uses libjpeg's jpeg_read_coefficients() and jpeg_write_coefficients().
#include "loader/jpeg/entropy/transcode.h"

#include <cstdlib>
#include <cstring>

#include "loader/files/picture_checks.h"
#include "loader/jpeg/base/libjpeg_errors-inl.h"
#include "loader/jpeg/entropy/libjpeg_scans-inl.h"

namespace penstock::detail {
namespace {

constexpr int kMaxScans = 500;  // a progressive picture has about 10; each may cost a pass over the whole picture

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  auto& errors = LibjpegErrors::of(info);
  std::snprintf(errors.message, sizeof errors.message, "more than %d scans", kMaxScans);
  std::longjmp(errors.jump, 1);
}

/// An output buffer that grows. jpeg_mem_dest() is not used, because after an error it leaves a pointer to a buffer
/// that it has freed.
struct Destination {
  jpeg_destination_mgr manager;  // must be first, because libjpeg gives back a pointer to it
  uint8_t* bytes;
  size_t capacity;
};

void start(j_compress_ptr) {}

boolean grow(j_compress_ptr info) {
  auto* out = reinterpret_cast<Destination*>(info->dest);
  const size_t filled = out->capacity;  // libjpeg calls this when the buffer is full, whatever free_in_buffer says
  const size_t capacity = filled == 0 ? 65536 : 2 * filled;
  auto* bytes = static_cast<uint8_t*>(std::realloc(out->bytes, capacity));
  if (bytes == nullptr) ERREXIT1(info, JERR_OUT_OF_MEMORY, 10);
  out->bytes = bytes;
  out->capacity = capacity;
  out->manager.next_output_byte = bytes + filled;
  out->manager.free_in_buffer = capacity - filled;
  return TRUE;
}

/// One libjpeg decompressor and one compressor. Every call of libjpeg is in one of the member functions that return
/// bool; these return false when a call failed.
class Transcoder {
 public:
  Transcoder() {
    source_.err = target_.err = &errors_.manager;
    if (!create()) errors_.raise();
  }
  ~Transcoder() {
    jpeg_destroy_compress(&target_);
    jpeg_destroy_decompress(&source_);
    std::free(out_.bytes);
  }
  Transcoder(const Transcoder&) = delete;
  Transcoder& operator=(const Transcoder&) = delete;

  std::vector<uint8_t> run(std::span<const uint8_t> bytes) {
    if (!read_header(bytes.data(), bytes.size())) errors_.raise();
    check_pixels(source_.image_height, source_.image_width);
    if (!read_coefficients()) errors_.raise();
    check_scans(source_);
    if (!write()) {
      if (errors_.manager.msg_code == JERR_BAD_DCT_COEF) return {};
      errors_.raise();
    }
    return {out_.bytes, out_.bytes + (out_.capacity - out_.manager.free_in_buffer)};
  }

 private:
  bool create() {
    if (setjmp(errors_.jump)) return false;
    jpeg_create_decompress(&source_);
    jpeg_create_compress(&target_);
    progress_.progress_monitor = on_progress;
    source_.progress = &progress_;
    out_.manager = {nullptr, 0, start, grow, start};
    target_.dest = &out_.manager;
    grow(&target_);
    return true;
  }

  bool read_header(const uint8_t* bytes, size_t byte_count) {
    if (setjmp(errors_.jump)) return false;
    jpeg_mem_src(&source_, bytes, byte_count);
    jpeg_save_markers(&source_, JPEG_COM, 0xFFFF);
    for (int i = 0; i < 16; ++i) jpeg_save_markers(&source_, JPEG_APP0 + i, 0xFFFF);
    jpeg_read_header(&source_, TRUE);
    return true;
  }

  bool read_coefficients() {
    if (setjmp(errors_.jump)) return false;
    coefficients_ = jpeg_read_coefficients(&source_);
    return true;
  }

  bool write() {
    if (setjmp(errors_.jump)) return false;
    jpeg_copy_critical_parameters(&source_, &target_);
    target_.optimize_coding = TRUE;
    // The markers that say which colours the components are must stay as they are, and no such marker may be added.
    target_.write_JFIF_header = source_.saw_JFIF_marker;
    target_.write_Adobe_marker = FALSE;
    jpeg_write_coefficients(&target_, coefficients_);
    for (jpeg_saved_marker_ptr marker = source_.marker_list; marker != nullptr; marker = marker->next) {
      const bool is_jfif = marker->marker == JPEG_APP0 && marker->data_length >= 5 &&
                           (std::memcmp(marker->data, "JFIF", 5) == 0 || std::memcmp(marker->data, "JFXX", 5) == 0);
      if (!is_jfif) jpeg_write_marker(&target_, marker->marker, marker->data, marker->data_length);
    }
    jpeg_finish_compress(&target_);
    jpeg_finish_decompress(&source_);
    return true;
  }

  jpeg_decompress_struct source_{};
  jpeg_compress_struct target_{};
  jpeg_progress_mgr progress_{};
  LibjpegErrors errors_;
  jvirt_barray_ptr* coefficients_ = nullptr;
  Destination out_{};
};

}  // namespace

std::vector<uint8_t> transcode_to_baseline(std::span<const uint8_t> bytes) { return Transcoder().run(bytes); }

}  // namespace penstock::detail
