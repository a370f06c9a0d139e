// recolor_row(): the colour steps of a plan, which may look at the whole output. Erased rectangles and normalisation
// follow them.
//
// The steps do what augment/render/color_steps.cpp and augment/kernels/color_lanes-inl.h do, operation by operation.
// What they learn from the whole output are integers, minima and maxima, which do not depend on the order of the
// pixels.
#pragma once

#include "augment/pixels/blur_taps.h"
#include "augment/pixels/rounding.h"
#include "loader/device/finish_pixel.h"
#include "loader/device/job.h"
#include "loader/device/thread_block.h"

namespace penstock::detail {

/// Memory: 11 KB. It is not initialised.
struct RecolorShared {
  int64_t sums[kRecolorThreads];
  float least[3][kRecolorThreads], greatest[3][kRecolorThreads];
  uint32_t histogram[256];
  float table[256];
  BlurTaps taps;
};

/// Rounds to the nearest whole number, a tie to the even one, as NearestInt of Highway. Requires 0 <= value < 2^22.
inline float nearest_whole(float value) {
  constexpr float kShift = 12582912.f;  // 1.5 * 2^23: a sum of this size has no fraction
  const float shifted = value + kShift;
  return shifted - kShift;
}

inline float clamped_level(float level) {
  const float positive = level > 0 ? level : 0;
  return positive < 255 ? positive : 255;
}

/// The grey level, with torchvision's weights.
inline float grey_level(const float* in, int channels) {
  return channels == 1 ? in[0] : (in[0] * 0.2989f + in[1] * 0.587f) + in[2] * 0.114f;
}

/// The grey level of whole levels; see grey_of() of augment/kernels/color_lanes-inl.h.
inline float grey_level(const float* in, int channels, Rounding rounding) {
  if (channels == 1) return in[0];
  if (rounding == Rounding::kTensor) return cut_level(grey_level(in, channels));
  const auto part = [&](int i, int32_t weight) { return static_cast<int32_t>(in[i]) * weight; };
  return static_cast<float>((part(0, 19595) + part(1, 38470) + part(2, 7471) + 0x8000) >> 16);
}

inline void round_levels(float (&levels)[3]) {
  for (float& level : levels) level = nearest_whole(clamped_level(level));
}

inline void saturate(float (&levels)[3], float factor, Rounding rounding) {
  if (rounding != Rounding::kNone) {
    round_levels(levels);
    const float grey = grey_level(levels, 3, rounding);
    for (float& level : levels) level = blended_level(level, grey, factor, rounding);
    return;
  }
  const float grey = grey_level(levels, 3) * (1 - factor);
  for (float& level : levels) level = clamped_level(level * factor + grey);
}

/// See hue_turned() of augment/kernels/color_lanes-inl.h.
inline void turn_hue(float (&levels)[3], float turns) {
  const float red = levels[0], green = levels[1], blue = levels[2];
  const float larger = red > green ? red : green, smaller = red < green ? red : green;
  const float value = larger > blue ? larger : blue;
  const float chroma = value - (smaller < blue ? smaller : blue);
  const bool is_red = value == red, is_green = value == green;
  const float ahead = is_red ? green : is_green ? blue : red;
  const float behind = is_red ? blue : is_green ? red : green;
  const float sextant = is_red ? 0.f : is_green ? 2.f : 4.f;
  float hue = (sextant + (ahead - behind) / (chroma == 0 ? 1.f : chroma)) + 6 * turns;  // from -4 to 8
  if (hue < 0) hue = hue + 6;
  if (hue >= 6) hue = hue - 6;
  for (int i = 0; i < 3; ++i) {
    float k = hue + static_cast<float>(5 - 2 * i);
    if (k >= 6) k = k - 6;
    const float least = k < 4 - k ? k : 4 - k;
    const float positive = least > 0 ? least : 0, part = positive < 1 ? positive : 1;
    levels[i] = clamped_level(value - chroma * part);
  }
}

class RowRecolorer {
 public:
  RowRecolorer(const ThreadBlock& block, RecolorShared& shared, const KernelArguments& given, int row)
      : block_(block),
        shared_(shared),
        given_(given),
        job_(given.jobs[row]),
        row_(row),
        pixels_(given.output_height * given.output_width),
        levels_(planes_of(given, job_)),
        is_refused_(given.status[row] != 0) {}

