// torch_data_peer: LibTorch's own torch::data loader, which calls Penstock's plan and render, so that only the loaders
// differ.
//
// --variant sample: get() makes one tensor per sample and Stack<> collates them, as in LibTorch's examples.
// --variant batch: get_batch() renders straight into the batch's tensor.
// Prints one line of JSON, in the form of bench/peers/harness.py.
#include <ATen/Parallel.h>
#include <torch/data.h>
#include <torch/version.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "augment/render.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/shards/dataset.h"
#include "tools/cli.h"

namespace penstock {
namespace {

constexpr int64_t kBatchSize = 64;

struct Options {
  std::string data, augment, variant = "batch";
  size_t workers = 0;
  double seconds = 2, warm_up_seconds = 0.5;
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app{"Images a second of torch::data calling Penstock's render."};
  app.add_option("--data", options.data, "data set, as shardprep packs them")->required();
  app.add_option("--augment", options.augment, "transforms")->required();
  app.add_option("--variant", options.variant, "sample or batch")->capture_default_str();
  app.add_option("--workers", options.workers, "threads; 0: the caller's thread")->capture_default_str();
  app.add_option("--seconds", options.seconds, "measured")->capture_default_str();
  app.add_option("--warm-up", options.warm_up_seconds, "seconds before")->capture_default_str();
  parse_command_line(app, argc, argv);
  if (options.variant != "sample" && options.variant != "batch")
    throw config_error(concat("--variant: is ", in_quotes(options.variant), "; expected sample or batch"));
  return options;
}

/// What the copies of a data set share that torch::data gives to its workers.
struct Shared {
  explicit Shared(const Options& options)
      : dataset(Dataset::open(options.data)), pipeline(options.augment, dataset->manifest().statistics) {}
  /// Renders a sample to `pixels` (f32, C x H x W) and returns its label.
  int64_t make(size_t index, float* pixels) const {
    const Sample sample = dataset->at(index);
    const auto& [height, width, channels] = sample.extent;
    const Plan plan = pipeline.plan(height, width, 0, epoch, sample.id);
    const Picture picture{sample.bytes.data(), ptrdiff_t{width} * channels, height, width, channels};
    render(picture, plan, pipeline.normalization(), Layout::kF32Nchw, pixels);
    return sample.label;
  }
  /// A tensor for `count` samples. Requires raw pictures of one size.
  torch::Tensor allocate(int64_t count) const {
    const auto& extent = dataset->manifest().extent.value();
    return torch::empty({count, extent.channels, extent.height, extent.width});
  }

  std::shared_ptr<const Dataset> dataset;
  Pipeline pipeline;
  std::atomic<uint32_t> epoch{0};
};

class Samples : public torch::data::datasets::Dataset<Samples> {
 public:
  explicit Samples(std::shared_ptr<const Shared> shared) : shared_(std::move(shared)) {}
  torch::data::Example<> get(size_t index) override {
    auto pixels = shared_->allocate(1).squeeze_(0);
    const int64_t label = shared_->make(index, pixels.mutable_data_ptr<float>());
    return {pixels, torch::tensor(label)};
  }
  torch::optional<size_t> size() const override { return shared_->dataset->size(); }

 private:
  std::shared_ptr<const Shared> shared_;
};

class Batches : public torch::data::datasets::BatchDataset<Batches, torch::data::Example<>> {
 public:
  explicit Batches(std::shared_ptr<const Shared> shared) : shared_(std::move(shared)) {}
  torch::data::Example<> get_batch(torch::ArrayRef<size_t> indices) override {
    const auto count = static_cast<int64_t>(indices.size());
    auto pixels = shared_->allocate(count), labels = torch::empty({count}, torch::kInt64);
    auto* row = pixels.mutable_data_ptr<float>();
    auto* label = labels.mutable_data_ptr<int64_t>();
    for (const size_t index : indices) {
      *label++ = shared_->make(index, row);
      row += pixels.stride(0);
    }
    return {pixels, labels};
  }
  torch::optional<size_t> size() const override { return shared_->dataset->size(); }

 private:
  std::shared_ptr<const Shared> shared_;
};

/// Images per second, measured over as many epochs as are needed.
template <class DataLoader>
double rate(DataLoader& loader, Shared& shared, const Options& options) {
  const int64_t warm_up_ns = now_ns();
  int64_t start_ns = 0, images = 0;
  for (;; ++shared.epoch) {
    for (const auto& batch : loader) {
      if (start_ns == 0) {
        if (ms_since(warm_up_ns) >= options.warm_up_seconds * 1e3) start_ns = now_ns();
        continue;
      }
      images += batch.target.size(0);
      const double elapsed_ms = ms_since(start_ns);
      if (elapsed_ms >= options.seconds * 1e3) return static_cast<double>(images) * 1e3 / elapsed_ms;
    }
  }
}

template <class Source>
double measure(Source source, Shared& shared, const Options& options) {
  // Twice the default of max_jobs, so that it works as far ahead as the other loaders. Without workers, jobs made ahead
  // would only be lost.
  const auto loader = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      std::move(source), torch::data::DataLoaderOptions(kBatchSize)
                             .workers(options.workers)
                             .max_jobs(4 * options.workers)
                             .drop_last(true));
  return rate(*loader, shared, options);
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  return penstock::run_tool("torch_data_peer", [&] {
    const auto options = penstock::parse(argc, argv);
    at::set_num_threads(1);
    const auto shared = std::make_shared<penstock::Shared>(options);
    const double rate =
        options.variant == "batch"
            ? penstock::measure(penstock::Batches(shared), *shared, options)
            : penstock::measure(penstock::Samples(shared).map(torch::data::transforms::Stack<>()), *shared, options);
    std::printf("{\"images_per_second\": %.1f, \"versions\": \"LibTorch %s\"}\n", rate, TORCH_VERSION);
    return 0;
  });
}
