// NativeLoader: turns, forks, and the loaders that a Loader of Python stands for.
#include "python/src/native_loader.h"

#include <unistd.h>

#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "loader/digest.h"
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

NativeLoader::NativeLoader(const std::string& data, const std::string& split, const std::string& augment,
                           LoaderOptions options)
    : dataset_(Dataset::open(data, split, needed_shards(options))),
      pipeline_(augment, dataset_->manifest().statistics),
      options_(std::move(options)),
      process_(getpid()) {
  options_.gives_batches_away = true;
  check_threads_are_here(options_.workers);
  loader_ = std::make_unique<Loader>(dataset_, pipeline_, options_);
  extent_ = loader_->extent();
  batches_per_epoch_ = loader_->batches_per_epoch();
  samples_per_epoch_ = loader_->samples_per_epoch();
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
  loader_->start_epoch(epoch, first_batch);
}

std::optional<Batch> NativeLoader::next() {
  const Turn turn(*this);
  return loader_->next();
}

Batch NativeLoader::batch(int64_t epoch, int64_t index) {
  const Turn turn(*this);
  if (index < 0 || index >= batches_per_epoch_)
    throw config_error(concat("loader: batch is ", index, "; expected 0 to ", batches_per_epoch_ - 1));
  if (!single_) {
    LoaderOptions options = options_;
    options.workers = 0;
    options.prefetch = 1;
    single_ = std::make_unique<Loader>(dataset_, pipeline_, options);
  }
  single_->start_epoch(epoch, index);
  return std::move(*single_->next());
}

std::string NativeLoader::digest(int64_t epoch) {
  const Turn turn(*this);
  LoaderOptions options = options_;
  options.epoch_count = 0;
  options.gives_batches_away = false;
  Loader loader(dataset_, pipeline_, options);
  loader.start_epoch(epoch);
  Digest digest;
  while (const auto batch = loader.next()) {
    digest.add(*batch);
    options_.on_wait();
  }
  return digest.hex();
}

LoaderStatistics NativeLoader::statistics() {
  const Turn turn(*this);
  return loader_->statistics();
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