  void run() {
    if (job_.color_step_count == 0 || is_refused_) return;
    for (int k = 0; k < job_.color_step_count; ++k) take(job_.color_steps[k]);
    finish();
  }

 private:
  float* plane(int channel) const { return levels_ + static_cast<int64_t>(channel) * pixels_; }

  /// Calls body(pixel) for every pixel of the output.
  template <class Body>
  void each_pixel(const Body& body) const {
    block_.each([&](int thread) {
      for (int pixel = thread; pixel < pixels_; pixel += block_.size) body(pixel);
    });
  }

  /// A grey picture has 0 in place of the channels that it lacks.
  void load(int pixel, float (&levels)[3]) const {
    for (int i = 0; i < 3; ++i) levels[i] = i < given_.channels ? plane(i)[pixel] : 0;
  }
  void store(const float (&levels)[3], int pixel) const {
    for (int i = 0; i < given_.channels; ++i) plane(i)[pixel] = levels[i];
  }

  /// Replaces the levels of each pixel by what body(levels) makes of them.
  template <class Body>
  void each_color(const Body& body) const {
    each_pixel([&](int pixel) {
      float levels[3];
      load(pixel, levels);
      body(levels);
      store(levels, pixel);
    });
  }

  void take(const ColorStepJob& step) {
    const float amount = step.amount;
    const bool is_grey = given_.channels == 1;
    switch (step.op) {
      case ColorStepJob::kBrightness:
        return blend(0, step);
      case ColorStepJob::kContrast:
        return contrast(step);
      case ColorStepJob::kSaturation:
        if (!is_grey) each_color([&](float(&levels)[3]) { saturate(levels, amount, step.rounding); });
        return;
      case ColorStepJob::kHue:
        if (!is_grey) each_color([&](float(&levels)[3]) { turn_hue(levels, amount); });
        return;
      case ColorStepJob::kSharpness:
        return sharpen(amount, step.rounding);
      case ColorStepJob::kPosterize:
        return posterize(static_cast<int>(amount));
      case ColorStepJob::kSolarize:
        return each_color([&](float(&levels)[3]) {
          for (float& level : levels) {
            const float rounded = nearest_whole(clamped_level(level));
            level = rounded >= amount ? 255.f - rounded : rounded;
          }
        });
      case ColorStepJob::kAutoContrast:
        return auto_contrast(step.rounding);
      case ColorStepJob::kEqualize:
        return equalize();
      case ColorStepJob::kSolarizeAdd:
        return each_color([&](float(&levels)[3]) {
          for (float& level : levels) {
            const float rounded = nearest_whole(clamped_level(level));
            level = rounded < 128 ? clamped_level(rounded + amount) : rounded;
          }
        });
      case ColorStepJob::kGaussianBlur:
        return blur(step);
    }
  }

  void linear(const float (&scale)[3], const float (&offset)[3]) {
    each_color([&](float(&levels)[3]) {
      for (int i = 0; i < 3; ++i) levels[i] = clamped_level(levels[i] * scale[i] + offset[i]);
    });
  }
  /// `amount` of the levels, and 1 - amount of another level.
  void blend(float other, const ColorStepJob& step) {
    const float factor = step.amount, rest = (1 - factor) * other;
    if (step.rounding != Rounding::kNone) {
      return each_color([&](float(&levels)[3]) {
        round_levels(levels);
        for (float& level : levels) level = blended_level(level, other, factor, step.rounding);
      });
    }
    const float scale[3] = {factor, factor, factor}, offset[3] = {rest, rest, rest};
    linear(scale, offset);
  }

