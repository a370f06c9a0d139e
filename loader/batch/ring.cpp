// Ring: issues batches, cuts them into chunks, and decides who waits and who is woken.
#include "loader/batch/ring.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "loader/files/interrupt.h"

namespace penstock::detail {
namespace {

constexpr double kChunkNs = 100e3, kFastBatchNs = 100e3;
// A batch that is made faster than this has not waited for a disk, and two questions to the kernel, of 1 us each, would
// be noticeable. Its wall-clock time is therefore taken as its processor time.
constexpr double kAskingClockNs = 500e3;
constexpr auto kLinger = std::chrono::milliseconds(10), kOnWaitEvery = std::chrono::milliseconds(100);

}  // namespace

std::optional<ThreadCounters> used_between(const ThreadCounters& start, const ThreadCounters& end) {
  const ThreadCounters used{
      end.cpu_ns - start.cpu_ns,
      end.queued_ns - start.queued_ns,
      {end.storage.major_faults - start.storage.major_faults, end.storage.read_bytes - start.storage.read_bytes}};
  const bool is_whole =
      std::min({used.cpu_ns, used.queued_ns, used.storage.major_faults, used.storage.read_bytes}) >= 0;
  return is_whole ? std::optional(used) : std::nullopt;
}

Ring::Ring(const Options& options, Fill fill)
    : workers_(options.workers),
      ahead_(options.workers == 0 ? 1 : options.prefetch),
      rows_(options.rows),
      on_wait_(options.on_wait),
      fill_(std::move(fill)),
      is_over_([this] {
        if (workers_ == 0 && on_wait_) on_wait_();
        return gives_up_.load(std::memory_order_relaxed);
      }),
      slots_(static_cast<size_t>(options.prefetch + options.held)),
      shifts_(static_cast<size_t>(std::max(options.workers, 1))) {
  for (int worker = workers_; worker > 0; --worker) idle_workers_.push_back(worker - 1);
  if (workers_ > 0) threads_ = std::make_unique<WorkerThreads>(workers_);
}

Ring::~Ring() {
  const MutexLock lock(mutex_);
  is_stopping_ = gives_up_ = true;
  limit_ = next_;
  cut_ = issued_;
  work_or_stop_.notify_all();
  all_gone_.wait(mutex_, [this]() PENSTOCK_REQUIRES(mutex_) { return crew_ == 0; });
}

void Ring::restart(int64_t first, int64_t limit) {
  Wake wake;
  {
    const MutexLock lock(mutex_);
    if (first != next_) {
      for (int64_t sequence = next_; sequence < issued_; ++sequence) {
        Slot& slot = slot_of(sequence);
        if (slot.chunks_in_work == 0) {
          slot = {};
        } else {
          slot.is_dropped = true;
        }
      }
      next_ = issued_ = cut_ = first;
    }
    limit_ = limit;
    issue(wake);
  }
  wake_all(wake);
}

Ring::Taken Ring::take() {
  MutexLock lock(mutex_);
  Slot& slot = slot_of(next_);
  const Taken taken{static_cast<int>(&slot - slots_.data()), slot.phase == Phase::kReady};
  if (workers_ == 0) make_on_this_thread();
  if (slot.phase != Phase::kReady) wait_for_batches();
  const auto error = slot.error;
  if (error) {
    slot = {};
  } else {
    slot.phase = Phase::kHeld;
  }
  ++next_;
  Wake wake;
  issue(wake);
  lock.unlock();
  wake_all(wake);
  if (error) std::rethrow_exception(error);
  return taken;
}

/// Waking a thread costs the waker 7 us, which is a tenth of a batch of MNIST. A consumer that is faster than workers
/// which make a batch in less than 100 us therefore sleeps until half of the batches that may be made ahead are ready.
/// The workers have the other half to go on with, so that nothing is delivered more slowly.
void Ring::wait_for_batches() {
  const bool is_fast = row_ns_ > 0 && row_ns_ * static_cast<double>(rows_) < kFastBatchNs * workers_;
  // The consumer must not wait for a batch that is not issued yet, because that batch may need a slot that the consumer
  // holds.
  wanted_end_ = std::max(next_ + 1, is_fast ? std::min(issued_, next_ + ahead_ / 2) : 0);
  const auto is_there = [this]() PENSTOCK_REQUIRES(mutex_) { return has_wanted(); };
  if (!on_wait_) ready_or_free_.wait(mutex_, is_there);
  while (!has_wanted() && !ready_or_free_.wait_for(mutex_, kOnWaitEvery, is_there)) {
    wanted_end_ = 0;  // on_wait_ may throw
    {
      const MutexUnlock unlocked(mutex_);
      on_wait_();
    }
    wanted_end_ = next_ + 1;
  }
  wanted_end_ = 0;
}

bool Ring::has_wanted() {
  for (int64_t sequence = next_; sequence < wanted_end_; ++sequence)
    if (slot_of(sequence).phase != Phase::kReady) return false;
  return true;
}

void Ring::release(int slot) {
  Wake wake;
  {
    const MutexLock lock(mutex_);
    slots_[static_cast<size_t>(slot)] = {};
    wake.consumer = consumer_waits_ && workers_ == 0;  // the consumer makes the batch itself once the slot is free
    issue(wake);
  }
  wake_all(wake);
}

void Ring::issue(Wake& wake) {
  while (issued_ < std::min(limit_, next_ + ahead_) && slot_of(issued_).phase == Phase::kFree) {
    slot_of(issued_++).phase = Phase::kFilling;
    const int64_t rows = chunk_rows();
    invite((rows_ + rows - 1) / rows, wake);
  }
}

/// Calls as many workers as there are new chunks: first those that wait, then new ones. wake_all() wakes or starts
/// them.
void Ring::invite(int64_t chunks, Wake& wake) {
  for (; chunks > 0 && waiting_ > 0; --chunks) {
    --waiting_;
    ++called_;
    ++wake.waiting_workers;
  }
  for (; chunks > 0 && crew_ < workers_; --chunks) {
    ++crew_;
    ++wake.new_workers;
  }
}

int64_t Ring::chunk_rows() const {
  const double chunks = row_ns_ == 0 ? 2.0 * workers_ : std::round(static_cast<double>(rows_) * row_ns_ / kChunkNs);
  return static_cast<int64_t>(
      std::ceil(static_cast<double>(rows_) / std::clamp(chunks, 1.0, static_cast<double>(rows_))));
}

std::optional<Ring::Chunk> Ring::cut() {
  if (cut_ == issued_) return std::nullopt;
  Slot& slot = slot_of(cut_);
  const Chunk chunk{cut_, static_cast<int>(&slot - slots_.data()), slot.cut_rows,
                    std::min(rows_, slot.cut_rows + chunk_rows())};
  slot.cut_rows = chunk.end;
  ++slot.chunks_in_work;
  if (chunk.end == rows_) ++cut_;
  return chunk;
}

std::optional<Ring::Chunk> Ring::wait_for_chunk() {
  for (;;) {
    if (auto chunk = cut()) return chunk;
    if (is_stopping_) return std::nullopt;
    ++waiting_;
    if (!work_or_stop_.wait_for(mutex_, kLinger,
                                [this]() PENSTOCK_REQUIRES(mutex_) { return called_ > 0 || is_stopping_; }) ||
        called_ == 0) {
      --waiting_;
      return std::nullopt;
    }
    --called_;
  }
}

Ring::Outcome Ring::make(const Chunk& chunk, int worker) const {
  Outcome outcome;
  const InterruptScope scope(is_over_);
  const int64_t start_ns = now_ns();
  try {
    fill_(chunk.sequence, chunk.slot, chunk.begin, chunk.end, worker);
  } catch (...) {
    outcome.error = std::current_exception();
  }
  outcome.ns = now_ns() - start_ns;
  return outcome;
}

void Ring::finish(const Chunk& chunk, Outcome outcome, Wake& wake) {
  const double row_ns = static_cast<double>(outcome.ns) / static_cast<double>(chunk.end - chunk.begin);
  row_ns_ = row_ns_ == 0 ? row_ns : 0.75 * row_ns_ + 0.25 * row_ns;
  Slot& slot = slots_[static_cast<size_t>(chunk.slot)];
  --slot.chunks_in_work;
  if (outcome.error && (!slot.error || chunk.begin < slot.error_row)) {
    slot.error = std::move(outcome.error);
    slot.error_row = chunk.begin;
  }
  if (slot.chunks_in_work > 0) return;
  if (slot.is_dropped) {
    slot = {};
    issue(wake);
  } else if (slot.cut_rows == rows_) {
    slot.phase = Phase::kReady;
    wake.consumer = wanted_end_ > next_ && has_wanted();
  }
}

void Ring::make_on_this_thread() {
  Wake nobody;
  consumer_waits_ = true;
  ready_or_free_.wait(mutex_, [this]() PENSTOCK_REQUIRES(mutex_) { return slot_of(next_).phase != Phase::kHeld; });
  consumer_waits_ = false;
  issue(nobody);
  const Chunk chunk{next_, static_cast<int>(&slot_of(next_) - slots_.data()), 0, rows_};
  Slot& slot = slot_of(next_);
  slot.cut_rows = rows_;
  ++slot.chunks_in_work;
  cut_ = issued_;
  Shift& shift = shifts_[0];
  if (shift.thread != this_thread()) {  // another consumer thread goes on where the last one ended
    if (shift.is_on) shift.time = time_of(shift);
    begin(shift);
  }
  const bool asks_clock = row_ns_ * static_cast<double>(rows_) > kAskingClockNs;
  Outcome outcome;
  int64_t used_ns = 0;
  {
    const MutexUnlock unlocked(mutex_);
    const int64_t cpu_start_ns = asks_clock ? cpu_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
    outcome = make(chunk, 0);
    used_ns = asks_clock ? cpu_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_start_ns : outcome.ns;
  }
  shift.time.busy_ns += outcome.ns;
  shift.time.cpu_ns += used_ns;
  finish(chunk, std::move(outcome), nobody);
}

/// The processor time of a worker at work is read from its thread's clock, so that the worker itself need not ask the
/// kernel after every chunk.
std::vector<Ring::WorkerTime> Ring::worker_times() {
  const MutexLock lock(mutex_);
  std::vector<WorkerTime> times;
  for (const Shift& shift : shifts_) times.push_back(shift.is_on ? time_of(shift) : shift.time);
  return times;
}

void Ring::begin(Shift& shift) {
  pthread_getcpuclockid(pthread_self(), &shift.clock);
  shift.thread = this_thread();
  shift.start_ns = now_ns();
  shift.start = counters_of(shift);
  shift.is_on = true;
}

ThreadCounters Ring::counters_of(const Shift& shift) {
  return {cpu_ns(shift.clock), queued_ns(shift.thread), storage_use(shift.thread)};
}

/// With workers 0, the consumer's thread does other things too. Its processor time is therefore taken around each
/// batch, and its queueing is divided between making rows and the rest in proportion to how long these take.
Ring::WorkerTime Ring::time_of(const Shift& shift) const {
  WorkerTime time = shift.time;
  const auto used = used_between(shift.start, counters_of(shift));
  if (!used) return time;  // the consumer's thread has ended
  if (workers_ > 0) {
    time.cpu_ns += used->cpu_ns;
    time.queued_ns += used->queued_ns;
  } else {
    const double elapsed = static_cast<double>(std::max<int64_t>(now_ns() - shift.start_ns, 1));
    const double share = std::min(1.0, static_cast<double>(time.busy_ns) / elapsed);
    time.queued_ns += static_cast<int64_t>(share * static_cast<double>(used->queued_ns));
  }
  time.storage.major_faults += used->storage.major_faults;
  time.storage.read_bytes += used->storage.read_bytes;
  return time;
}

void Ring::work() {
  Shift start;
  begin(start);  // before taking the lock, because it asks the kernel four times
  MutexLock lock(mutex_);
  const int worker = idle_workers_.back();
  idle_workers_.pop_back();
  Shift& shift = shifts_[static_cast<size_t>(worker)];
  start.time = shift.time;
  shift = start;
  while (const auto chunk = wait_for_chunk()) {
    lock.unlock();
    auto outcome = make(*chunk, worker);
    Wake wake;
    lock.lock();
    shift.time.busy_ns += outcome.ns;
    finish(*chunk, std::move(outcome), wake);
    lock.unlock();
    wake_all(wake);
    lock.lock();
  }
  shift.time = time_of(shift);
  shift.is_on = false;
  idle_workers_.push_back(worker);
  if (--crew_ == 0) all_gone_.notify_all();  // under the lock, because the destructor may end as soon as it is free
}

void Ring::wake_all(const Wake& wake) {
  if (wake.consumer) ready_or_free_.notify_one();
  for (int i = 0; i < wake.waiting_workers; ++i) work_or_stop_.notify_one();
  for (int i = 0; i < wake.new_workers; ++i) threads_->run([this] { work(); });
}

}  // namespace penstock::detail
