// RenderJob: everything that the SIMD rows need to render one sample, computed once per sample.
//
// Lives here: loops over pixels that are compiled once for each instruction set, and what they are given.
// Not here: what needs several passes over a sample (augment/render).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "augment/kernels/across.h"
#include "augment/kernels/taps.h"
#include "augment/pixels/layout.h"
#include "augment/plan/plan.h"

namespace penstock::detail {

/// A colour step that changes each pixel on its own. What it had to learn from the whole picture is in its numbers.
struct PointStep {
  enum class Kind : uint8_t { kLinear, kBlend, kSaturation, kHue, kPosterize, kSolarize, kSolarizeAdd };

  Kind kind = Kind::kLinear;
  float amount = 0;                                      // as in ColorStep
  std::array<float, 3> scale{1, 1, 1}, offset{0, 0, 0};  // kLinear: level * scale + offset
  float other = 0;                                       // kBlend: the level of which the result has 1 - amount
  Rounding rounding = Rounding::kNone;                   // kBlend, which has one, and kSaturation
};

/// The first three channels of a Normalization: a job has no others.
struct Scaling {
  std::array<float, 3> scale{}, bias{};
};

struct RenderJob {
  const uint8_t* pixels = nullptr;  // at least 4 bytes can be read here
  uint32_t last_word = 0;           // in bytes; the greatest offset from `pixels` at which 4 bytes may be read
  ptrdiff_t row_stride = 0;         // bytes, below 2^31
  int window_x = 0, window_y = 0;   // upper left corner of `pixels` in the stored picture
  const Plan* plan = nullptr;
  bool is_recolored = false;            // whether the colour matrix is not the identity
  std::array<float, 3> fill_level{};    // plan->fill after the colour matrix
  std::span<const PointStep> points{};  // applied after the colour matrix
  Scaling normalization{};
  Layout layout = Layout::kF32Nchw;
  void* output = nullptr;
};

/// How finished pixels are stored: as normalised f32 planes or as u8 pixels. The other layouts are converted from a row
/// of f32 planes, row by row while that row is in the first-level cache. So every kind of row is compiled for two kinds
/// of store only.
enum class Store : uint8_t { kPlanes, kBytes };

/// What filtered_rows() and lobed_rows() work in (filters along the axes).
struct FilterScratch {
  Taps across, down;            // taps of the output's columns, of its rows
  std::vector<int32_t> offset;  // one entry per output pixel: offset of its first tap in the line, in i16 values
  AcrossTable table;
  std::vector<int16_t> line;  // the mixed rows: levels * 2^7. The first pass of lobed_rows(): a row's levels
  std::vector<int16_t> rows;  // lobed_rows(): every row of the footprint after a first pass across, levels * 2^7
  std::vector<float> levels;  // one output row, as planes that are across.pair_stride floats apart
};

/// What rendering works in. There is one per thread. It grows to the widest picture seen and is reused after that.
struct RenderScratch {
  std::vector<int32_t> offset;  // one entry per column
  std::vector<float> weight;    // one entry per column
  std::vector<float> line, mixed;
  FilterScratch filter;
  std::vector<uint8_t> turned;  // for filters along the axes: the transposed footprint
  std::vector<float> planes;    // one row as planes, one channel after the other, before conversion
};
RenderScratch& render_scratch();

/// Renders all rows of the output and its border. Erased rectangles are written later.
void render_rows(const RenderJob& job, int channels);

/// Makes render() use one of render_targets(); with "" the best one is chosen again. For tests. Not thread-safe.
void force_render_target(const std::string& name);

}  // namespace penstock::detail
