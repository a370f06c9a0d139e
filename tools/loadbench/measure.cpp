// Measuring: epochs of several loaders in turn, and digests.
#include "tools/loadbench/measure.h"

#include <algorithm>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/median.h"
#include "core/text.h"
#include "loader/batch/digest.h"

namespace penstock {
namespace {

LoaderOptions loader_options(const BenchOptions& options, int workers) {
  LoaderOptions loader = options.loader;
  loader.workers = workers;
  loader.epoch_count = 0;  // no batch is made for an epoch that was not started
  return loader;
}

/// Takes the batches of one epoch, or its first `max_batches`. Returns their number of images.
int64_t consume(Loader& loader, int64_t max_batches) {
  int64_t images = 0;
  for (int64_t batch = 0; max_batches == 0 || batch < max_batches; ++batch) {
    const auto got = loader.next();
    if (!got) break;
    images += got->count();
  }
  return images;
}

/// What other programs take of the cores, from its construction on.
class OtherPrograms {
 public:
  /// Their mean number of cores; 0 where it cannot be told from the kernel's ticks, of which each is up to 10 ms long
  /// and counts for a whole core.
  double cores() const {
    constexpr double kShortest_ms = 200;
    const double elapsed_ms = ms_since(start_ns_);
    if (elapsed_ms < kShortest_ms) return 0;
    const double own_ms = ms_of(cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns_);
    const double cores = (busy_cores_ms() - start_busy_ms_ - own_ms) / elapsed_ms;
    return cores < kLeastOtherCores ? 0 : cores;
  }

 private:
  int64_t start_ns_ = now_ns(), start_cpu_ns_ = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
  double start_busy_ms_ = busy_cores_ms();
};

void run_epoch(Loader& loader, int64_t epoch, const BenchOptions& options, BenchRun& run) {
  const int64_t start_ns = now_ns();
  const LinkStats before = link_stats();
  loader.start_epoch(epoch);
  const int64_t images = consume(loader, options.max_batches);
  run.epoch_images_per_second.push_back(static_cast<double>(images) * 1e3 / ms_since(start_ns));
  run.resident_bytes = resident_bytes();
  // This drops the batches that are being made ahead: they would take cores from the run whose turn is next.
  loader.start_epoch(epoch, loader.batches_per_epoch());
  run.link = plus(since(before, link_stats()), std::move(run.link));
}

[[noreturn]] void refuse_nothing(const Dataset& dataset, const BenchOptions& options) {
  throw config_error(concat(dataset.folder().string(), ": an epoch of batches of ", options.loader.batch_size,
                            " has 0 images; expected a smaller --batch-size, or --tail pad"));
}

void add_epoch(Loader&& loader, int64_t epoch, int64_t max_batches, Digest& digest) {
  loader.start_epoch(epoch);
  for (int64_t batch = 0; max_batches == 0 || batch < max_batches; ++batch) {
    const auto got = loader.next();
    if (!got) break;
    digest.add(*got);
  }
}

/// The digest of one rank, or of all ranks, which are loaded one after the other.
std::string epoch_digest(const std::shared_ptr<const Dataset>& dataset, const Pipeline& pipeline,
                         const BenchOptions& options, int workers, int64_t epoch) {
  auto loader = loader_options(options, workers);
  Digest digest;
  if (options.all_ranks == 0) {
    add_epoch({dataset, pipeline, loader}, epoch, options.max_batches, digest);
    return digest.hex();
  }
  loader.world_size = options.all_ranks;
  for (loader.rank = 0; loader.rank < options.all_ranks; ++loader.rank)
    add_epoch({dataset, pipeline, loader}, epoch, options.max_batches, digest);
  return digest.hex();
}

}  // namespace

std::vector<BenchRun> measure(const std::shared_ptr<const Dataset>& dataset, const Pipeline& pipeline,
                              const BenchOptions& options) {
  {
    Loader warm_up(dataset, pipeline,
                   loader_options(options, *std::max_element(options.workers.begin(), options.workers.end())));
    if (warm_up.samples_per_epoch() == 0) refuse_nothing(*dataset, options);
    warm_up.start_epoch(0);
    consume(warm_up, options.max_batches);
  }
  std::vector<std::unique_ptr<Loader>> loaders;
  std::vector<BenchRun> runs;
  for (const int workers : options.workers) {
    BenchRun run;
    run.workers = workers;
    {
      const int64_t start_ns = now_ns();
      Loader cold(dataset, pipeline, loader_options(options, workers));
      cold.start_epoch(0);
      cold.next();
      run.first_batch_ms = ms_since(start_ns);
    }
    // The epochs get a loader of their own, so that its statistics cover only them.
    loaders.push_back(std::make_unique<Loader>(dataset, pipeline, loader_options(options, workers)));
    run.extent = loaders.back()->extent();
    run.slot_bytes = loaders.back()->slot_bytes();
    runs.push_back(run);
  }
  const OtherPrograms others;
  for (int64_t epoch = 1; epoch <= options.epochs; ++epoch)
    for (size_t i = 0; i < runs.size(); ++i) run_epoch(*loaders[i], epoch, options, runs[i]);
  const double other_cores = others.cores();
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].other_cores = other_cores;
    runs[i].images_per_second = median(runs[i].epoch_images_per_second);
    runs[i].statistics = loaders[i]->statistics();
    runs[i].statistics.link = runs[i].link;  // of its own turns
  }
  return runs;
}

std::vector<std::string> digests(const std::shared_ptr<const Dataset>& dataset, const Pipeline& pipeline,
                                 const BenchOptions& options) {
  // As many as are asked for, since what a loader needs of the cache depends on them.
  auto one = loader_options(options, *std::max_element(options.workers.begin(), options.workers.end()));
  one.world_size = std::max(one.world_size, options.all_ranks);
  const Loader first(dataset, pipeline, one);
  // Digests of nothing are equal for all options, so they would prove nothing.
  if (first.batches_per_epoch() == 0 || (options.all_ranks == 0 && first.samples_per_epoch() == 0))
    refuse_nothing(*dataset, options);
  std::vector<std::string> found;
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    for (const int workers : options.workers) {
      const auto hex = epoch_digest(dataset, pipeline, options, workers, epoch);
      if (static_cast<int64_t>(found.size()) == epoch) found.push_back(hex);
      if (found.back() != hex) {
        throw bug_error(concat("epoch ", epoch, ": the digest with ", workers, " workers is ", hex, ", with ",
                               options.workers[0], " workers it is ", found.back(), "; expected equal ones"));
      }
    }
  }
  return found;
}

}  // namespace penstock
