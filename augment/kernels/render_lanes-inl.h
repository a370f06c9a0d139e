// The lanes of render(): fetches pixels, samples them, and writes finished pixels into the batch. One lane is one
// output pixel. render_rows.cpp includes this file once for each instruction set.
#if defined(PENSTOCK_RENDER_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PENSTOCK_RENDER_LANES_INL_H
#undef PENSTOCK_RENDER_LANES_INL_H
#else
#define PENSTOCK_RENDER_LANES_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "augment/kernels/color_lanes-inl.h"
#include "augment/kernels/cubic_weights-inl.h"
#include "augment/kernels/render_convert-inl.h"
#include "augment/kernels/render_job.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

HWY_INLINE V to_float(hn::Vec<D8> levels) { return hn::ConvertTo(D(), hn::PromoteTo(DI(), levels)); }

/// Byte number kByte of each word, as f32.
template <int kByte>
HWY_INLINE V byte_of(VU word) {
  const DU du;
  VU byte = hn::ShiftRight<8 * kByte>(word);
  if constexpr (kByte < 3) byte = hn::And(byte, hn::Set(du, 0xFFu));
  return hn::ConvertTo(D(), hn::BitCast(DI(), byte));
}

/// Loads `count` neighbouring pixels. The lanes after them are 0.
template <int kChannels>
HWY_INLINE Levels<kChannels> load_levels(const uint8_t* pixels, int count) {
  const D8 d8;
  uint8_t part[kChannels * kLanes];
  if (count < kLanes) {
    std::memset(part, 0, sizeof(part));
    std::memcpy(part, pixels, static_cast<size_t>(count) * kChannels);
    pixels = part;
  }
  if constexpr (kChannels == 1) {
    return {{to_float(hn::LoadU(d8, pixels))}};
  } else {
    hn::Vec<D8> red, green, blue;
    hn::LoadInterleaved3(d8, pixels, red, green, blue);
    return {{to_float(red), to_float(green), to_float(blue)}};
  }
}

HWY_INLINE V reverse_part(V level, int count) {
  HWY_ALIGN float lanes[kLanes];
  hn::Store(level, D(), lanes);
  std::reverse(lanes, lanes + count);
  return hn::Load(D(), lanes);
}

/// Samples the picture at continuous coordinates. A coordinate inside of the picture's rectangle [0, W) x [0, H) is
/// sampled with edge pixels repeated; a coordinate outside takes plan.fill. Pillow's transform() does the same. A
/// resize never looks outside. torchvision's affine of a *tensor* instead blends the outermost half pixel with the
/// fill.
template <int kChannels, Filter kFilter>
class Sampler {
 public:
  explicit Sampler(const RenderJob& job)
      : pixels_(reinterpret_cast<const uint32_t*>(job.pixels)),
        last_word_(hn::Set(DU(), job.last_word)),
        stride_(hn::Set(DI(), static_cast<int32_t>(job.row_stride))),
        // Intermediate results may wrap around in 32 bits. The final offset fits, so it is right.
        origin_(hn::Set(
            DI(), static_cast<int32_t>(static_cast<uint32_t>(job.window_y) * static_cast<uint32_t>(job.row_stride) +
                                       static_cast<uint32_t>(job.window_x * kChannels)))),
        width_(hn::Set(D(), static_cast<float>(job.plan->input_width))),
        height_(hn::Set(D(), static_cast<float>(job.plan->input_height))) {
    for (int i = 0; i < kChannels; ++i) fill_[i] = hn::Set(D(), job.plan->fill[i]);
  }

  HWY_INLINE Levels<kChannels> operator()(V x, V y) const {
    const V zero = hn::Zero(D());
    const auto inside =
        hn::And(hn::And(hn::Ge(x, zero), hn::Lt(x, width_)), hn::And(hn::Ge(y, zero), hn::Lt(y, height_)));
    Levels<kChannels> levels = kFilter == Filter::kNearest    ? nearest(x, y)
                               : kFilter == Filter::kBilinear ? bilinear(x, y)
                                                              : bicubic(x, y);
    for (int i = 0; i < kChannels; ++i) levels.channel[i] = hn::IfThenElse(inside, levels.channel[i], fill_[i]);
    return levels;
  }

