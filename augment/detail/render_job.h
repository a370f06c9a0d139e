// RenderJob: one sample's rendering with everything per-sample worked out, as the SIMD rows take it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "augment/detail/across.h"
#include "augment/detail/taps.h"
#include "augment/plan.h"
#include "augment/render.h"

namespace penstock::detail {

/// A colour step with whatever it had to learn of the picture: it now changes each pixel by itself.
struct PointStep {
  enum class Kind : uint8_t { kLinear, kSaturation, kHue, kPosterize, kSolarize };

  Kind kind = Kind::kLinear;
  float amount = 0;                                      // as ColorOp's
  std::array<float, 3> scale{1, 1, 1}, offset{0, 0, 0};  // kLinear: level * scale + offset
};

struct RenderJob {
  const uint8_t* pixels = nullptr;  // at least 4 readable bytes
  uint32_t last_word = 0;           // bytes; the greatest offset from `pixels` at which 4 bytes may be read
  ptrdiff_t row_stride = 0;         // bytes, below 2^31
  int window_x = 0, window_y = 0;   // of the stored picture, pixels
  const Plan* plan = nullptr;
  bool is_recolored = false;            // the colour matrix is not the identity
  std::array<float, 3> fill_level{};    // after the colour matrix
  std::span<const PointStep> points{};  // after the colour matrix
  Normalization normalization;
  Layout layout = Layout::kF32Nchw;
  void* output = nullptr;
};

/// How finished pixels leave the registers: as normalised f32 planes or as u8 pixels. The other layouts are converted
/// from a line of f32 planes, row by row while the first-level cache holds it, so that only two instances of every way
/// through are compiled.
enum class Store : uint8_t { kPlanes, kBytes };

/// kAntialias along the axes.
struct FilterScratch {
  Taps across, down;            // columns, rows
  std::vector<int32_t> offset;  // of the taps of `across` in the line, i16
  AcrossTable table;
  std::vector<int16_t> line;  // levels * 2^7 of the rows being mixed
  std::vector<float> levels;  // planes, across.pair_stride apart, of one output row
};

/// Lines of the picture being resized. One a thread, grown to the widest picture seen, then never allocated again.
struct RenderScratch {
  std::vector<int32_t> offset;  // a column
  std::vector<float> weight;    // a column
  std::vector<float> line, mixed;
  FilterScratch filter;
  std::vector<uint8_t> turned;  // kAntialias: the footprint, transposed
  std::vector<float> planes;    // one row, a channel after the other, to be converted
};
RenderScratch& render_scratch();

/// All rows of the output, erased rectangles not yet written.
void render_rows(const RenderJob& job, int channels);

/// Makes render() use one of render_targets(); "" gives the choice back to the processor. For tests: not thread-safe.
void force_render_target(const std::string& name);

}  // namespace penstock::detail
