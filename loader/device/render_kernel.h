// weigh_taps_of() and render_row(): from pixels to rows of the batch: crop, resize, colour matrix, normalise, erase.
//
// They do the operations of render() one by one, in the same order and precision, so that the result is render()'s to
// the bit where f64 and f32 arithmetic are IEEE's: sums of taps are integers, and products are never fused with sums.
#pragma once

#include "augment/pixels/cubic_weights.h"
#include "augment/pixels/tap_weights.h"
#include "loader/device/finish_pixel.h"
#include "loader/device/job.h"
#include "loader/device/thread_block.h"

namespace penstock::detail {

/// Task: kTapThreads output pixels of one axis of one row of the batch: first the columns, then the rows.
/// Block: kTapThreads.
inline void weigh_taps_of(const ThreadBlock& block, const KernelArguments& given, uint64_t task) {
  const int column_blocks = divided_up(given.output_width, kTapThreads);
  const int blocks = column_blocks + divided_up(given.output_height, kTapThreads);
  const RowJob& job = given.jobs[task / static_cast<uint64_t>(blocks)];
  if (job.sampling != Sampling::kFiltered) return;
  const int part = static_cast<int>(task % static_cast<uint64_t>(blocks));
  const AxisJob& axis = part < column_blocks ? job.columns : job.rows;
  const int first_pixel = (part < column_blocks ? part : part - column_blocks) * kTapThreads;
  block.each([&](int thread) {
    const int i = first_pixel + thread;
    if (i < axis.begin || i >= axis.end) return;
    auto* const weights = reinterpret_cast<int16_t*>(given.scratch + axis.weights) + i * axis.tap_count;
    const auto put = [&](int tap, uint32_t weight) { weights[tap] = static_cast<int16_t>(weight); };
    const double center = axis.axis.center(i), inverse = 1 / axis.axis.unit();
    reinterpret_cast<int32_t*>(given.scratch + axis.first)[i] = with_kernel(axis.axis.kernel, [&](auto kernel) {
      return weigh_taps<decltype(kernel)::value, 0>(axis.axis, center, inverse, axis.tap_count, put).begin;
    });
  });
}

constexpr int kSegment = 512;  // pixels of the mixed line that are held at a time: with a reduction of up to 7, all

/// Memory: 4 KB. It is not initialised.
struct RenderShared {
  int16_t line[kSegment * 3];        // levels * 2^7
  int32_t sums[kRenderThreads * 3];  // 2^21 to a level
};

/// Renders up to kRenderThreads neighbouring output pixels of one output row.
class RowRenderer {
 public:
  RowRenderer(const ThreadBlock& block, RenderShared& shared, const KernelArguments& given, int row, int output_row,
              int first_column)
      : block_(block),
        shared_(shared),
        given_(given),
        job_(given.jobs[row]),
        pixels_((job_.are_pixels_stored ? reinterpret_cast<const uint8_t*>(given.stores) : given.scratch) +
                job_.pixels),
        channel_step_(job_.pixel_channels == 1 ? 0 : 1),
        row_(row),
        output_row_(output_row),
        shown_row_(shown(output_row, job_.inside.top, job_.inside.bottom)),
        first_column_(first_column),
        count_(given.output_width - first_column < kRenderThreads ? given.output_width - first_column
                                                                  : kRenderThreads) {}

  void run() {
    if (given_.status[row_] != 0 || job_.sampling == Sampling::kZeros) return write_zeros();
    if (job_.sampling == Sampling::kFiltered && !has_lobes(job_.columns.axis.kernel)) return filtered();
    block_.each([&](int thread) {
      if (thread >= count_) return;
      float levels[3];
      if (job_.sampling == Sampling::kFiltered)
        lobed(shown_column(first_column_ + thread), levels);
      else
        point(shown_column(first_column_ + thread), levels);
      write(first_column_ + thread, levels);
    });
  }

 private:
  /// Also for a row whose store was refused: the host learns of it from the status.
  void write_zeros() {
    block_.each([&](int thread) {
      if (thread >= count_) return;
      for (int i = 0; i < given_.channels; ++i) store_value(given_, output_at(first_column_ + thread), i, 0);
    });
  }