 private:
  HWY_INLINE VI offset_of(VI column, VI row) const {
    const VI in_row = kChannels == 1 ? column : hn::Add(column, hn::Add(column, column));
    return hn::Sub(hn::Add(hn::Mul(row, stride_), in_row), origin_);
  }

  /// The 4 bytes at `offset`, the first byte in the lowest bits. Where these bytes would reach beyond the end of the
  /// picture, the last word of the picture is read and shifted down, which fills the upper bits with zeros. So no byte
  /// outside of the picture is ever read, whatever offset a masked lane has.
  HWY_INLINE VU word_at(VI offset) const {
    const VU wanted = hn::BitCast(DU(), offset);
    const VU safe = hn::Min(wanted, last_word_);
    const VU word = hn::GatherOffset(DU(), pixels_, hn::BitCast(DI(), safe));
    return hn::Shr(word, hn::And(hn::ShiftLeft<3>(hn::Sub(wanted, safe)), hn::Set(DU(), 31u)));
  }

  HWY_INLINE Levels<kChannels> nearest(V x, V y) const {
    const VU word = word_at(offset_of(hn::ConvertTo(DI(), x), hn::ConvertTo(DI(), y)));
    if constexpr (kChannels == 1) {
      return {{byte_of<0>(word)}};
    } else {
      return {{byte_of<0>(word), byte_of<1>(word), byte_of<2>(word)}};
    }
  }

  /// Interpolates vertically first, then horizontally: left + wx * (right - left). In the last column wx is exactly 0,
  /// and in the last row wy is. The right or lower pixel that is fetched there is some finite level with weight 0.
  HWY_INLINE Levels<kChannels> bilinear(V x, V y) const {
    const D d;
    const V zero = hn::Zero(d), half = hn::Set(d, 0.5f), one = hn::Set(d, 1.f);
    const V u = hn::Min(hn::Max(hn::Sub(x, half), zero), hn::Sub(width_, one));
    const V v = hn::Min(hn::Max(hn::Sub(y, half), zero), hn::Sub(height_, one));
    const VI column = hn::ConvertTo(DI(), u), row = hn::ConvertTo(DI(), v);
    const V wx = hn::Sub(u, hn::ConvertTo(d, column)), wy = hn::Sub(v, hn::ConvertTo(d, row));
    const VI upper = offset_of(column, row), lower = hn::Add(upper, stride_);
    const VU upper_left = word_at(upper), lower_left = word_at(lower);
    if constexpr (kChannels == 1) {
      return {{mix(mix(byte_of<0>(upper_left), byte_of<0>(lower_left), wy),
                   mix(byte_of<1>(upper_left), byte_of<1>(lower_left), wy), wx)}};
    } else {
      const VI pixel = hn::Set(DI(), 3);
      const VU upper_right = word_at(hn::Add(upper, pixel)), lower_right = word_at(hn::Add(lower, pixel));
      const auto channel = [&](auto byte) HWY_ATTR {
        constexpr int kByte = decltype(byte)::value;
        return mix(mix(byte_of<kByte>(upper_left), byte_of<kByte>(lower_left), wy),
                   mix(byte_of<kByte>(upper_right), byte_of<kByte>(lower_right), wy), wx);
      };
      return {{channel(std::integral_constant<int, 0>()), channel(std::integral_constant<int, 1>()),
               channel(std::integral_constant<int, 2>())}};
    }
  }

  static HWY_INLINE V mix(V a, V b, V weight) { return hn::Add(a, hn::Mul(weight, hn::Sub(b, a))); }

