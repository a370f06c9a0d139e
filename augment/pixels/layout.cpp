// Layout: names and sizes.
#include "augment/pixels/layout.h"

namespace penstock {

Normalization Normalization::of(const PerChannel<double>& mean, const PerChannel<double>& deviation, double white) {
  Normalization normalization;
  for (size_t i = 0; i < mean.size(); ++i) {
    if (deviation[i] == 0) continue;  // after the last channel
    normalization.scale[i] = static_cast<float>(1 / (white * deviation[i]));
    normalization.bias[i] = static_cast<float>(-mean[i] / deviation[i]);
  }
  return normalization;
}

Normalization Normalization::plain(PixelType type) {
  Normalization normalization;
  normalization.scale.fill(1 / white_level(type));
  return normalization;
}

const char* layout_name(Layout layout) {
  constexpr const char* kNames[] = {"f32", "u8", "f16", "bf16", "f32-nhwc", "f16-nhwc", "bf16-nhwc", "u16"};
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
