// NativeLoader: turns, forks, and the loaders that a Loader of Python stands for.
#include "python/src/native_loader.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "augment/size_schedule.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/batch/digest.h"
#include "loader/bottleneck/observe.h"
#include "loader/rows/sample_boxes.h"
#include "loader/shards/pipeline_of.h"
#include "python/src/module.h"

namespace penstock::python {
namespace {

/// The process in which workers were started; 0: none were.
std::atomic<pid_t> process_with_workers{0};

/// A fork takes none of oneTBB's threads along, but oneTBB and the loader believe that it does.
void check_threads_are_here(int workers) {
  if (workers == 0) return;
  const pid_t process = getpid();
  pid_t expected = 0;
  if (process_with_workers.compare_exchange_strong(expected, process) || expected == process) return;
  throw config_error(concat("loader: workers is ", workers, " in process ", process, ", a fork of process ", expected,
                            " that already had a loader with workers; expected workers=0, or a process that was ",
                            "spawned: multiprocessing.set_start_method(\"spawn\")"));
}

/// `share`: of one data set alone. The shards of several are counted over all of them.
std::shared_ptr<const Dataset> open_all(const std::vector<std::filesystem::path>& data, const std::string& split,
                                        RankShards share) {
  if (data.size() == 1) return Dataset::open(data.front(), split, share);
  std::vector<std::shared_ptr<const Dataset>> all;
  for (const auto& one : data) all.push_back(Dataset::open(one, split));
  return Dataset::join(all);
}

}  // namespace

class NativeLoader::Turn {
 public:
  explicit Turn(NativeLoader& loader) : owner_(loader.owner_) {
    if (owner_.load() == std::this_thread::get_id())
      throw config_error(
          "loader: called by a signal handler inside of its own call; expected a handler that only notes "
          "the signal");
    if (getpid() != loader.process_)
      throw config_error(concat("loader: made in process ", loader.process_, " and used in process ", getpid(),
                                ", a fork of it; expected a loader of that process's own"));
    lock_ = std::unique_lock(loader.mutex_);
    if (!loader.loader_) throw config_error("loader: is closed; expected a loader that is open");
    owner_ = std::this_thread::get_id();
  }
  ~Turn() { owner_ = std::thread::id(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic<std::thread::id>& owner_;
  std::unique_lock<std::mutex> lock_;
};

NativeLoader::NativeLoader(const std::vector<std::filesystem::path>& data, const std::string& split,
                           const std::string& augment, LoaderOptions options)
    : dataset_(open_all(data, split, needed_shards(options))),
      pipelines_{pipeline_of(augment, *dataset_)},
      options_(std::move(options)),
      process_(getpid()) {
  options_.gives_batches_away = true;
  for (const auto& view : options_.views) pipelines_.push_back(pipeline_of(view, *dataset_));
  check_threads_are_here(options_.workers);
  loader_ = std::make_unique<Loader>(dataset_, pipeline(), options_);
  extent_ = loader_->extent();
  batches_per_epoch_ = loader_->batches_per_epoch();
  samples_per_epoch_ = loader_->samples_per_epoch();
  rows_ = loader_->order().rows();
  if (const auto* chosen = loader_->order().subset()) subset_ = *chosen;
  selection_ = loader_->order().identity(*dataset_);
  selection_text_ = loader_->order().text();
  warnings_ = loader_->warnings();
}

/// Python destroys it with the GIL, without which others go on while this waits for the rows in work. In a fork the
/// workers are not there, and the destructor would wait for them for ever: the memory is left to the system.
NativeLoader::~NativeLoader() {
  const Unlocked released;
  if (getpid() != process_) {
    static_cast<void>(loader_.release());
    static_cast<void>(single_.release());
  }
  loader_.reset();
  single_.reset();
}

void NativeLoader::start_epoch(int64_t epoch, int64_t first_batch) {
  const Turn turn(*this);
  if (watch_) watch_->pause();
  loader_->start_epoch(epoch, first_batch);
}

Batch NativeLoader::numbered(Batch batch) const {
  if (subset_.empty()) return batch;
  for (uint64_t& index : batch.indices().first(static_cast<size_t>(batch.count())))
    index = static_cast<uint64_t>(std::lower_bound(subset_.begin(), subset_.end(), index) - subset_.begin());
  return batch;
}

std::optional<Batch> NativeLoader::next() {
  const Turn turn(*this);
  if (watch_) watch_->begin_wait();
  auto batch = loader_->next();
  if (watch_ && batch) watch_->end_wait(batch->global_count());
  if (watch_ && !batch) watch_->pause();
  if (!batch) return std::nullopt;
  return numbered(std::move(*batch));
}

Batch NativeLoader::batch(int64_t epoch, int64_t index) {
  const Turn turn(*this);
  if (index < 0 || index >= batches_per_epoch_)
    throw config_error(concat("loader: batch is ", index, "; expected 0 to ", batches_per_epoch_ - 1));
  if (!single_) {
    LoaderOptions options = options_;
    options.workers = 0;
    options.prefetch = 1;
    single_ = std::make_unique<Loader>(dataset_, pipeline(), options);
  }
  single_->start_epoch(epoch, index);
  return numbered(std::move(*single_->next()));
}

std::string NativeLoader::digest(int64_t epoch) {
  const Turn turn(*this);
  LoaderOptions options = options_;
  options.epoch_count = 0;
  options.gives_batches_away = false;
  Loader loader(dataset_, pipeline(), options);
  loader.start_epoch(epoch);
  Digest digest;
  while (const auto batch = loader.next()) {
    digest.add(*batch);
    options_.on_wait();
  }
  return digest.hex();
}

Plan NativeLoader::plan(int64_t epoch, uint64_t index) const {
  const RankShards own = needed_shards(options_);
  int shard = 0;
  while (index >= dataset_->shard_begin(shard + 1)) ++shard;
  if (shard % own.world_size != own.rank)
    throw config_error(concat("loader: sample ", index, " is in shard ", shard,
                              ", which another rank has; expected one ",
                              "of this rank's shards, or shuffle=\"global\""));
  const Sample sample = dataset_->at(index);
  const auto [height, width, channels] = sample.extent;
  const Plan upright = Plan::upright(sample.orientation, height, width);
  const auto field = boxes_field(pipeline(), *dataset_);
  const std::vector<Box> boxes = field ? boxes_of(*dataset_, index, *field) : std::vector<Box>();
  const Pipeline sized = in_epoch(pipeline(), {"size_schedule", options_.size_schedule}, epoch);
  return sized.plan(Plan::identity(upright.output_height, upright.output_width), options_.seed,
                    static_cast<uint32_t>(epoch), sample.id, boxes);
}

LoaderStatistics NativeLoader::statistics() {
  const Turn turn(*this);
  return loader_->statistics();
}

void NativeLoader::begin_watch() {
  const Turn turn(*this);
  watch_.emplace(loader_->statistics());
}

LoopMeasurement NativeLoader::end_watch(LoopMeasurement run) {
  const Turn turn(*this);
  auto watch = std::exchange(watch_, std::nullopt);
  if (!watch || watch->step_count() == 0)
    throw config_error("watch: 0 batches were taken from this loader; expected a loop over it");
  watch->pause();
  run.workers = options_.workers;
  return watch->observed(std::move(run), loader_->statistics());
}

void NativeLoader::drop_watch() {
  const Turn turn(*this);
  watch_.reset();
}

LoaderStatistics NativeLoader::try_out() const {
  constexpr int kMostBatches = 32;
  constexpr double kLongest_ms = 1000;
  LoaderOptions options = options_;
  options.epoch_count = 0;
  options.gives_batches_away = false;
  Loader loader(dataset_, pipeline(), options);
  loader.start_epoch(0);
  const int64_t start_ns = now_ns();
  for (int i = 0; i < kMostBatches && ms_since(start_ns) < kLongest_ms; ++i) {
    if (!loader.next()) break;
    options_.on_wait();
  }
  return loader.statistics();
}

LoopMeasurement NativeLoader::foresee(LoopMeasurement run, double step_ms, double step_cpu_ms) {
  constexpr uint64_t kEnough = 8;
  const Turn turn(*this);
  LoaderStatistics made = loader_->statistics();
  if (made.batch_count < kEnough) made = try_out();
  // The statistics also count what was made ahead. A mix makes every sample twice.
  const double samples_per_image = pipeline().batch_mix().kind == BatchMix::Kind::kNone ? 1 : 2;
  const auto images = static_cast<double>(made.read.count) / samples_per_image;
  if (images == 0) throw config_error("limit: an epoch of this loader has 0 samples; expected some to judge by");
  const double rank_images = static_cast<double>(samples_per_epoch_) / static_cast<double>(batches_per_epoch_);
  run.workers = options_.workers;
  return penstock::foresee(std::move(run), made, images / rank_images, rank_images * options_.world_size, step_ms,
                           step_cpu_ms);
}

size_t NativeLoader::memory_bytes() {
  const Turn turn(*this);
  return loader_->slot_bytes();
}

void NativeLoader::close() {
  if (getpid() != process_ || owner_.load() == std::this_thread::get_id()) return;
  const std::lock_guard lock(mutex_);
  loader_.reset();
  single_.reset();
}

}  // namespace penstock::python