  OutputPixel output_at(int column) const { return {row_, output_row_, column}; }

  /// The row or column of the output whose pixels stand in this one: another one in a border.
  int shown(int at, int begin, int end) const {
    return job_.border == Border::kFill ? at : begin + pixel_at(job_.border, at - begin, end - begin);
  }
  int shown_column(int column) const { return shown(column, job_.inside.left, job_.inside.right); }

  /// The pixel in column x and row y of the view. Coordinates outside of what was decoded take its edge: such a pixel
  /// has weight 0.
  const uint8_t* pixel(int x, int y) const {
    const auto inside = [](int value, int count) { return value < 0 ? 0 : value >= count ? count - 1 : value; };
    const int column = inside(x - job_.window_x, job_.pixel_width), row = inside(y - job_.window_y, job_.pixel_height);
    return pixels_ + (static_cast<int64_t>(row) * job_.pixel_columns + column) * job_.pixel_channels;
  }

  void fill(float (&levels)[3]) const {
    for (int i = 0; i < 3; ++i) levels[i] = job_.fill[i];
  }

  /// As Sampler of augment/kernels/render_lanes-inl.h.
  void point(int column, float (&levels)[3]) const {
    const auto at = [&](const double* map) {
      const auto from_row = static_cast<float>(map[1] * (shown_row_ + 0.5) + map[2]);
      return (static_cast<float>(column) + 0.5f) * static_cast<float>(map[0]) + from_row;
    };
    const float x = at(job_.map), y = at(job_.map + 3);
    const auto width = static_cast<float>(job_.view_width), height = static_cast<float>(job_.view_height);
    if (job_.sampling == Sampling::kNothing || !(x >= 0 && x < width && y >= 0 && y < height)) return fill(levels);
    if (job_.sampling == Sampling::kNearest) {
      const uint8_t* from = pixel(static_cast<int>(x), static_cast<int>(y));
      for (int i = 0; i < job_.channels; ++i) levels[i] = from[i * channel_step_];
      return;
    }
    if (job_.sampling == Sampling::kBicubic) return bicubic(x - 0.5f, y - 0.5f, levels);
    const auto shifted = [](float v, float size) {
      const float moved = v - 0.5f > 0 ? v - 0.5f : 0;
      return moved < size - 1 ? moved : size - 1;
    };
    const float u = shifted(x, width), v = shifted(y, height);
    const int left = static_cast<int>(u), upper = static_cast<int>(v);
    const float wx = u - static_cast<float>(left), wy = v - static_cast<float>(upper);
    const uint8_t *a = pixel(left, upper), *b = pixel(left, upper + 1), *c = pixel(left + 1, upper),
                  *d = pixel(left + 1, upper + 1);
    const auto mix = [](float from, float to, float weight) { return from + weight * (to - from); };
    for (int i = 0, k = 0; i < job_.channels; ++i, k += channel_step_)
      levels[i] = mix(mix(a[k], b[k], wy), mix(c[k], d[k], wy), wx);
  }

  /// As Sampler::bicubic(). `u` and `v` are counted from the centre of the first pixel.
  void bicubic(float u, float v, float (&levels)[3]) const {
    const int left = floor_of(u), top = floor_of(v);
    float across[4], down[4];
    cubic_weights(u - static_cast<float>(left), across);
    cubic_weights(v - static_cast<float>(top), down);
    const auto within = [](int pixel, int size) { return pixel < 0 ? 0 : pixel >= size ? size - 1 : pixel; };
    for (int i = 0; i < job_.channels; ++i) {
      float sum = 0;
      for (int k = 0; k < 4; ++k) {
        const int row = within(top + k - 1, job_.view_height);
        float terms[4];
        for (int j = 0; j < 4; ++j)
          terms[j] =
              across[j] * static_cast<float>(pixel(within(left + j - 1, job_.view_width), row)[i * channel_step_]);
        const float term = down[k] * (((terms[0] + terms[1]) + terms[2]) + terms[3]);
        sum = k == 0 ? term : sum + term;
      }
      levels[i] = sum < 0 ? 0 : sum > 255 ? 255 : sum;
    }
  }

