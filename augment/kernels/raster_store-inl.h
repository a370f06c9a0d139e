// RasterStore: rows of levels of a raster into the layout of the batch. render_raster.cpp includes this file once for
// each instruction set; the compiler turns its plain loops into vectors.
#if defined(PENSTOCK_RASTER_STORE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_RASTER_STORE_INL_H
#undef PENSTOCK_RASTER_STORE_INL_H
#else
#define PENSTOCK_RASTER_STORE_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "augment/pixels/half.h"
#include "augment/pixels/layout.h"
#include "augment/plan/plan.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

/// Stores rows of levels in a layout.
class RasterStore {
 public:
  RasterStore(const Plan& plan, ptrdiff_t channels, const Normalization& normalization, Layout layout, void* output)
      : width_(plan.output_width),
        plane_(width_ * plan.output_height),
        channels_(channels),
        normalization_(normalization),
        layout_(layout),
        output_(output) {}

  void put(int row, const float* levels) const {
    switch (layout_) {
      case Layout::kU8Nhwc:
        return put_levels<uint8_t>(row, levels, 255);
      case Layout::kU16Nhwc:
        return put_levels<uint16_t>(row, levels, 65535);
      case Layout::kF32Nchw:
      case Layout::kF32Nhwc:
        return put_values<float>(row, levels, [](float value) { return value; });
      case Layout::kF16Nchw:
      case Layout::kF16Nhwc:
        return put_values<uint16_t>(
            row, levels, [](float value) -> uint16_t { return std::isnan(value) ? 0x7E00 : f16_bits(value); });
      case Layout::kBf16Nchw:
      case Layout::kBf16Nhwc:
        return put_values<uint16_t>(
            row, levels, [](float value) -> uint16_t { return std::isnan(value) ? 0x7FC0 : bf16_bits(value); });
    }
  }

 private:
  template <class Level>
  void put_levels(int row, const float* levels, float greatest) const {
    Level* const to = static_cast<Level*>(output_) + row * width_ * channels_;
    for (ptrdiff_t c = 0; c < channels_; ++c)
      for (ptrdiff_t i = 0; i < width_; ++i)
        to[i * channels_ + c] =
            static_cast<Level>(std::nearbyint(std::min(std::max(levels[c * width_ + i], 0.F), greatest)));
  }

  template <class Element, class Convert>
  void put_values(int row, const float* levels, const Convert& convert) const {
    Element* const to = static_cast<Element*>(output_);
    const bool is_planar = penstock::is_planar(layout_);
    for (ptrdiff_t c = 0; c < channels_; ++c) {
      const float scale = normalization_.scale[static_cast<size_t>(c)],
                  bias = normalization_.bias[static_cast<size_t>(c)];
      const float* const __restrict from = levels + c * width_;
      if (is_planar) {
        Element* const __restrict out = to + c * plane_ + row * width_;
        for (ptrdiff_t i = 0; i < width_; ++i) out[i] = convert(from[i] * scale + bias);
      } else {
        Element* const out = to + row * width_ * channels_ + c;
        for (ptrdiff_t i = 0; i < width_; ++i) out[i * channels_] = convert(from[i] * scale + bias);
      }
    }
  }

  ptrdiff_t width_, plane_, channels_;
  const Normalization& normalization_;
  Layout layout_;
  void* output_;
};

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled for each target
