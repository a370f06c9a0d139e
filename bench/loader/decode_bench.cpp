// decode_bench: decodes the region that a random-resized-crop needs, beside libjpeg-turbo's own region decode.
//
// The data are the photographs of photo_data.h; there is one thread. Both contestants have the same draws and take
// turns picture by picture, so that a drift of the machine's speed affects both. `of_region` says how many times as
// fast as libjpeg-turbo the decoder is, where libjpeg-turbo uses crop_scanline and skip_scanlines and stops after the
// last row. That is the physical limit for every loader that stores JPEG files and decodes them with libjpeg-turbo.
#include <benchmark/benchmark.h>

#include "augment/plan/footprint.h"
#include "augment/transform.h"
#include "bench/loader/photo_data.h"
#include "core/clock.h"
#include "loader/codecs/codec.h"

namespace penstock {
namespace {

/// A way to decode, and the packing that it decodes.
struct Way {
  std::shared_ptr<const Dataset> dataset;
  DecodePath path;
  DecodeScratch scratch = {};
  int64_t spent_ns = 0;

  void decode(uint64_t index, const Plan& plan, int dct_scale) {
    const Sample sample = dataset->at(index);
    const DecodeRequest request{.region = footprint(plan), .dct_scale = dct_scale, .channels = 3, .path = path};
    const int64_t start_ns = now_ns();
    benchmark::DoNotOptimize(codec_for(sample.encoding).decode(sample, request, scratch).pixels);
    spent_ns += now_ns() - start_ns;
  }
};

void compare(benchmark::State& state, Encode encode, bool is_enlarged) {
  if (photo_folder().empty()) return state.SkipWithError("no photographs: set PENSTOCK_DATA");
  const Pipeline pipeline("random-resized-crop(size=224)", {});
  Way region{packed_photos({.encode = Encode::kKeep}, is_enlarged), DecodePath::kRegion};
  Way ours{packed_photos({.encode = encode}, is_enlarged), DecodePath::kIndex};
  uint64_t count = 0;
  uint32_t epoch = 0;
  for (auto _ : state) {
    const int64_t before_ns = ours.spent_ns;
    for (uint64_t i = 0; i < region.dataset->size(); ++i, ++count) {
      const Sample sample = region.dataset->at(i);
      Plan plan = pipeline.plan(sample.extent.height, sample.extent.width, 1, epoch, sample.id);
      const int scale = is_enlarged ? dct_scale(plan) : 8;
      if (scale != 8) plan = at_dct_scale(plan, scale);
      region.decode(i, plan, scale);
      ours.decode(i, plan, scale);
    }
    ++epoch;
    state.SetIterationTime(static_cast<double>(ours.spent_ns - before_ns) * 1e-9);
  }
  const auto us = [&](int64_t ns) { return static_cast<double>(ns) * 1e-3 / static_cast<double>(count); };
  state.counters["us_a_picture"] = us(ours.spent_ns);
  state.counters["region_us"] = us(region.spent_ns);
  state.counters["of_region"] = static_cast<double>(region.spent_ns) / static_cast<double>(ours.spent_ns);
}

void BM_DecodeCoefficients(benchmark::State& state) { compare(state, Encode::kCoefficients, state.range(0) != 0); }
BENCHMARK(BM_DecodeCoefficients)->ArgName("enlarged")->Arg(0)->Arg(1)->UseManualTime()->Unit(benchmark::kMillisecond);

void BM_DecodeByIndex(benchmark::State& state) { compare(state, Encode::kKeep, state.range(0) != 0); }
BENCHMARK(BM_DecodeByIndex)->ArgName("enlarged")->Arg(0)->Arg(1)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace penstock