  static int floor_of(float value) {
    const int cut = static_cast<int>(value);
    return value < static_cast<float>(cut) ? cut - 1 : cut;
  }

  /// As lobed_rows() of augment/kernels/render_lobed-inl.h, but each thread makes what it needs of the first pass
  /// itself: 4 sums of 4 taps with bicubic where the picture is not made smaller, and 8 of 8 at half its size.
  void lobed(int column, float (&levels)[3]) const {
    const AxisJob &across = job_.columns, &down = job_.rows;
    if (column < across.begin || column >= across.end || shown_row_ < down.begin || shown_row_ >= down.end)
      return fill(levels);
    const BothTaps taps{firsts(across)[column], firsts(down)[shown_row_], weights(across, column),
                        weights(down, shown_row_)};
    for (int i = 0; i < job_.channels; ++i)
      levels[i] = goes_down_first(across.axis, down.axis) ? down_first(taps, i * channel_step_)
                                                          : across_first(taps, i * channel_step_);
  }

  /// The first pixel and the weights of an output pixel along both axes of the output.
  struct BothTaps {
    int first_column, first_row;
    const int16_t *columns, *rows;
  };

  int level_at(const BothTaps& taps, int column_tap, int row_tap, int channel) const {
    const int p = taps.first_column + column_tap, q = taps.first_row + row_tap;
    return (job_.turns ? pixel(q, p) : pixel(p, q))[channel];
  }

  float across_first(const BothTaps& taps, int channel) const {
    int sum = 1 << (kWeightBits - 1);
    for (int row = 0; row < job_.rows.tap_count; ++row) {
      if (taps.rows[row] == 0) continue;
      int of_row = kHalfOfMixed;
      for (int column = 0; column < job_.columns.tap_count; ++column)
        of_row += taps.columns[column] * level_at(taps, column, row, channel);
      sum += taps.rows[row] * limited(of_row >> kMixedShift, kWhiteOfLine);
    }
    return static_cast<float>(limited(sum >> kWeightBits, kWhiteOfLine)) * (1.f / (1 << kLineBits));
  }

  float down_first(const BothTaps& taps, int channel) const {
    int sum = 0;
    for (int column = 0; column < job_.columns.tap_count; ++column) {
      if (taps.columns[column] == 0) continue;
      int of_column = kHalfOfMixed;
      for (int row = 0; row < job_.rows.tap_count; ++row)
        of_column += taps.rows[row] * level_at(taps, column, row, channel);
      sum += taps.columns[column] * limited(of_column >> kMixedShift, kWhiteOfLine);
    }
    return static_cast<float>(limited(sum, kWhiteOfLine << kWeightBits)) * kLevelOfSum;
  }

  static int limited(int value, int most) { return value < 0 ? 0 : value > most ? most : value; }

  const int32_t* firsts(const AxisJob& axis) const {
    return reinterpret_cast<const int32_t*>(given_.scratch + axis.first);
  }
  const int16_t* weights(const AxisJob& axis, int i) const {
    return reinterpret_cast<const int16_t*>(given_.scratch + axis.weights) + i * axis.tap_count;
  }

  /// As filtered_rows() of augment/kernels/render_filtered-inl.h: the pixels of this output row are mixed into a line,
  /// and each output pixel sums taps of the line. Where the map turns, the line runs along a column of the picture.
  void filtered() {
    const AxisJob& across = job_.columns;
    // A pixel of a border may stand for one of another block, so that all columns that show the picture are looked at.
    const bool has_border = job_.border != Border::kFill &&
                            (first_column_ < job_.inside.left || first_column_ + count_ > job_.inside.right);
    const int first = has_border ? 0 : first_column_,
              stop_column = has_border ? given_.output_width : first_column_ + count_;
    const int begin = first > across.begin ? first : across.begin;
    const int end = stop_column < across.end ? stop_column : across.end;
    const bool is_inside = shown_row_ >= job_.rows.begin && shown_row_ < job_.rows.end && begin < end;
    if (is_inside) {
      block_.each([&](int thread) {
        for (int i = 0; i < 3; ++i) shared_.sums[3 * thread + i] = 0;
      });
      // A map that mirrors has its first taps on the right.
      const int one = firsts(across)[begin], other = firsts(across)[end - 1];
      const int low = one < other ? one : other, high = (one < other ? other : one) + across.tap_count;
      const int stop = high < across.pixel_end ? high : across.pixel_end;
      for (int at = low; at < stop; at += kSegment) sum_segment(at, stop - at < kSegment ? stop - at : kSegment);
    }
    block_.each([&](int thread) {
      const int column = first_column_ + thread;
      if (thread >= count_) return;
      const int from = shown_column(column);
      float levels[3];
      fill(levels);
      if (is_inside && from >= begin && from < end)
        for (int i = 0; i < 3; ++i) levels[i] = static_cast<float>(shared_.sums[3 * thread + i]) * kLevelOfSum;
      write(column, levels);
    });
  }