  void posterize(int bits) {
    const int mask = 256 - (1 << (8 - bits));
    each_color([&](float(&levels)[3]) {
      for (float& level : levels)
        level = static_cast<float>(static_cast<int>(nearest_whole(clamped_level(level))) & mask);
    });
  }

  void contrast(const ColorStepJob& step) {
    const Rounding rounding = step.rounding;
    block_.each([&](int thread) {
      int64_t sum = 0;
      for (int pixel = thread; pixel < pixels_; pixel += block_.size) {
        float levels[3];
        load(pixel, levels);
        if (rounding != Rounding::kNone) {
          round_levels(levels);
          sum += static_cast<int64_t>(grey_level(levels, given_.channels, rounding)) * 128;
          continue;
        }
        sum += static_cast<int64_t>(nearest_whole(clamped_level(grey_level(levels, given_.channels)) * 128.f));
      }
      shared_.sums[thread] = sum;
    });
    int64_t sum = 0;
    for (int thread = 0; thread < block_.size; ++thread) sum += shared_.sums[thread];
    const double mean = static_cast<double>(sum) / (128.0 * static_cast<double>(pixels_));
    const auto whole = static_cast<float>(static_cast<int32_t>(mean + 0.5));
    blend(rounding == Rounding::kPillow ? whole : static_cast<float>(mean), step);
  }

  /// A channel whose levels are all equal stays as it is.
  void auto_contrast(Rounding rounding) {
    if (rounding != Rounding::kNone) posterize(8);
    block_.each([&](int thread) {
      for (int i = 0; i < given_.channels; ++i) {
        float least = plane(i)[0], greatest = least;
        for (int pixel = thread; pixel < pixels_; pixel += block_.size) {
          const float level = plane(i)[pixel];
          least = level < least ? level : least;
          greatest = level > greatest ? level : greatest;
        }
        shared_.least[i][thread] = least, shared_.greatest[i][thread] = greatest;
      }
    });
    float scale[3] = {1, 1, 1}, offset[3] = {};
    for (int i = 0; i < given_.channels; ++i) {
      float least = shared_.least[i][0], greatest = shared_.greatest[i][0];
      for (int thread = 1; thread < block_.size; ++thread) {
        least = shared_.least[i][thread] < least ? shared_.least[i][thread] : least;
        greatest = shared_.greatest[i][thread] > greatest ? shared_.greatest[i][thread] : greatest;
      }
      if (greatest == least) continue;
      if (rounding != Rounding::kNone) {
        each_pixel([&](int pixel) {
          float& level = plane(i)[pixel];
          level = stretched_level(static_cast<int>(level), least, greatest, rounding);
        });
        continue;
      }
      scale[i] = 255 / (greatest - least);
      offset[i] = -least * scale[i];
    }
    if (rounding == Rounding::kNone) linear(scale, offset);
  }

  /// Each thread counts the pixels of its own levels, so that no two threads add to one sum: that would need atomic
  /// operations, which are written in another way on the processor. With 256 threads every warp reads all pixels of
  /// each channel once: 50,000 of an output of 224 x 224.
  void equalize() {
    posterize(8);
    for (int channel = 0; channel < given_.channels; ++channel) {
      block_.each([&](int thread) {
        for (int level = thread; level < 256; level += block_.size) {
          uint32_t count = 0;
          for (int pixel = 0; pixel < pixels_; ++pixel) count += plane(channel)[pixel] == static_cast<float>(level);
          shared_.histogram[level] = count;
        }
      });
      block_.each([&](int thread) {
        if (thread == 0) make_flat_table();
      });
      each_pixel([&](int pixel) {
        float& level = plane(channel)[pixel];
        level = shared_.table[static_cast<int>(level)];
      });
    }
  }

