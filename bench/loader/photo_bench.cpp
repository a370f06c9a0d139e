// photo_bench: the loader on photographs, beside the best loop that one would write by hand with libjpeg-turbo.
//
// The data are imagenet-sample in PENSTOCK_DATA or ../shared/data: random resized crop to 224 x 224, antialiased, flip,
// normalised, f32, batches of 64. Every iteration runs kEpochs epochs of each contestant in turn, with the same draws,
// and compares the sums of their times.
//
// The loop decodes only the region of the crop, as far as libjpeg-turbo can: at the DCT scale that still has a pixel
// for every output pixel, with jpeg_crop_scanline and jpeg_skip_scanlines, and it stops after the last row. One
// decompressor and one buffer serve all pictures, and the JPEGs are in memory. The rest is render(), so that the
// difference is decoding and the loader.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

// After <cstdio>, because it uses FILE and size_t without including anything.
#include <jpeglib.h>

#include "augment/plan/footprint.h"
#include "augment/render.h"
#include "bench/loader/photo_data.h"
#include "core/clock.h"
#include "core/error.h"
#include "loader/batch/loader.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBatchSize = 64;
constexpr int64_t kEpochs = 10;  // an epoch has only 4 batches, and the loader starts empty
constexpr int kSide = 224;
constexpr size_t kSampleCount = size_t{3} * kSide * kSide;  // values per sample
constexpr const char* kSpec =
    "random-resized-crop(size=224),flip,normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225)";

/// The bytes of the files, sorted by name, which is the order in which image-folder numbers its samples.
const std::vector<std::vector<uint8_t>>& photos() {
  static const auto kPhotos = [] {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(photo_folder())) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    std::vector<std::vector<uint8_t>> photos;
    for (const auto& path : paths) {
      std::ifstream file(path, std::ios::binary);
      photos.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return photos;
  }();
  return kPhotos;
}

/// The photographs as shardprep packs them without flags.
const std::shared_ptr<const Dataset>& dataset() { return packed_photos({}); }

/// A contestant: makes all samples of the epochs `first` to `first` + kEpochs - 1.
struct Contestant {
  virtual ~Contestant() = default;
  virtual void run(int64_t first) {
    for (int64_t epoch = first; epoch < first + kEpochs; ++epoch) run_epoch(epoch);
  }
  virtual void run_epoch(int64_t epoch) = 0;
};

/// Uses libjpeg's own error handler, which prints and ends the process, because these files are known to be sound.
class RegionDecoder {
 public:
  RegionDecoder() {
    info_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&info_);
  }
  ~RegionDecoder() { jpeg_destroy_decompress(&info_); }
  RegionDecoder(const RegionDecoder&) = delete;
  RegionDecoder& operator=(const RegionDecoder&) = delete;

  Extent read_header(const std::vector<uint8_t>& jpeg) {
    jpeg_mem_src(&info_, jpeg.data(), jpeg.size());
    jpeg_read_header(&info_, TRUE);
    return {static_cast<int>(info_.image_height), static_cast<int>(info_.image_width), 3};
  }

  /// Decodes the region to RGB. The result is valid until the next picture is decoded.
  Picture decode(const Region& region, int scale) {
    info_.out_color_space = JCS_RGB;
    info_.scale_num = static_cast<unsigned>(scale);
    info_.scale_denom = 8;
    jpeg_start_decompress(&info_);
    auto x = static_cast<JDIMENSION>(region.x), width = static_cast<JDIMENSION>(region.width);
    jpeg_crop_scanline(&info_, &x, &width);
    const auto top = static_cast<JDIMENSION>(region.y), bottom = top + static_cast<JDIMENSION>(region.height);
    if (top > 0) jpeg_skip_scanlines(&info_, top);
    const size_t row_bytes = size_t{3} * width;
    pixels_.resize(std::max(pixels_.size(), row_bytes * (bottom - top)));
    while (info_.output_scanline < bottom) {
      JSAMPROW row = pixels_.data() + row_bytes * (info_.output_scanline - top);
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_abort_decompress(&info_);
    return {pixels_.data(),
            static_cast<ptrdiff_t>(row_bytes),
            region.height,
            static_cast<int>(width),
            3,
            static_cast<int>(x),
            region.y};
  }

 private:
  jpeg_error_mgr errors_{};
  jpeg_decompress_struct info_{};
  std::vector<uint8_t> pixels_;
};

struct RegionLoop final : Contestant {
  void run_epoch(int64_t epoch) override {
    for (size_t i = 0; i < photos().size(); ++i) {
      const Extent extent = decoder.read_header(photos()[i]);
      const Plan whole = pipeline.plan(extent.height, extent.width, 0, static_cast<uint32_t>(epoch), i);
      const int scale = dct_scale(whole);
      const Plan plan = at_dct_scale(whole, scale);
      const Picture picture = decoder.decode(footprint(plan), scale);
      render(picture, plan, pipeline.normalization(), Layout::kF32Nchw,
             batch.data() + i % static_cast<size_t>(kBatchSize) * kSampleCount);
    }
    benchmark::DoNotOptimize(batch.data());
  }
  RegionDecoder decoder;
  Pipeline pipeline{kSpec, dataset()->manifest().statistics};
  std::vector<float> batch = std::vector<float>(kBatchSize * kSampleCount);
};

