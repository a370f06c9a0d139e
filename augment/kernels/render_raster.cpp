// render_raster(): the rows of render() for rasters, compiled once for each instruction set, whose loops the compiler
// turns into vectors.
//
// Every row is made as f32 levels, C x W, and then stored in the layout. Coordinates and bilinear weights are computed
// in the steps of render_rows.cpp, so that the levels of u8 pictures are those of render(), bit by bit. Filters along
// the axes have the taps of tap_weights.h as well, but f32 weights and sums in place of fixed point. With negative
// weights the passes have the order of lobed_rows(), and sums of whole numbers are limited to their range after each.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "augment/kernels/render_raster.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "augment/kernels/float_taps.h"
#include "augment/kernels/raster_points-inl.h"
#include "augment/kernels/raster_store-inl.h"
#include "augment/kernels/render_raster.h"
#include "augment/kernels/render_vectors-inl.h"
#include "augment/pixels/cubic_weights.h"
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
    if (!axes.are_filtered && point_filter(plan_.filter) == Filter::kBicubic) return each_point<Filter::kBicubic>(put);
    if (!axes.are_filtered) return each_point<Filter::kBilinear>(put);
    if (!axes.turns) return each_along(axes.x, axes.y, put);
    std::vector<uint8_t> pixels;
    const Picture turned = transposed(pixels);
    RasterRows<T, kChannels> rows(turned, plan_);
    rows.line_.resize(line_.size());
    rows.each_along(axes.y, axes.x, put);
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
        const auto point = point_at<kFilter>(sampler, x, y);
        for (ptrdiff_t c = 0; c < channels(); ++c) {
          const V level = hn::IfThenElse(point.is_inside, level_of<kFilter>(sampler, point, c),
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

  template <Filter kFilter>
  static HWY_INLINE auto point_at(const PointSampler<T>& sampler, V x, V y) {
    if constexpr (kFilter == Filter::kBicubic)
      return sampler.cubic_at(x, y);
    else
      return sampler.template at<kFilter>(x, y);
  }

  template <Filter kFilter, class Points>
  static HWY_INLINE V level_of(const PointSampler<T>& sampler, const Points& points, ptrdiff_t channel) {
    if constexpr (kFilter == Filter::kBicubic)
      return sampler.cubic_level(points, channel);
    else
      return sampler.template level<kFilter>(points, channel);
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
        else if constexpr (kFilter == Filter::kBicubic)
          take_bicubic(x, y, &line_[static_cast<size_t>(column)]);
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

  /// As Sampler::bicubic().
  void take_bicubic(float x, float y, float* out) const {
    const float u = std::floor(x - 0.5F), v = std::floor(y - 0.5F);
    float across[4], down[4];
    cubic_weights(x - 0.5F - u, across);
    cubic_weights(y - 0.5F - v, down);
    const auto within = [](float pixel, int size) {
      return static_cast<ptrdiff_t>(std::min(std::max(pixel, 0.F), static_cast<float>(size) - 1));
    };
    for (ptrdiff_t c = 0; c < channels(); ++c) {
      float sum = 0;
      for (int k = 0; k < 4; ++k) {
        const uint8_t* const row = row_at(within(v + static_cast<float>(k - 1), plan_.input_height));
        const auto term = [&](int j) {
          const ptrdiff_t column = within(u + static_cast<float>(j - 1), plan_.input_width);
          return across[j] * level_at<T>(row + column * pixel_bytes(), c);
        };
        const float of_row = down[k] * (((term(0) + term(1)) + term(2)) + term(3));
        sum = k == 0 ? of_row : sum + of_row;
      }
      out[c * width_] = limited(sum);
    }
  }

  /// A level that the type can have.
  static float limited(float level) {
    if constexpr (std::is_integral_v<T>)
      return std::min(std::max(level, 0.F), static_cast<float>(std::numeric_limits<T>::max()));
    return level;
  }

  static void limit(float* levels, ptrdiff_t count) { std::transform(levels, levels + count, levels, limited); }

  template <class Put>
  void each_along(const Axis& columns, const Axis& rows, const Put& put) {
    const bool limits = has_lobes(columns.kernel);
    if (limits && !goes_down_first(columns, rows)) return each_lobed(FloatTaps(columns), FloatTaps(rows), put);
    each_filtered(FloatTaps(columns), FloatTaps(rows), limits, put);
  }

  /// Across first.
  template <class Put>
  void each_lobed(const FloatTaps& across, const FloatTaps& down, const Put& put) {
    const ptrdiff_t row_size = across.count() * channels();
    const int row_count = across.count() > 0 ? std::max(down.pixel_end - down.first_pixel, 0) : 0;
    mixed_.resize(static_cast<size_t>(row_size * row_count));
    for (int row = 0; row < row_count; ++row)
      filter_picture_row(across, row_at(down.first_pixel + row), &mixed_[static_cast<size_t>(row * row_size)]);
    for (int row = 0; row < plan_.output_height; ++row) {
      const bool is_seen = row >= down.begin && row < down.end && across.count() > 0;
      fill(0, is_seen ? across.begin : plan_.output_width);
      if (is_seen) {
        mix_filtered_rows(across, down, row - down.begin);
        fill(across.end, plan_.output_width);
      }
      put(row, line_.data());
    }
  }

  /// One row of the picture as planes of across.count() levels. Taps of weight 0 may not have been decoded.
  void filter_picture_row(const FloatTaps& across, const uint8_t* from, float* out) const {
    const int count = across.count();
    for (ptrdiff_t c = 0; c < channels(); ++c)
      for (int i = 0; i < count; ++i) {
        float sum = 0;
        for (int k = 0; k < across.tap_count; ++k) {
          const float weight =
              across.weights[static_cast<size_t>(k) * static_cast<size_t>(count) + static_cast<size_t>(i)];
          if (weight != 0)
            sum += weight * level_at<T>(from + (across.first[static_cast<size_t>(i)] + k) * pixel_bytes(), c);
        }
        out[c * count + i] = limited(sum);
      }
  }

  void mix_filtered_rows(const FloatTaps& across, const FloatTaps& down, int row) {
    const int count = across.count();
    const ptrdiff_t row_size = count * channels();
    const float* const first = mixed_.data() + (down.first[static_cast<size_t>(row)] - down.first_pixel) * row_size;
    for (ptrdiff_t c = 0; c < channels(); ++c) {
      float* const out = &line_[static_cast<size_t>(c * width_ + across.begin)];
      std::fill(out, out + count, 0.F);
      for (int k = 0; k < down.tap_count; ++k) {
        const float weight = down.weights[static_cast<size_t>(k * down.count() + row)];
        if (weight == 0) continue;
        const float* const from = first + k * row_size + c * count;
        for (int i = 0; i < count; ++i) out[i] += weight * from[i];
      }
      limit(out, count);
    }
  }

  template <class Put>
  void each_filtered(const FloatTaps& across, const FloatTaps& down, bool limits, const Put& put) {
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
        if (limits) limit(mixed_.data(), mixed_count);
        filter_row(across);
        for (ptrdiff_t c = 0; limits && c < channels(); ++c) limit(&line_[c * width_ + across.begin], across.count());
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
