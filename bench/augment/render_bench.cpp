// render_bench: the bare render loop on one thread, each case beside the best that OpenCV has for the same work.
//
// Rates are images/s; an iteration is a batch of 64. `of_memcpy` is the time in which memcpy writes the output bytes of
// the batch, row by row to the same place, divided by the time of the benchmark: the share of the memory's limit that
// is reached. Both are processor times of this thread, measured in turn, batch by batch. The pairs run in one process.
// Read the ratio of run_render/<case> to run_opencv/<case> as the median of at least five repetitions:
// --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <utility>
#include <vector>

#include "augment/render.h"
#include "augment/transform.h"
#include "core/clock.h"

namespace penstock {
namespace {

constexpr int kSampleCount = 1024;
constexpr int kBatchSize = 64;

/// Pictures of noise, and a plan for each sample, as a worker would have them. There are many small pictures, as in a
/// mapped shard, but only one photograph, because in the loader a decoder has just written it and the caches hold it.
struct Workload {
  Workload(Extent extent, const char* transforms, int sample_count = kSampleCount, int picture_count = kSampleCount,
           PixelType type = PixelType::kU8)
      : extent(extent),
        type(type),
        pipeline(transforms, {.channels = extent.channels, .pixels = type}),
        sample_count(sample_count),
        picture_count(picture_count) {
    Rng rng(1, 0, 0, 0);
    pixels.resize(static_cast<size_t>(picture_count) * sample_bytes());
    // The upper byte of an f32 is below 0x40, so that it is finite and not subnormal.
    for (auto& pixel : pixels) pixel = static_cast<uint8_t>(type == PixelType::kF32 ? 0x3F : rng.next() >> 25);
    for (int i = 0; i < sample_count; ++i) plans.push_back(plan(i));
    output.resize(static_cast<size_t>(kBatchSize) * plans[0].output_height * plans[0].output_width * extent.channels);
  }

  size_t sample_bytes() const {
    return static_cast<size_t>(extent.height) * extent.width * extent.channels * level_bytes(type);
  }
  const uint8_t* sample(int i) const { return pixels.data() + i % picture_count * sample_bytes(); }
  Plan plan(int i) const { return pipeline.plan(extent.height, extent.width, 1, 0, static_cast<uint64_t>(i)); }
  Picture picture(int i) const {
    return {.pixels = sample(i),
            .row_stride = static_cast<ptrdiff_t>(level_bytes(type)) * extent.width * extent.channels,
            .height = extent.height,
            .width = extent.width,
            .channels = extent.channels,
            .type = type};
  }
  /// Where sample i of the batch is written. With small pictures a batch stays in the second-level cache, as in the
  /// loader.
  float* row(int i) { return output.data() + i % kBatchSize * (output.size() / kBatchSize); }