  /// See flat_table() of augment/render/color_steps.cpp.
  void make_flat_table() {
    int last = 255;
    while (shared_.histogram[last] == 0) --last;
    const uint64_t step = (static_cast<uint64_t>(pixels_) - shared_.histogram[last]) / 255;
    uint64_t below = step / 2;
    for (int level = 0; level < 256; ++level) {
      const uint64_t flat = step == 0 ? static_cast<uint64_t>(level) : below / step < 255 ? below / step : 255;
      shared_.table[level] = static_cast<float>(flat);
      below += shared_.histogram[level];
    }
  }

  /// The outermost pixels stay as they are.
  void sharpen(float factor, Rounding rounding) {
    if (rounding != Rounding::kNone) posterize(8);
    const int width = given_.output_width, height = given_.output_height;
    auto* const copy = reinterpret_cast<float*>(given_.scratch + job_.plane_copy);
    for (int channel = 0; channel < given_.channels; ++channel) {
      float* const to = plane(channel);
      each_pixel([&](int pixel) { copy[pixel] = to[pixel]; });
      each_pixel([&](int pixel) {
        const int row = pixel / width, column = pixel % width;
        if (row == 0 || row + 1 == height || column == 0 || column + 1 == width) return;
        const float *here = copy + pixel, *above = here - width, *below = here + width;
        const float around =
            ((above[-1] + above[0]) + (above[1] + here[-1])) + ((here[1] + below[-1]) + (below[0] + below[1]));
        const float blurred = (around + 5 * here[0]) * (1 / 13.f);
        to[pixel] = rounding == Rounding::kNone ? clamped_level(factor * here[0] + (1 - factor) * blurred)
                                                : blended_level(here[0], cut_level(blurred + 0.5f), factor, rounding);
      });
    }
  }

  void blur(const ColorStepJob& step) {
    block_.each([&](int thread) {
      if (thread == 0) shared_.taps = blur_taps(step.kernel, step.amount);
    });
    const Border border = blur_border(step.kernel);
    const bool rounds = blur_rounds(step.kernel);
    const int width = given_.output_width, height = given_.output_height, passes = blur_passes(step.kernel);
    for (int channel = 0; channel < given_.channels; ++channel) {
      float* from = plane(channel);
      auto* to = reinterpret_cast<float*>(given_.scratch + job_.plane_copy);
      for (int i = 0; i < 2 * passes; ++i) {  // half of them along the rows, then the others along the columns
        const bool is_row = i < passes;
        each_pixel([&](int pixel) {
          const int row = pixel / width, column = pixel % width;
          const int at = is_row ? column : row, size = is_row ? width : height, stride = is_row ? 1 : width;
          const float* const line = from + (is_row ? row * width : column);
          float sum = line[at * stride] * shared_.taps.weight[0];
          for (int k = 1; k <= shared_.taps.reach; ++k) {
            const float both =
                line[pixel_at(border, at - k, size) * stride] + line[pixel_at(border, at + k, size) * stride];
            sum = sum + both * shared_.taps.weight[k];
          }
          to[pixel] = rounds ? nearest_whole(clamped_level(sum)) : clamped_level(sum);
        });
        float* const before = from;
        from = to;
        to = before;
      }
    }
  }

  void finish() {
    each_pixel([&](int pixel) {
      float levels[3];
      load(pixel, levels);
      finish_pixel(given_, job_, {row_, pixel / given_.output_width, pixel % given_.output_width}, levels);
    });
  }

  const ThreadBlock& block_;
  RecolorShared& shared_;
  const KernelArguments& given_;
  const RowJob& job_;
  const int row_, pixels_;  // of the batch; of the output
  float* const levels_;
  const bool is_refused_;
};

/// Task: a row of the batch, whose levels render_row() has written to its planes. Block: kRecolorThreads.
inline void recolor_row(const ThreadBlock& block, RecolorShared& shared, const KernelArguments& given, uint64_t task) {
  RowRecolorer(block, shared, given, static_cast<int>(task)).run();
}

}  // namespace penstock::detail
