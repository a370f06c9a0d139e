// render_raster(): the rows of render() for rasters, compiled once for each instruction set, whose loops the compiler
// turns into vectors.
//
// Every row is made as f32 levels, C x W, and then stored in the layout. Coordinates and bilinear weights are computed
// in the steps of render_rows.cpp, so that the levels of u8 pictures are those of render(), bit by bit. kAntialias
// along the axes has the taps of tap_weights.h as well, but f32 weights and sums in place of fixed point.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/kernels/render_raster.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "augment/kernels/raster_points-inl.h"
#include "augment/kernels/render_raster.h"
#include "augment/kernels/render_vectors-inl.h"
#include "augment/pixels/half.h"
#include "augment/plan/footprint.h"
#include "augment/plan/sampling.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

template <class T>
float level_at(const uint8_t* pixel, ptrdiff_t channel) {
  T level;
  std::memcpy(&level, pixel + channel * static_cast<ptrdiff_t>(sizeof(T)), sizeof level);
  return static_cast<float>(level);
}

/// The taps of one axis: of output pixel begin + i, `weights[k * count + i]` for the pixel first[i] + k.
struct FloatTaps {
  int begin = 0, end = 0;              // output pixels whose centres are in the picture; the others take the fill
  int first_pixel = 0, pixel_end = 0;  // picture pixels from the first tap to the last one
  int tap_count = 0;
  std::vector<int32_t> first;
  std::vector<float> weights;

  int count() const { return end - begin; }

  explicit FloatTaps(const Axis& axis) : first_pixel(axis.input_size), tap_count(penstock::detail::tap_count(axis)) {
    while (begin < axis.output_size && !axis.holds(axis.center(begin))) ++begin;
    for (end = begin; end < axis.output_size && axis.holds(axis.center(end));) ++end;
    const auto stride = static_cast<size_t>(count());
    weights.assign(stride * static_cast<size_t>(tap_count), 0);
    const double inverse = 1 / axis.reach();
    for (int i = 0; i < count(); ++i) {
      const double center = axis.center(begin + i);
      const TapSpan span = tap_span(axis, center);
      const auto height = [&](int pixel) { return std::max(1 - absolute(pixel + 0.5 - center) * inverse, 0.0); };
      double total = 0;
      for (int pixel = span.begin; pixel < span.end; ++pixel) total += height(pixel);
      for (int pixel = span.begin; pixel < std::min(span.end, span.begin + tap_count); ++pixel)
        weights[static_cast<size_t>(pixel - span.begin) * stride + static_cast<size_t>(i)] =
            static_cast<float>(height(pixel) / total);
      first.push_back(span.begin);
      first_pixel = std::min(first_pixel, span.begin);
      pixel_end = std::max(pixel_end, span.end);
    }
  }
};

/// Renders one raster to rows of f32 levels, one plane after the other. kChannels is 0 where the compiler does not know
/// them.
template <class T, int kChannels>
class RasterRows {
 public:
  RasterRows(const Picture& picture, const Plan& plan)
      : picture_(picture), plan_(plan), width_(plan.output_width), channels_(picture.channels) {
    for (ptrdiff_t c = 0; c < channels(); ++c) fill_[static_cast<size_t>(c)] = plan.fill[channels() > 3 ? 0 : c];
  }

  /// Calls put(row, levels) for each row, with C x W levels.
  template <class Put>
  void each(const Put& put) {
    line_.resize(static_cast<size_t>(width_ * channels()));
    // Where the map is a translation, all filters give the same.
    if (is_translation(plan_.map) || plan_.filter == Filter::kNearest) return each_point<Filter::kNearest>(put);
    const SamplingAxes axes = sampling_axes(plan_);
    if (!axes.are_filtered) return each_point<Filter::kBilinear>(put);
    if (!axes.turns) return each_filtered(FloatTaps(axes.x), FloatTaps(axes.y), put);
    std::vector<uint8_t> pixels;
    const Picture turned = transposed(pixels);
    RasterRows<T, kChannels> rows(turned, plan_);
    rows.line_.resize(line_.size());
    rows.each_filtered(FloatTaps(axes.y), FloatTaps(axes.x), put);
  }

 private:
  ptrdiff_t channels() const { return kChannels > 0 ? kChannels : channels_; }
  /// Row y of the stored picture, from its column 0 on, of which not all need be there.
  const uint8_t* row_at(ptrdiff_t y) const {
    return picture_.pixels + (y - picture_.y) * picture_.row_stride - picture_.x * pixel_bytes();
  }
  ptrdiff_t pixel_bytes() const { return channels() * static_cast<ptrdiff_t>(sizeof(T)); }

  void fill(ptrdiff_t begin, ptrdiff_t end) {
    for (ptrdiff_t c = 0; c < channels(); ++c)
      std::fill(line_.begin() + c * width_ + begin, line_.begin() + c * width_ + end, fill_[static_cast<size_t>(c)]);
  }