  Extent extent;
  PixelType type;
  Pipeline pipeline;
  int sample_count, picture_count;
  std::vector<uint8_t> pixels;
  std::vector<Plan> plans;
  std::vector<float> output;
};

Workload mnist_nearest() { return {{28, 28, 1}, "affine(degrees=10,translate=0.1),normalize(mean=0.13,std=0.31)"}; }
Workload mnist_bilinear() {
  return {{28, 28, 1}, "affine(degrees=10,translate=0.1,interpolation=bilinear),normalize(mean=0.13,std=0.31)"};
}
Workload cifar() { return {{32, 32, 3}, "shift(pad=4),flip,normalize(mean=0.49:0.48:0.45,std=0.25:0.24:0.26)"}; }
Workload photograph() {
  return {{400, 500, 3},
          "affine(degrees=10,interpolation=bilinear),resize(height=224,width=224),"
          "normalize(mean=0.49:0.46:0.41,std=0.23:0.22:0.22)",
          16,
          1};
}
Workload photograph_resize() {
  return {{400, 500, 3}, "resize(height=224,width=224),normalize(mean=0.49:0.46:0.41,std=0.23:0.22:0.22)", 16, 1};
}

/// A crop of a photograph of the mean size in ImageNet.
Workload photograph_crop() {
  return {{395, 468, 3}, "random-resized-crop(size=224),flip,normalize(mean=0.49:0.46:0.41,std=0.23:0.22:0.22)", 64, 1};
}

/// One picture of 395 x 468 with these channels, under a crop or an affine: the rasters of each kind beside grey of u8.
Workload kind_crop(PixelType type, int channels) {
  return {{395, 468, channels}, "random-resized-crop(size=224),flip,normalize(mean=0.5,std=0.2)", 64, 1, type};
}
Workload kind_affine(PixelType type, int channels) {
  return {{395, 468, channels},
          "affine(degrees=10,interpolation=bilinear),resize(height=224,width=224),normalize(mean=0.5,std=0.2)",
          16,
          1,
          type};
}

/// A reduced photograph, followed by these colour steps.
Workload colored(std::initializer_list<ColorStep> steps) {
  Workload workload{
      {350, 400, 3}, "resize(height=224,width=224),normalize(mean=0.49:0.46:0.41,std=0.23:0.22:0.22)", 16, 1};
  for (Plan& plan : workload.plans)
    for (const ColorStep& step : steps) plan.adjust(step.op, step.amount, step.kernel);
  return workload;
}

/// The physical limit: memcpy writes the output of the batch.
void copy_batch(Workload& workload, const std::vector<float>& source) {
  const size_t row_count = workload.output.size() / kBatchSize;
  for (int i = 0; i < kBatchSize; ++i) {
    std::memcpy(workload.row(i), source.data() + i * row_count, row_count * sizeof(float));
    benchmark::ClobberMemory();
  }
}

/// Calls `make(i)` for the samples of a batch and memcpy for as many bytes, in turn.
template <class Make>
void run_batches(benchmark::State& state, Workload& workload, const Make& make) {
  const std::vector<float> source(workload.output.size(), 1.0f);
  int64_t make_ns = 0, copy_ns = 0;
  int i = 0;
  for (auto _ : state) {
    const int64_t start_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int row = 0; row < kBatchSize; ++row, i = (i + 1) % workload.sample_count) make(i);
    const int64_t middle_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    copy_batch(workload, source);
    copy_ns += cpu_ns(CLOCK_THREAD_CPUTIME_ID) - middle_ns;
    make_ns += middle_ns - start_ns;
    state.SetIterationTime(static_cast<double>(middle_ns - start_ns) * 1e-9);
  }
  state.SetItemsProcessed(state.iterations() * kBatchSize);
  state.counters["of_memcpy"] = static_cast<double>(copy_ns) / static_cast<double>(std::max<int64_t>(make_ns, 1));
}

void run_layout(benchmark::State& state, Workload workload, Layout layout) {
  run_batches(state, workload, [&](int i) {
    render(workload.picture(i), workload.plans[i], workload.pipeline.normalization(), layout, workload.row(i));
  });
}

void run_render(benchmark::State& state, Workload workload) {
  run_layout(state, std::move(workload), Layout::kF32Nchw);
}

void run_plan(benchmark::State& state, Workload workload) {
  int i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(workload.plan(i++));
  state.SetItemsProcessed(state.iterations());
}

void run_plan_and_render(benchmark::State& state, Workload workload) {
  run_batches(state, workload, [&](int i) {
    render(workload.picture(i), workload.plan(i), workload.pipeline.normalization(), Layout::kF32Nchw, workload.row(i));
  });
}

/// OpenCV: warpAffine (or resize, where the map is a pure scaling) to u8, then level * scale + bias per plane into the
/// batch.
void run_opencv(benchmark::State& state, Workload workload) {
  cv::setNumThreads(1);
  const int type = workload.extent.channels == 1 ? CV_8UC1 : CV_8UC3;
  const auto& normalization = workload.pipeline.normalization();
  cv::Mat warped;
  std::vector<cv::Mat> planes(3);
  run_batches(state, workload, [&](int i) {
    const Plan& plan = workload.plans[i];
    const Affine& m = plan.map;
    const cv::Size size(plan.output_width, plan.output_height);
    const cv::Mat source(workload.extent.height, workload.extent.width, type, const_cast<uint8_t*>(workload.sample(i)));
    const int flags = plan.filter == Filter::kNearest ? cv::INTER_NEAREST : cv::INTER_LINEAR;
    if (m.xy == 0 && m.yx == 0 && m.x0 == 0 && m.y0 == 0) {
      cv::resize(source, warped, size, 0, 0, flags);
    } else {
      // In OpenCV's coordinates, pixel centres are whole numbers.
      const cv::Matx23d centers(m.xx, m.xy, m.x0 + 0.5 * (m.xx + m.xy - 1), m.yx, m.yy, m.y0 + 0.5 * (m.yx + m.yy - 1));
      cv::warpAffine(source, warped, centers, size, flags | cv::WARP_INVERSE_MAP, cv::BORDER_CONSTANT);
    }
    float* row = workload.row(i);
    if (workload.extent.channels == 1) planes[0] = warped;
    if (workload.extent.channels == 3) cv::split(warped, planes);
    for (int channel = 0; channel < workload.extent.channels; ++channel) {
      cv::Mat plane(size, CV_32FC1, row + static_cast<ptrdiff_t>(channel) * size.area());
      planes[channel].convertTo(plane, CV_32F, normalization.scale[channel], normalization.bias[channel]);
    }
  });
}

/// OpenCV: cv::resize of the crop with `interpolation`, mirrored where the plan is, then level * scale + bias per
/// plane.
void run_opencv_crop(benchmark::State& state, Workload workload, int interpolation) {
  cv::setNumThreads(1);
  const auto& normalization = workload.pipeline.normalization();
  cv::Mat resized, mirrored;
  std::vector<cv::Mat> planes(3);
  run_batches(state, workload, [&](int i) {
    const Plan& plan = workload.plans[i];
    const cv::Size size(plan.output_width, plan.output_height);
    const cv::Mat whole(workload.extent.height, workload.extent.width, CV_8UC3,
                        const_cast<uint8_t*>(workload.sample(i)));
    cv::resize(whole(cv::Rect(plan.view.x, plan.view.y, plan.view.width, plan.view.height)), resized, size, 0, 0,
               interpolation);
    if (plan.map.xx < 0) cv::flip(resized, mirrored, 1);
    cv::split(plan.map.xx < 0 ? mirrored : resized, planes);
    for (int channel = 0; channel < 3; ++channel) {
      cv::Mat plane(size, CV_32FC1, workload.row(i) + static_cast<ptrdiff_t>(channel) * size.area());
      planes[channel].convertTo(plane, CV_32F, normalization.scale[channel], normalization.bias[channel]);
    }
  });
}

BENCHMARK_CAPTURE(run_render, mnist_nearest, mnist_nearest())->UseManualTime();
BENCHMARK_CAPTURE(run_opencv, mnist_nearest, mnist_nearest())->UseManualTime();
BENCHMARK_CAPTURE(run_plan, mnist_nearest, mnist_nearest());
BENCHMARK_CAPTURE(run_plan_and_render, mnist_nearest, mnist_nearest())->UseManualTime();
BENCHMARK_CAPTURE(run_render, mnist_bilinear, mnist_bilinear())->UseManualTime();
BENCHMARK_CAPTURE(run_opencv, mnist_bilinear, mnist_bilinear())->UseManualTime();
BENCHMARK_CAPTURE(run_render, cifar, cifar())->UseManualTime();
BENCHMARK_CAPTURE(run_opencv, cifar, cifar())->UseManualTime();
BENCHMARK_CAPTURE(run_plan, cifar, cifar());
BENCHMARK_CAPTURE(run_render, photograph, photograph())->UseManualTime();
BENCHMARK_CAPTURE(run_opencv, photograph, photograph())->UseManualTime();
BENCHMARK_CAPTURE(run_render, photograph_resize, photograph_resize())->UseManualTime();
BENCHMARK_CAPTURE(run_opencv, photograph_resize, photograph_resize())->UseManualTime();
BENCHMARK_CAPTURE(run_render, photograph_crop, photograph_crop())->UseManualTime();
BENCHMARK_CAPTURE(run_layout, photograph_crop_f16, photograph_crop(), Layout::kF16Nchw)->UseManualTime();
BENCHMARK_CAPTURE(run_layout, photograph_crop_u8, photograph_crop(), Layout::kU8Nhwc)->UseManualTime();
BENCHMARK_CAPTURE(run_render, crop_u8x1, kind_crop(PixelType::kU8, 1))->UseManualTime();
BENCHMARK_CAPTURE(run_render, crop_u8x3, kind_crop(PixelType::kU8, 3))->UseManualTime();
BENCHMARK_CAPTURE(run_render, crop_u16x1, kind_crop(PixelType::kU16, 1))->UseManualTime();
BENCHMARK_CAPTURE(run_render, crop_u16x3, kind_crop(PixelType::kU16, 3))->UseManualTime();
BENCHMARK_CAPTURE(run_render, crop_u16x13, kind_crop(PixelType::kU16, 13))->UseManualTime();
BENCHMARK_CAPTURE(run_render, crop_f32x1, kind_crop(PixelType::kF32, 1))->UseManualTime();
BENCHMARK_CAPTURE(run_render, affine_u8x1, kind_affine(PixelType::kU8, 1))->UseManualTime();
BENCHMARK_CAPTURE(run_render, affine_u8x3, kind_affine(PixelType::kU8, 3))->UseManualTime();
BENCHMARK_CAPTURE(run_render, affine_u16x1, kind_affine(PixelType::kU16, 1))->UseManualTime();
BENCHMARK_CAPTURE(run_render, affine_u16x3, kind_affine(PixelType::kU16, 3))->UseManualTime();
BENCHMARK_CAPTURE(run_render, affine_f32x13, kind_affine(PixelType::kF32, 13))->UseManualTime();
BENCHMARK_CAPTURE(run_render, color_none, colored({}))->UseManualTime();
BENCHMARK_CAPTURE(run_render, color_brightness, colored({{ColorOp::kBrightness, 1.2f}}))->UseManualTime();
BENCHMARK_CAPTURE(run_render, color_saturation, colored({{ColorOp::kSaturation, 1.2f}}))->UseManualTime();
BENCHMARK_CAPTURE(run_render, color_posterize, colored({{ColorOp::kPosterize, 4}}))->UseManualTime();
BENCHMARK_CAPTURE(run_render, color_solarize, colored({{ColorOp::kSolarize, 128}}))->UseManualTime();
BENCHMARK_CAPTURE(run_render, color_hue, colored({{ColorOp::kHue, 0.1f}}))->UseManualTime();
BENCHMARK_CAPTURE(run_render, color_contrast, colored({{ColorOp::kContrast, 1.2f}}))->UseManualTime();
BENCHMARK_CAPTURE(run_render, color_auto_contrast, colored({{ColorOp::kAutoContrast}}))->UseManualTime();
BENCHMARK_CAPTURE(run_render, color_jitter,
                  colored({{ColorOp::kBrightness, 1.2f},
                           {ColorOp::kContrast, 1.2f},
                           {ColorOp::kSaturation, 1.2f},
                           {ColorOp::kHue, 0.1f}}))
    ->UseManualTime();
BENCHMARK_CAPTURE(run_render, color_sharpness, colored({{ColorOp::kSharpness, 1.5f}}))->UseManualTime();
BENCHMARK_CAPTURE(run_render, color_blur_kernel_23, colored({{ColorOp::kGaussianBlur, 2, 23}}))->UseManualTime();
BENCHMARK_CAPTURE(run_render, color_blur_pillow, colored({{ColorOp::kGaussianBlur, 2}}))->UseManualTime();
BENCHMARK_CAPTURE(run_render, color_equalize, colored({{ColorOp::kEqualize}}))->UseManualTime();
BENCHMARK_CAPTURE(run_opencv_crop, photograph_crop_area, photograph_crop(), cv::INTER_AREA)->UseManualTime();
BENCHMARK_CAPTURE(run_opencv_crop, photograph_crop_linear, photograph_crop(), cv::INTER_LINEAR)->UseManualTime();

}  // namespace
}  // namespace penstock

BENCHMARK_MAIN();
