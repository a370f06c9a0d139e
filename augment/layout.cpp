// Layout: names and sizes.
#include "augment/layout.h"

namespace penstock {

Normalization Normalization::of(std::array<double, 3> mean, std::array<double, 3> deviation) {
  Normalization normalization;
  for (int i = 0; i < 3; ++i) {
    normalization.scale[i] = static_cast<float>(1 / (255 * deviation[i]));
    normalization.bias[i] = static_cast<float>(-mean[i] / deviation[i]);
  }
  return normalization;
}

const char* layout_name(Layout layout) {
  constexpr const char* kNames[] = {"f32", "u8", "f16", "bf16", "f32-nhwc", "f16-nhwc", "bf16-nhwc"};
  return kNames[static_cast<size_t>(layout)];
}

size_t element_bytes(Layout layout) {
  switch (layout) {
    case Layout::kF32Nchw:
    case Layout::kF32Nhwc:
      return 4;
    case Layout::kU8Nhwc:
      return 1;
    default:
      return 2;
  }
}

size_t rendered_bytes(Layout layout, const Extent& output) {
  return static_cast<size_t>(output.height) * output.width * output.channels * element_bytes(layout);
}

}  // namespace penstock
