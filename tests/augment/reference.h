// A readable and slow implementation of render()'s contract: one pixel at a time, without vectors.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "augment/pixels/half.h"
#include "augment/plan/plan.h"
#include "augment/plan/sampling.h"
#include "augment/render.h"
#include "core/error.h"

namespace penstock::test {

/// Samples the levels of a plan whose view is the whole picture, before its colours.
class ReferenceSampler {
 public:
  ReferenceSampler(const Picture& picture, const Plan& plan)
      : picture_(picture), plan_(plan), axes_(detail::sampling_axes(plan)) {
    is_copied_ =
        axes_.are_filtered && !axes_.turns && is_whole(plan.map.xx, plan.map.x0) && is_whole(plan.map.yy, plan.map.y0);
    across_.assign(axes_.turns ? axes_.y : axes_.x);
    down_.assign(axes_.turns ? axes_.x : axes_.y);
  }

  float operator()(int column, int row, int channel) const {
    if (axes_.are_filtered && !is_copied_) return filtered(column, row, channel);
    const Affine& m = plan_.map;
    const auto c = static_cast<float>(column + 0.5);
    const float x = static_cast<float>(m.xx) * c + static_cast<float>(m.xy * (row + 0.5) + m.x0);
    const float y = static_cast<float>(m.yx) * c + static_cast<float>(m.yy * (row + 0.5) + m.y0);
    return at(x, y, channel);
  }

 private:
  static bool is_whole(double step, double start) { return std::fabs(step) == 1 && start == std::floor(start); }

  int level(int column, int row, int channel) const {
    return picture_
        .pixels[(row - picture_.y) * picture_.row_stride + (column - picture_.x) * picture_.channels + channel];
  }

  /// Point by point, as the comment of Sampler describes.
  float at(float x, float y, int channel) const {
    const auto width = static_cast<float>(plan_.input_width), height = static_cast<float>(plan_.input_height);
    if (!(x >= 0 && x < width && y >= 0 && y < height)) return plan_.fill[channel];
    const auto f32 = [&](int column, int row) { return static_cast<float>(level(column, row, channel)); };
    if (plan_.filter == Filter::kNearest) return f32(static_cast<int>(x), static_cast<int>(y));
    if (point_filter(plan_.filter) == Filter::kBicubic) return bicubic(x - 0.5f, y - 0.5f, channel);
    const float u = std::clamp(x - 0.5f, 0.f, width - 1), v = std::clamp(y - 0.5f, 0.f, height - 1);
    const int left = static_cast<int>(u), top = static_cast<int>(v);
    const int right = std::min(left + 1, plan_.input_width - 1), bottom = std::min(top + 1, plan_.input_height - 1);
    const float wx = u - static_cast<float>(left), wy = v - static_cast<float>(top);
    const auto mix = [](float a, float b, float weight) { return a + weight * (b - a); };
    return mix(mix(f32(left, top), f32(left, bottom), wy), mix(f32(right, top), f32(right, bottom), wy), wx);
  }

  /// Pillow's transform(BICUBIC) at the point (u, v), which is counted from the centre of the first pixel.
  float bicubic(float u, float v, int channel) const {
    const float left = std::floor(u), top = std::floor(v);
    const auto weight = [](float p, int k) {
      if (k == 0) return -(p * (1 - p) * (1 - p));
      if (k == 1) return p * p * (p - 2) + 1;
      if (k == 2) return p * (1 + p - p * p);
      return -(p * (1 - p) * p);
    };
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
      const int row = std::clamp(static_cast<int>(top) + k - 1, 0, plan_.input_height - 1);
      float of_row = 0;
      for (int j = 0; j < 4; ++j) {
        const int column = std::clamp(static_cast<int>(left) + j - 1, 0, plan_.input_width - 1);
        const float term = weight(u - left, j) * static_cast<float>(level(column, row, channel));
        of_row = j == 0 ? term : of_row + term;
      }
      const float term = weight(v - top, k) * of_row;
      sum = k == 0 ? term : sum + term;
    }
    return std::clamp(sum, 0.f, 255.f);
  }

  static int weight(const detail::Taps& taps, int i, int tap) {
    return static_cast<int16_t>(taps.pairs[tap / 2 * taps.pair_stride + i] >> (tap % 2 * 16));
  }

  int tapped_level(int i, int j, int s, int t, int channel) const {
    const int a = across_.first[i] + s, d = down_.first[j] + t;
    return axes_.turns ? level(d, a, channel) : level(a, d, channel);
  }

  /// By taps with negative weights: levels rounded to 1/128 and limited between the two passes.
  float lobed(int i, int j, int channel) const {
    return detail::goes_down_first(axes_.turns ? axes_.y : axes_.x, axes_.turns ? axes_.x : axes_.y)
               ? down_first(i, j, channel)
               : across_first(i, j, channel);
  }

  float across_first(int i, int j, int channel) const {
    int sum = 1 << 13;
    for (int t = 0; t < 2 * down_.pair_count; ++t) {
      if (weight(down_, j, t) == 0) continue;
      int of_row = 64;
      for (int s = 0; s < 2 * across_.pair_count; ++s)
        if (weight(across_, i, s) != 0) of_row += weight(across_, i, s) * tapped_level(i, j, s, t, channel);
      sum += weight(down_, j, t) * std::clamp(of_row >> 7, 0, 255 * 128);
    }
    return static_cast<float>(std::clamp(sum >> 14, 0, 255 * 128)) / 128;
  }