  /// 4 x 4 pixels, horizontally first, as Pillow's Image.transform; pixels outside of the picture are those of its
  /// edge. Limited to 0..255 once, at the end.
  HWY_INLINE Levels<kChannels> bicubic(V x, V y) const {
    const D d;
    const V zero = hn::Zero(d), half = hn::Set(d, 0.5f);
    const V u = hn::Sub(x, half), v = hn::Sub(y, half), left = hn::Floor(u), top = hn::Floor(v);
    const CubicWeights across(hn::Sub(u, left)), down(hn::Sub(v, top));
    VI column[4], row[4];
    for (int k = 0; k < 4; ++k) {
      const V step = hn::Set(d, static_cast<float>(k - 1));
      column[k] = hn::ConvertTo(DI(), within(hn::Add(left, step), width_));
      row[k] = hn::ConvertTo(DI(), within(hn::Add(top, step), height_));
    }
    Levels<kChannels> sum;
    for (int k = 0; k < 4; ++k) {
      VU words[4];
      for (int j = 0; j < 4; ++j) words[j] = word_at(offset_of(column[j], row[k]));
      const auto add = [&](auto byte) HWY_ATTR {
        constexpr int kByte = decltype(byte)::value;
        const V term = hn::Mul(down.weight[k], across.sum(byte_of<kByte>(words[0]), byte_of<kByte>(words[1]),
                                                          byte_of<kByte>(words[2]), byte_of<kByte>(words[3])));
        sum.channel[kByte] = k == 0 ? term : hn::Add(sum.channel[kByte], term);
      };
      add(std::integral_constant<int, 0>());
      if constexpr (kChannels == 3) add(std::integral_constant<int, 1>()), add(std::integral_constant<int, 2>());
    }
    for (V& level : sum.channel) level = hn::Min(hn::Max(level, zero), hn::Set(d, 255.f));
    return sum;
  }

  /// `pixel` limited to 0 .. size - 1.
  static HWY_INLINE V within(V pixel, V size) {
    return hn::Min(hn::Max(pixel, hn::Zero(D())), hn::Sub(size, hn::Set(D(), 1.f)));
  }

  const uint32_t* pixels_;
  VU last_word_;
  VI stride_, origin_;
  V width_, height_;
  V fill_[kChannels];
};

/// Applies the colour matrix and the point steps, then either normalises and stores f32 planes, or rounds and stores u8
/// pixels. The planes are those of the output itself, or lines of one row that end_row() converts to the layout.
template <int kChannels, Store kStore>
class Finisher {
 public:
  explicit Finisher(const RenderJob& job)
      : width_(job.plan->output_width), is_recolored_(job.is_recolored), points_(job.points) {
    Levels<kChannels> fill;
    for (int i = 0; i < kChannels; ++i) fill.channel[i] = hn::Set(D(), job.fill_level[i]);
    fill = colored(fill, points_);
    for (int i = 0; i < kChannels; ++i) {
      scale_[i] = hn::Set(D(), job.normalization.scale[i]);
      bias_[i] = hn::Set(D(), job.normalization.bias[i]);
      for (int j = 0; j < 4; ++j) color_[i][j] = hn::Set(D(), job.plan->color[i][j]);
      const float level = hn::GetLane(fill.channel[i]);
      filled_[i] = kStore == Store::kPlanes ? level * job.normalization.scale[i] + job.normalization.bias[i]
                                            : std::nearbyint(std::clamp(level, 0.f, 255.f));
    }
    if constexpr (kStore == Store::kBytes) {
      bytes_ = static_cast<uint8_t*>(job.output);
    } else if (job.layout == Layout::kF32Nchw) {
      planes_ = static_cast<float*>(job.output);
      plane_ = static_cast<ptrdiff_t>(width_) * job.plan->output_height;
      row_stride_ = width_;
    } else {
      auto& planes = render_scratch().planes;
      planes.resize(static_cast<size_t>(width_) * kChannels);
      planes_ = planes.data();
      plane_ = width_;
      converted_ = &job;
    }
  }