  /// Mixes `count` pixels of the line from pixel `at` on, and adds their taps to the sums.
  void sum_segment(int at, int count) {
    const AxisJob &across = job_.columns, &down = job_.rows;
    const int first_row = firsts(down)[shown_row_], channels = job_.channels;
    const int16_t* row_weights = weights(down, shown_row_);
    block_.each([&](int thread) {
      for (int i = thread; i < count * channels; i += block_.size) {
        const int p = at + i / channels, channel = i % channels;
        int sum = kHalfOfMixed;
        for (int tap = 0; tap < down.tap_count; ++tap) {
          const int q = first_row + tap;
          const uint8_t* from = job_.turns ? pixel(q, p) : pixel(p, q);
          sum += row_weights[tap] * from[channel * channel_step_];
        }
        shared_.line[i] = static_cast<int16_t>(sum >> kMixedShift);
      }
    });
    block_.each([&](int thread) {
      const int column = shown_column(first_column_ + thread);
      if (thread >= count_ || column < across.begin || column >= across.end) return;
      const int16_t* column_weights = weights(across, column);
      const int first = firsts(across)[column];
      for (int tap = 0; tap < across.tap_count; ++tap) {
        const int in_line = first + tap - at;
        if (in_line < 0 || in_line >= count) continue;
        for (int i = 0; i < channels; ++i)
          shared_.sums[3 * thread + i] += column_weights[tap] * shared_.line[in_line * channels + i];
      }
    });
  }

  /// Applies the colour matrix. Where colour steps follow, recolor_row() finishes the pixel after them.
  void write(int column, const float (&levels)[3]) const {
    float out[3];
    for (int i = 0; i < given_.channels; ++i) {
      const float* m = job_.color[i];
      if (!job_.is_recolored)
        out[i] = levels[i];
      else if (given_.channels == 1)
        out[i] = levels[0] * m[0] + m[3];
      else
        out[i] = ((levels[0] * m[0] + levels[1] * m[1]) + levels[2] * m[2]) + m[3];
    }
    if (job_.color_step_count == 0) return finish_pixel(given_, job_, output_at(column), out);
    const int64_t pixels = static_cast<int64_t>(given_.output_height) * given_.output_width;
    float* const to = planes_of(given_, job_) + static_cast<int64_t>(output_row_) * given_.output_width + column;
    for (int i = 0; i < given_.channels; ++i) to[i * pixels] = out[i];
  }

  const ThreadBlock& block_;
  RenderShared& shared_;
  const KernelArguments& given_;
  const RowJob& job_;
  const uint8_t* const pixels_;
  const int channel_step_;  // from a channel's level to the next one's
  const int row_, output_row_, shown_row_, first_column_, count_;
};

/// Task: kRenderThreads pixels of an output row, in the order of the batch. Block: kRenderThreads.
inline void render_row(const ThreadBlock& block, RenderShared& shared, const KernelArguments& given, uint64_t task) {
  const auto parts = static_cast<uint64_t>(divided_up(given.output_width, kRenderThreads));
  const auto height = static_cast<uint64_t>(given.output_height);
  RowRenderer(block, shared, given, static_cast<int>(task / parts / height), static_cast<int>(task / parts % height),
              static_cast<int>(task % parts) * kRenderThreads)
      .run();
}

}  // namespace penstock::detail