  float down_first(int i, int j, int channel) const {
    int sum = 0;
    for (int s = 0; s < 2 * across_.pair_count; ++s) {
      if (weight(across_, i, s) == 0) continue;
      int mixed = 64;
      for (int t = 0; t < 2 * down_.pair_count; ++t)
        if (weight(down_, j, t) != 0) mixed += weight(down_, j, t) * tapped_level(i, j, s, t, channel);
      sum += weight(across_, i, s) * std::clamp(mixed >> 7, 0, 255 * 128);
    }
    return static_cast<float>(std::clamp(sum, 0, 255 << 21)) * 0x1p-21f;
  }

  /// By taps: first down the picture's columns, rounded to 1/128, then across the row.
  float filtered(int column, int row, int channel) const {
    const int i = column - across_.begin, j = row - down_.begin;
    if (column < across_.begin || column >= across_.end || row < down_.begin || row >= down_.end)
      return plan_.fill[channel];
    if (detail::has_lobes(axes_.x.kernel)) return lobed(i, j, channel);
    int sum = 0;
    for (int s = 0; s < 2 * across_.pair_count; ++s) {
      int mixed = 64;
      for (int t = 0; t < 2 * down_.pair_count; ++t) {
        if (weight(across_, i, s) == 0 || weight(down_, j, t) == 0) continue;
        const int a = across_.first[i] + s, d = down_.first[j] + t;
        mixed += weight(down_, j, t) * (axes_.turns ? level(d, a, channel) : level(a, d, channel));
      }
      sum += weight(across_, i, s) * (mixed >> 7);
    }
    return static_cast<float>(sum) * 0x1p-21f;
  }

  const Picture& picture_;
  const Plan& plan_;
  detail::SamplingAxes axes_;
  bool is_copied_ = false;
  detail::Taps across_, down_;
};

/// Writes one element at its place in the output.
inline void put_element(std::vector<uint8_t>& output, size_t at, float level, float value, Layout layout) {
  const auto put = [&](auto element) { std::memcpy(&output[at * sizeof(element)], &element, sizeof(element)); };
  switch (layout) {
    case Layout::kF32Nchw:
    case Layout::kF32Nhwc:
      return put(value);
    case Layout::kF16Nchw:
    case Layout::kF16Nhwc:
      return put(detail::f16_bits(value));
    case Layout::kBf16Nchw:
    case Layout::kBf16Nhwc:
      return put(detail::bf16_bits(value));
    case Layout::kU8Nhwc:
      return put(static_cast<uint8_t>(std::nearbyint(std::clamp(level, 0.f, 255.f))));
    case Layout::kU16Nhwc:
      throw bug_error("reference: layout u16; expected one that pictures of 8 bits have");
  }
}

/// The place in [begin, end) whose pixel stands at `at`: the way back to the picture, from mirror to mirror.
inline int reference_place(Border border, int at, int begin, int end) {
  if (border == Border::kFill) return at;
  if (border == Border::kEdge || end - begin == 1) return std::clamp(at, begin, end - 1);
  const int repeated = border == Border::kSymmetric ? 1 : 0;
  while (at < begin || at >= end) at = at < begin ? 2 * begin - repeated - at : 2 * (end - 1) + repeated - at;
  return at;
}

inline std::vector<uint8_t> reference_render(Picture picture, const Plan& whole_plan, const Normalization& to,
                                             Layout layout) {
  const Plan plan = detail::seen_from_view(whole_plan);
  picture.x -= whole_plan.view.x;
  picture.y -= whole_plan.view.y;
  const int channels = picture.channels, height = plan.output_height, width = plan.output_width;
  std::vector<uint8_t> output(rendered_bytes(layout, {height, width, channels}));
  const auto put = [&](int channel, int row, int column, float level) {
    const size_t pixel = static_cast<size_t>(row) * width + column;
    const size_t at =
        is_planar(layout) ? pixel + static_cast<size_t>(channel) * height * width : pixel * channels + channel;
    put_element(output, at, level, level * to.scale[channel] + to.bias[channel], layout);
  };
  const ReferenceSampler sample(picture, plan);
  const Region& inside = plan.inside;
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      const int from_column = reference_place(plan.border, column, inside.x, inside.x + inside.width);
      const int from_row = reference_place(plan.border, row, inside.y, inside.y + inside.height);
      float in[3] = {0, 0, 0};
      for (int i = 0; i < channels; ++i) in[i] = sample(from_column, from_row, i);
      for (int i = 0; i < channels; ++i) {
        const auto& k = plan.color[i];
        put(i, row, column,
            channels == 1 ? in[0] * k[0] + k[3] : ((in[0] * k[0] + in[1] * k[1]) + in[2] * k[2]) + k[3]);
      }
    }
  }
  for (int e = 0; e < plan.erased_count; ++e)
    for (int row = plan.erased[e].top; row < plan.erased[e].bottom; ++row)
      for (int column = plan.erased[e].left; column < plan.erased[e].right; ++column)
        for (int i = 0; i < channels; ++i) put(i, row, column, plan.erased[e].level[i]);
  return output;
}

}  // namespace penstock::test