  /// Offsets of a vector of pixels have 32 bits, and pixels are fetched in words.
  template <Filter kFilter, class Put>
  void each_point(const Put& put) {
    const bool is_empty = picture_.height == 0 || picture_.width == 0;
    const int64_t byte_count =
        is_empty ? 0 : (picture_.height - 1) * int64_t{picture_.row_stride} + picture_.width * pixel_bytes();
    if (byte_count < 4 || byte_count > INT32_MAX || picture_.row_stride > INT32_MAX) return each_mapped<kFilter>(put);
    const Affine& map = plan_.map;
    const D d;
    const V xx = hn::Set(d, static_cast<float>(map.xx)), yx = hn::Set(d, static_cast<float>(map.yx));
    const V half_iota = hn::Iota(d, 0.5F);
    const PointSampler<T> sampler(picture_, plan_, static_cast<uint32_t>(byte_count - 4));
    for (int row = 0; row < plan_.output_height; ++row) {
      const V row_x = hn::Set(d, static_cast<float>(map.xy * (row + 0.5) + map.x0));
      const V row_y = hn::Set(d, static_cast<float>(map.yy * (row + 0.5) + map.y0));
      for_each_vector(0, plan_.output_width, [&](int column, int count) HWY_ATTR {
        const V center = hn::Add(half_iota, hn::Set(d, static_cast<float>(column)));
        const V x = hn::Add(hn::Mul(center, xx), row_x), y = hn::Add(hn::Mul(center, yx), row_y);
        const auto point = sampler.template at<kFilter>(x, y);
        for (ptrdiff_t c = 0; c < channels(); ++c) {
          const V level = hn::IfThenElse(point.is_inside, sampler.template level<kFilter>(point, c),
                                         hn::Set(d, fill_[static_cast<size_t>(c)]));
          float* const out = &line_[static_cast<size_t>(c * width_ + column)];
          if (count == kLanes) {
            hn::StoreU(level, d, out);
            continue;
          }
          HWY_ALIGN float lanes[kLanes];
          hn::Store(level, d, lanes);
          std::copy(lanes, lanes + count, out);
        }
      });
      put(row, line_.data());
    }
  }

  /// The same pixel by pixel, for very small and very large pictures.
  template <Filter kFilter, class Put>
  void each_mapped(const Put& put) {
    const Affine& map = plan_.map;
    const auto xx = static_cast<float>(map.xx), yx = static_cast<float>(map.yx);
    const auto width = static_cast<float>(plan_.input_width), height = static_cast<float>(plan_.input_height);
    for (int row = 0; row < plan_.output_height; ++row) {
      const auto row_x = static_cast<float>(map.xy * (row + 0.5) + map.x0);
      const auto row_y = static_cast<float>(map.yy * (row + 0.5) + map.y0);
      for (int column = 0; column < plan_.output_width; ++column) {
        const float center = static_cast<float>(column) + 0.5F;
        const float x = center * xx + row_x, y = center * yx + row_y;
        if (!(x >= 0 && x < width && y >= 0 && y < height))
          fill(column, column + 1);
        else if constexpr (kFilter == Filter::kNearest)
          take_nearest(x, y, &line_[static_cast<size_t>(column)]);
        else
          take_bilinear(x, y, &line_[static_cast<size_t>(column)]);
      }
      put(row, line_.data());
    }
  }

  void take_nearest(float x, float y, float* out) const {
    const uint8_t* const pixel = row_at(static_cast<ptrdiff_t>(y)) + static_cast<ptrdiff_t>(x) * pixel_bytes();
    for (ptrdiff_t c = 0; c < channels(); ++c) out[c * width_] = level_at<T>(pixel, c);
  }

  /// As Sampler::bilinear(): vertically first. In the last column and row the weight is 0, and the pixel itself stands
  /// for the one after it.
  void take_bilinear(float x, float y, float* out) const {
    const float u = std::clamp(x - 0.5F, 0.F, static_cast<float>(plan_.input_width) - 1);
    const float v = std::clamp(y - 0.5F, 0.F, static_cast<float>(plan_.input_height) - 1);
    const auto column = static_cast<ptrdiff_t>(u), row = static_cast<ptrdiff_t>(v);
    const float wx = u - static_cast<float>(column), wy = v - static_cast<float>(row);
    const ptrdiff_t right = column + 1 < plan_.input_width ? pixel_bytes() : 0;
    const uint8_t* const upper = row_at(row) + column * pixel_bytes();
    const uint8_t* const lower = row + 1 < plan_.input_height ? upper + picture_.row_stride : upper;
    const auto mix = [](float a, float b, float weight) HWY_ATTR { return a + weight * (b - a); };
    for (ptrdiff_t c = 0; c < channels(); ++c)
      out[c * width_] = mix(mix(level_at<T>(upper, c), level_at<T>(lower, c), wy),
                            mix(level_at<T>(upper + right, c), level_at<T>(lower + right, c), wy), wx);
  }