  HWY_INLINE void put(const Levels<kChannels>& levels, int row, int column, int count) const {
    const Levels<kChannels> finished = colored(is_recolored_ ? recolored(levels) : levels, points_);
    if constexpr (kStore == Store::kPlanes) {
      for (int i = 0; i < kChannels; ++i) {
        const V value = hn::Add(hn::Mul(finished.channel[i], scale_[i]), bias_[i]);
        store(value, planes_ + i * plane_ + row * row_stride_ + column, count);
      }
    } else {
      put_bytes(finished, bytes_ + (static_cast<ptrdiff_t>(row) * width_ + column) * kChannels, count);
    }
  }

  /// Whether finishing is level * scale + bias and nothing else. A caller that has levels may then write the planes of
  /// the row itself.
  bool is_plain() const { return kStore == Store::kPlanes && !is_recolored_ && points_.empty(); }
  float* row_planes(int row) const { return planes_ + row * row_stride_; }
  ptrdiff_t plane_stride() const { return plane_; }

  /// Writes the fill to the columns [begin, end).
  HWY_INLINE void fill(int row, int begin, int end) const {
    for (int i = 0; i < kChannels; ++i) {
      if constexpr (kStore == Store::kPlanes) {
        float* plane = planes_ + i * plane_ + row * row_stride_;
        std::fill(plane + begin, plane + std::max(begin, end), filled_[i]);
      } else {
        uint8_t* pixels = bytes_ + static_cast<ptrdiff_t>(row) * width_ * kChannels + i;
        for (int column = begin; column < end; ++column) pixels[column * kChannels] = static_cast<uint8_t>(filled_[i]);
      }
    }
  }

  /// Must be called after the last put() and fill() of a row.
  HWY_INLINE void end_row(int row) const {
    if (converted_ != nullptr) convert_row(*converted_, kChannels, planes_, row);
  }

 private:
  HWY_INLINE Levels<kChannels> recolored(const Levels<kChannels>& in) const {
    if constexpr (kChannels == 1) {
      return {{hn::Add(hn::Mul(in.channel[0], color_[0][0]), color_[0][3])}};
    } else {
      Levels<kChannels> out;
      for (int i = 0; i < kChannels; ++i) {
        const V red_green = hn::Add(hn::Mul(in.channel[0], color_[i][0]), hn::Mul(in.channel[1], color_[i][1]));
        out.channel[i] = hn::Add(hn::Add(red_green, hn::Mul(in.channel[2], color_[i][2])), color_[i][3]);
      }
      return out;
    }
  }

  static HWY_INLINE void store(V value, float* to, int count) {
    if (count == kLanes) return hn::StoreU(value, D(), to);
    HWY_ALIGN float lanes[kLanes];
    hn::Store(value, D(), lanes);
    std::memcpy(to, lanes, static_cast<size_t>(count) * sizeof(float));
  }

  static HWY_INLINE hn::Vec<D8> rounded(V level) {
    const D d;
    const V clamped = hn::Min(hn::Max(level, hn::Zero(d)), hn::Set(d, 255.f));
    return hn::DemoteTo(D8(), hn::NearestInt(clamped));
  }

  static HWY_INLINE void put_bytes(const Levels<kChannels>& levels, uint8_t* to, int count) {
    uint8_t part[kChannels * kLanes];
    uint8_t* whole = count == kLanes ? to : part;
    if constexpr (kChannels == 1) {
      hn::StoreU(rounded(levels.channel[0]), D8(), whole);
    } else {
      hn::StoreInterleaved3(rounded(levels.channel[0]), rounded(levels.channel[1]), rounded(levels.channel[2]), D8(),
                            whole);
    }
    if (whole == part) std::memcpy(to, part, static_cast<size_t>(count) * kChannels);
  }

  float* planes_ = nullptr;
  uint8_t* bytes_ = nullptr;
  ptrdiff_t plane_ = 0, row_stride_ = 0;  // in floats
  const RenderJob* converted_ = nullptr;  // set where planes_ is a row that has to be converted
  int width_;
  bool is_recolored_;
  std::span<const PointStep> points_;
  V scale_[kChannels], bias_[kChannels], color_[kChannels][4];
  float filled_[kChannels];
};

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard, toggled for each target