/// The parts of the loader without the loader: one thread, samples in the order of the shard, one batch that is reused.
struct BareLoop final : Contestant {
  void run_epoch(int64_t epoch) override {
    for (uint64_t i = 0; i < dataset()->size(); ++i) {
      const Sample sample = dataset()->at(i);
      const Plan whole =
          pipeline.plan(sample.extent.height, sample.extent.width, 0, static_cast<uint32_t>(epoch), sample.id);
      const int scale = dct_scale(whole);
      const Plan plan = at_dct_scale(whole, scale);
      const DecodeRequest request{.region = footprint(plan), .dct_scale = scale, .channels = 3};
      const Picture picture = codec_for(sample.encoding).decode(sample, request, scratch);
      render(picture, plan, pipeline.normalization(), Layout::kF32Nchw,
             batch.data() + i % static_cast<size_t>(kBatchSize) * kSampleCount);
    }
    benchmark::DoNotOptimize(batch.data());
  }
  DecodeScratch scratch;
  Pipeline pipeline{kSpec, dataset()->manifest().statistics};
  std::vector<float> batch = std::vector<float>(kBatchSize * kSampleCount);
};

struct LoaderLoop final : Contestant {
  explicit LoaderLoop(int workers)
      : loader(dataset(), Pipeline(kSpec, dataset()->manifest().statistics),
               {.workers = workers, .batch_size = kBatchSize}) {}
  void run_epoch(int64_t epoch) override {
    loader.start_epoch(epoch);
    while (const auto batch = loader.next()) benchmark::DoNotOptimize(batch->pixels().data());
  }
  /// What the loader has made ahead for a further epoch is dropped. Otherwise it would take processor time from the
  /// next contestant.
  void run(int64_t first) override {
    Contestant::run(first);
    loader.start_epoch(first, loader.batches_per_epoch());
  }
  Loader loader;
};

/// The physical limit: memcpy writes as many bytes on one thread into one batch that is reused.
struct CopyLoop final : Contestant {
  void run_epoch(int64_t) override {
    for (size_t i = 0; i < photos().size(); ++i) {
      const size_t row = i % static_cast<size_t>(kBatchSize) * kSampleCount;
      std::memcpy(batch.data() + row, source.data() + row, kSampleCount * sizeof(float));
      benchmark::ClobberMemory();
    }
  }
  std::vector<float> source = std::vector<float>(kBatchSize * kSampleCount, 1.0f), batch = source;
};

/// The wall time of a run, in nanoseconds.
int64_t timed_run(Contestant& contestant, int64_t first) {
  const int64_t start_ns = now_ns();
  contestant.run(first);
  return now_ns() - start_ns;
}

/// Whether there are photographs. Where there are none, the benchmark reports this and ends.
bool has_photos(benchmark::State& state) {
  if (!photo_folder().empty()) return true;
  state.SkipWithError("no photographs: expected PENSTOCK_DATA/imagenet-sample");
  return false;
}

/// Runs all in turn. Reports the rates of the subject and of the loop, subject / loop, and memcpy / subject.
void compare(benchmark::State& state, Contestant& subject, Contestant& loop) {
  CopyLoop copy;
  int64_t subject_ns = 0, loop_ns = 0, copy_ns = 0, epoch = 0;
  for (Contestant* contestant : {&subject, &loop, static_cast<Contestant*>(&copy)})
    contestant->run(epoch);  // page faults, checksums, threads
  for (auto _ : state) {
    epoch += kEpochs;
    const int64_t run_ns = timed_run(subject, epoch);
    subject_ns += run_ns;
    loop_ns += timed_run(loop, epoch);
    copy_ns += timed_run(copy, epoch);
    state.SetIterationTime(static_cast<double>(run_ns) * 1e-9);
  }
  const double images = static_cast<double>(photos().size()) * static_cast<double>(epoch);
  state.counters["images/s"] = images / (static_cast<double>(subject_ns) * 1e-9);
  state.counters["loop_images/s"] = images / (static_cast<double>(loop_ns) * 1e-9);
  state.counters["of_loop"] = static_cast<double>(loop_ns) / static_cast<double>(subject_ns);
  state.counters["of_memcpy"] = static_cast<double>(copy_ns) / static_cast<double>(subject_ns);
}

void BM_PhotoLoader(benchmark::State& state) {
  if (!has_photos(state)) return;
  LoaderLoop loader(static_cast<int>(state.range(0)));
  RegionLoop loop;
  compare(state, loader, loop);
}
BENCHMARK(BM_PhotoLoader)->ArgName("workers")->Arg(1)->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond);

void BM_PhotoLoaderOfBare(benchmark::State& state) {
  if (!has_photos(state)) return;
  LoaderLoop loader(static_cast<int>(state.range(0)));
  BareLoop bare;
  compare(state, loader, bare);
}
BENCHMARK(BM_PhotoLoaderOfBare)->ArgName("workers")->Arg(0)->Arg(1)->UseManualTime()->Unit(benchmark::kMillisecond);

void BM_PhotoLoaderScaling(benchmark::State& state) {
  if (!has_photos(state)) return;
  LoaderLoop many(static_cast<int>(state.range(0))), one(1);
  compare(state, many, one);
}
BENCHMARK(BM_PhotoLoaderScaling)->ArgName("workers")->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace penstock