  template <class Put>
  void each_filtered(const FloatTaps& across, const FloatTaps& down, const Put& put) {
    const ptrdiff_t mixed_count = std::max(across.pixel_end - across.first_pixel, 0) * channels();
    // Taps of weight 0 may lie after the last pixel.
    mixed_.assign(static_cast<size_t>(mixed_count + across.tap_count * channels()), 0);
    offset_.resize(across.first.size());
    for (size_t i = 0; i < offset_.size(); ++i)
      offset_[i] = static_cast<int32_t>((across.first[i] - across.first_pixel) * channels());
    for (int row = 0; row < plan_.output_height; ++row) {
      const bool is_seen = row >= down.begin && row < down.end && across.count() > 0;
      fill(0, is_seen ? across.begin : plan_.output_width);
      if (is_seen) {
        mix_rows(down, row - down.begin, across.first_pixel, mixed_count);
        filter_row(across);
        fill(across.end, plan_.output_width);
      }
      put(row, line_.data());
    }
  }

  /// The first pass: weighted sums of rows, from column first_pixel on.
  void mix_rows(const FloatTaps& down, int i, ptrdiff_t first_pixel, ptrdiff_t count) {
    float* const mixed = mixed_.data();
    bool is_first = true;
    for (int k = 0; k < down.tap_count; ++k) {
      const float weight = down.weights[static_cast<size_t>(k * down.count() + i)];
      if (weight == 0) continue;  // that row may not have been decoded
      const uint8_t* const from = row_at(down.first[static_cast<size_t>(i)] + k) + first_pixel * pixel_bytes();
      if (is_first)
        for (ptrdiff_t j = 0; j < count; ++j) mixed[j] = weight * level_at<T>(from, j);
      else
        for (ptrdiff_t j = 0; j < count; ++j) mixed[j] += weight * level_at<T>(from, j);
      is_first = false;
    }
  }

  /// The second pass.
  void filter_row(const FloatTaps& across) {
    const int count = across.count();
    const int32_t* const offset = offset_.data();
    for (ptrdiff_t c = 0; c < channels(); ++c) {
      float* const __restrict out = &line_[static_cast<size_t>(c * width_ + across.begin)];
      for (int k = 0; k < across.tap_count; ++k) {
        const float* const __restrict weights = &across.weights[static_cast<size_t>(k) * static_cast<size_t>(count)];
        const float* const __restrict from = mixed_.data() + k * channels() + c;
        if (k == 0)
          for (int i = 0; i < count; ++i) out[i] = weights[i] * from[offset[i]];
        else
          for (int i = 0; i < count; ++i) out[i] += weights[i] * from[offset[i]];
      }
    }
  }

  /// The footprint with its rows as columns.
  Picture transposed(std::vector<uint8_t>& pixels) const {
    const Region region = footprint(plan_);
    const auto bytes = static_cast<size_t>(pixel_bytes());
    pixels.resize(static_cast<size_t>(region.width) * static_cast<size_t>(region.height) * bytes);
    uint8_t* to = pixels.data();
    for (int x = region.x; x < region.x + region.width; ++x)
      for (int y = region.y; y < region.y + region.height; ++y, to += bytes)
        std::memcpy(to, row_at(y) + x * pixel_bytes(), bytes);
    return {pixels.data(),     region.height * pixel_bytes(),
            region.width,      region.height,
            picture_.channels, region.y,
            region.x,          picture_.type};
  }

  const Picture picture_;
  const Plan& plan_;
  ptrdiff_t width_, channels_;
  std::array<float, kMaxChannels> fill_{};
  std::vector<float> line_, mixed_;
  std::vector<int32_t> offset_;  // one entry per output pixel: of its first tap in mixed_
};

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

template <class T>
void render_as(const Picture& picture, const Plan& plan, const RasterStore& store) {
  const auto put = [&](int row, const float* levels) HWY_ATTR { store.put(row, levels); };
  if (picture.channels == 1) return RasterRows<T, 1>(picture, plan).each(put);
  if (picture.channels == 3) return RasterRows<T, 3>(picture, plan).each(put);
  RasterRows<T, 0>(picture, plan).each(put);
}

void render_raster(const Picture& picture, const Plan& plan, const Normalization& normalization, Layout layout,
                   void* output) {
  const RasterStore store(plan, picture.channels, normalization, layout, output);
  switch (picture.type) {
    case PixelType::kU8:
      return render_as<uint8_t>(picture, plan, store);
    case PixelType::kU16:
      return render_as<uint16_t>(picture, plan, store);
    case PixelType::kF32:
      return render_as<float>(picture, plan, store);
  }
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::detail {

HWY_EXPORT(render_raster);

void render_raster(const Picture& picture, const Plan& plan, const Normalization& normalization, Layout layout,
                   void* output) {
  HWY_DYNAMIC_DISPATCH(render_raster)(picture, plan, normalization, layout, output);
}

}  // namespace penstock::detail
#endif  // HWY_ONCE
