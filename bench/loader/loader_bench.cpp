// loader_bench: the loader beside a bare loop that does the same work without a loader, and beside itself with one
// worker.
//
// The data are MNIST in PENSTOCK_DATA or ../shared/data, otherwise the embedded digits; affine, f32, batches of 64. The
// speed of the machine drifts. Every iteration therefore runs one epoch of each contestant in turn, and `ratio`
// compares the sums of their times, so that it is steady where the rates are not.
//
//   of_memcpy    loader / (memcpy of the batches' bytes into one reused batch, 1 thread): the memory's limit
//   of_bare      loader / (plan and render from the map into one reused batch, in the file's order, 1 thread)
//   of_1_worker  loader / loader with one worker
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "augment/render.h"
#include "core/clock.h"
#include "loader/batch/loader.h"
#include "loader/shards/shard_writer.h"
#include "loader/sources/source.h"

namespace penstock {
namespace {

constexpr int64_t kBatchSize = 64;
constexpr const char* kSpec = "affine(degrees=10,translate=0.1),normalize(mean=0.1307,std=0.3081)";

/// A data set of one shard in a temporary folder, which is removed when the process ends.
class PackedData {
 public:
  PackedData() {
    std::string pattern = (std::filesystem::temp_directory_path() / "penstock-bench-XXXXXX").string();
    if (!mkdtemp(pattern.data())) std::abort();
    folder_ = pattern;
    const char* data = std::getenv("PENSTOCK_DATA");
    const auto mnist = std::filesystem::path(data ? data : "../shared/data") / "mnist";
    const bool has_mnist = std::filesystem::exists(mnist);
    const auto source = SourceRegistry::make(parse_spec("source", has_mnist ? "mnist" : "digits(count=20000)"),
                                             has_mnist ? mnist : std::filesystem::path(), std::string("train"));
    Manifest manifest;
    manifest.split = "train";
    manifest.source = "bench";
    manifest.class_names = source->class_names();
    manifest.class_counts.assign(manifest.class_names.size(), 0);
    manifest.sample_count = source->size();
    manifest.extent = source->read(0).extent;
    ShardWriter writer(folder_ / "shard.safetensors", manifest.extent);
    for (uint64_t i = 0; i < source->size(); ++i) {
      const auto sample = source->read(i);
      writer.add({.id = i,
                  .label = source->label(i),
                  .extent = sample.extent,
                  .encoding = sample.encoding,
                  .bytes = sample.bytes});
      ++manifest.class_counts[static_cast<size_t>(source->label(i))];
    }
    manifest.shards.push_back({"shard.safetensors", source->size(), writer.finish(), std::string(32, '0')});
    write_manifest(folder_, manifest);
    dataset_ = Dataset::open(folder_);
  }
  ~PackedData() {
    dataset_.reset();
    std::filesystem::remove_all(folder_);
  }
  static const std::shared_ptr<const Dataset>& dataset() {
    static const PackedData data;
    return data.dataset_;
  }

 private:
  std::filesystem::path folder_;
  std::shared_ptr<const Dataset> dataset_;
};

/// A contestant: makes all samples of an epoch.
struct Contestant {
  virtual ~Contestant() = default;
  virtual void run_epoch(int64_t epoch) = 0;
};

struct BareLoop final : Contestant {
  void run_epoch(int64_t epoch) override {
    const auto& dataset = *PackedData::dataset();
    for (uint64_t i = 0; i < dataset.size(); ++i) {
      const Sample sample = dataset.at(i);
      const auto& [height, width, channels] = sample.extent;
      const Plan plan = pipeline.plan(height, width, 0, static_cast<uint32_t>(epoch), sample.id);
      const Picture picture{sample.bytes.data(), ptrdiff_t{width} * channels, height, width, channels};
      const size_t row = i % static_cast<size_t>(kBatchSize);
      render(picture, plan, pipeline.normalization(), Layout::kF32Nchw, batch.data() + row * sample.bytes.size());
    }
    benchmark::DoNotOptimize(batch.data());
  }
  Pipeline pipeline{kSpec, {}};
  std::vector<float> batch = std::vector<float>(kBatchSize * PackedData::dataset()->at(0).bytes.size());
};

struct LoaderLoop final : Contestant {
  explicit LoaderLoop(int workers, int prefetch = 4)
      : loader(PackedData::dataset(), Pipeline(kSpec, {}),
               {.workers = workers, .prefetch = prefetch, .batch_size = kBatchSize}) {}
  void run_epoch(int64_t epoch) override {
    loader.start_epoch(epoch);
    while (const auto batch = loader.next()) benchmark::DoNotOptimize(batch->pixels().data());
  }
  Loader loader;
};

/// The physical limit: memcpy writes as many bytes on one thread into one batch that is reused.
struct CopyLoop final : Contestant {
  void run_epoch(int64_t) override {
    for (uint64_t i = 0; i < PackedData::dataset()->size(); ++i) {
      const size_t row = i % static_cast<size_t>(kBatchSize);
      std::memcpy(batch.data() + row * row_count, source.data() + row * row_count, row_count * sizeof(float));
      benchmark::ClobberMemory();
    }
  }
  size_t row_count = PackedData::dataset()->at(0).bytes.size();
  std::vector<float> source = std::vector<float>(kBatchSize * row_count, 1.0f), batch = source;
};

/// Runs epochs of all in turn. Reports the rates of both, second / first, and memcpy / second.
void compare(benchmark::State& state, const char* ratio, Contestant& first, Contestant& second) {
  CopyLoop copy;
  int64_t first_ns = 0, second_ns = 0, copy_ns = 0, epoch = 0;
  for (Contestant* contestant : {&first, &second, static_cast<Contestant*>(&copy)})
    contestant->run_epoch(epoch);  // page faults, checksums, threads
  for (auto _ : state) {
    ++epoch;
    const int64_t start_ns = now_ns();
    first.run_epoch(epoch);
    const int64_t middle_ns = now_ns();
    second.run_epoch(epoch);
    const int64_t end_ns = now_ns();
    copy.run_epoch(epoch);
    copy_ns += now_ns() - end_ns;
    first_ns += middle_ns - start_ns;
    second_ns += end_ns - middle_ns;
    state.SetIterationTime(static_cast<double>(end_ns - middle_ns) * 1e-9);
  }
  const double images = static_cast<double>(PackedData::dataset()->size()) * static_cast<double>(epoch);
  state.counters["images/s"] = images / (static_cast<double>(second_ns) * 1e-9);
  state.counters["other_images/s"] = images / (static_cast<double>(first_ns) * 1e-9);
  state.counters["of_memcpy"] = static_cast<double>(copy_ns) / static_cast<double>(second_ns);
  state.counters[ratio] = static_cast<double>(first_ns) / static_cast<double>(second_ns);
}

void BM_LoaderNext(benchmark::State& state) {
  BareLoop bare;
  LoaderLoop loader(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  compare(state, "of_bare", bare, loader);
}
BENCHMARK(BM_LoaderNext)
    ->ArgNames({"workers", "prefetch"})
    ->ArgsProduct({{0, 1, 2}, {4}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

void BM_LoaderScaling(benchmark::State& state) {
  LoaderLoop one(1), many(static_cast<int>(state.range(0)));
  compare(state, "of_1_worker", one, many);
}
BENCHMARK(BM_LoaderScaling)->ArgName("workers")->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace penstock

BENCHMARK_MAIN();
