// The work of the device renderer as plain data: what the host computes of a picture and its plan, and what kernels
// read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "augment/pixels/border.h"
#include "augment/pixels/rounding.h"
#include "augment/pixels/tap_weights.h"
#include "loader/jpeg/base/block_limits.h"
#include "loader/jpeg/store/store_format.h"

namespace penstock::detail {

/// A codebook as the kernels read it, 66 KB. Index: class * kStoreEntries + entry.
struct DeviceCodebook {
  uint8_t widths[kStoreClasses * kStoreEntries][kBlockSize];
  uint8_t order[kStoreClasses * kStoreEntries][kBlockSize];  // element j: the coefficient of the mask's bit j
  uint8_t mask_bits[kStoreClasses * kStoreEntries];
};

/// 64 factors of dequantisation, row by row.
struct QuantTable {
  int16_t factors[kBlockSize];
};

/// Blocks or samples [left, right) x [top, bottom).
struct Box {
  int32_t left, top, right, bottom;
};

/// One component of one row of the batch. Samples are numbered within the whole component at its scale.
struct ComponentJob {
  int32_t h, v, first_block;   // blocks in an MCU; number of the first one
  int32_t dct_size;            // samples per block, across and down: 1, 2, 4 or 8
  int32_t expand_x, expand_y;  // pixels per sample
  int32_t is_fancy_x, is_fancy_y;
  int32_t width, height;  // samples of the whole component
  Box blocks;             // that are transformed
  int32_t stride;         // bytes between rows of the plane, which begins at the first sample of `blocks`
  uint32_t quant;         // index of its QuantTable
  uint64_t plane;         // position of the plane in the scratch memory
};

/// How output pixels find their levels. kZeros: the row shows no picture, and all of its values are 0.
enum class Sampling : int32_t { kNothing, kNearest, kBilinear, kBicubic, kFiltered, kZeros };

/// One axis of the output, for kFiltered.
struct AxisJob {
  Axis axis;
  int32_t begin, end;       // output pixels whose centres are in the picture
  int32_t tap_count;        // of every output pixel
  int32_t pixel_end;        // no pixel at or after this one was decoded
  uint64_t first, weights;  // positions in the scratch memory: i32 [n], i16 [n][tap_count]
};

/// The type of the output's elements, as the planar layouts have it.
enum class Element : int32_t { kF32, kF16, kBf16 };

struct ErasedJob {
  int32_t top, left, bottom, right;
  float level[3];
};

/// A ColorStep.
struct ColorStepJob {
  enum Op : int32_t {  // as ColorOp
    kBrightness,
    kContrast,
    kSaturation,
    kHue,
    kSharpness,
    kPosterize,
    kSolarize,
    kAutoContrast,
    kEqualize,
    kSolarizeAdd,
    kGaussianBlur
  };
  Op op;
  float amount;    // of a blur: blur_shape()
  int32_t kernel;  // of a blur
  Rounding rounding;
};

/// One row of the batch. Coordinates of the render part are counted from the corner of the plan's view.
struct RowJob {
  static constexpr int kMaxErased = 4, kMaxColorSteps = 8;

  // The stored picture, where it is coefficients.
  uint64_t store;  // position of its store among the stores: a multiple of 4
  uint64_t store_bytes;
  uint32_t codebook;
  int32_t component_count, mcu_blocks, mcu_columns, mcu_rows;
  ComponentJob components[3];
  // What is decoded of it: MCUs, and pixels at the DCT scale.
  Box mcus;
  int32_t is_ycc, channels;                             // channels of the output
  int32_t pixel_width, pixel_height, pixel_x, pixel_y;  // the region; (x, y) is its corner in the picture
  uint64_t first_group, first_tile;                     // tasks of the rows before this one
  // The pixels of the region, u8 H x W x pixel_channels. A grey one may stand for all channels of the output.
  int32_t are_pixels_stored;              // their place is one among the stores; otherwise one in the scratch memory
  int32_t pixel_channels, pixel_columns;  // bytes of a pixel; pixels from one row to the next
  uint64_t pixels;                        // position of the region's first pixel
  // How it is rendered.
  Sampling sampling;
  int32_t turns;  // output columns run along columns of the picture or, where it turns, along its rows
  int32_t view_width, view_height, window_x, window_y;  // the window is the region's corner in the view
  double map[6];                                        // xx, xy, x0, yx, yy, y0
  AxisJob columns, rows;                                // of the output
  Border border;
  Box inside;  // pixels of the output; those outside of it are copies, except with kFill
  float fill[3], color[3][4];
  int32_t is_recolored, erased_count;
  ErasedJob erased[kMaxErased];
  // How it is recoloured.
  uint64_t planes;      // position in the scratch memory: f32, C x H x W, the levels before and between the steps
  uint64_t plane_copy;  // position in the scratch memory: f32, H x W; only where a step sharpens or blurs
  int32_t color_step_count;
  ColorStepJob color_steps[kMaxColorSteps];
};

/// What every kernel is given, by value. All pointers are to memory of the device that runs it.
struct KernelArguments {
  const uint32_t* stores;
  const DeviceCodebook* codebooks;
  const QuantTable* quant_tables;
  const RowJob* jobs;
  uint8_t* scratch;
  void* output;      // N x C x H x W
  uint32_t* status;  // one entry per row, 0 before the first kernel; see GroupDecoder
  Element element;   // of the output
  int32_t row_count, output_height, output_width, channels;
  float scale[3], bias[3];
};

/// The number of bytes that a store takes on the device: stores begin at multiples of 16, so that bits can be read in
/// whole words.
constexpr uint64_t kStoreAlignment = 16;
constexpr uint64_t stored_bytes(uint64_t byte_count) {
  return (byte_count + kStoreAlignment - 1) / kStoreAlignment * kStoreAlignment;
}

/// The threads of a block of each kernel, and the outputs that it computes.
constexpr int kGroupThreads = 32;     // one warp per group
constexpr int kPixelThreads = 256;    // one pixel per thread
constexpr int kTapThreads = 64;       // one output pixel of one axis per thread
constexpr int kRenderThreads = 64;    // one output pixel per thread, all of one output row
constexpr int kRecolorThreads = 256;  // all pixels of one row of the batch, which some steps have to look at together

constexpr int divided_up(int value, int unit) { return (value + unit - 1) / unit; }

/// The row whose tasks contain `task`: the last one whose `first` is at or before it. Rows without tasks are skipped,
/// because the row after them has the same `first`.
inline int row_of_task(const RowJob* jobs, int row_count, uint64_t RowJob::*first, uint64_t task) {
  int low = 0, high = row_count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (jobs[middle].*first <= task)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

}  // namespace penstock::detail
