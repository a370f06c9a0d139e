// ReplicaThreads: threads that wait for work, and a caller that waits for them.
#include "train/parallel/replicas/replica_threads.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <utility>

#include "core/limits.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

/// Replica `replica`'s share of `all`, at least 1. The first replicas get what is left over.
int share_of(int all, size_t replica, size_t count) {
  const auto total = static_cast<size_t>(std::max(all, 0));
  return static_cast<int>(std::max<size_t>(total / count + (replica < total % count ? 1 : 0), 1));
}

}  // namespace

ReplicaThreads::ReplicaThreads(const std::vector<torch::Device>& devices, int intra_op_threads)
    : errors_(devices.size()) {
  const size_t count = devices.size();
  require_threads(concat("--mode dp: ", count, " replicas"), std::max(static_cast<int>(count), intra_op_threads),
                  "fewer of them");
  for (size_t replica = 0; replica < count; ++replica) {
    const int own = devices[replica].is_cpu() ? share_of(intra_op_threads, replica, count) : 1;
    threads_.emplace_back([this, replica, device = devices[replica], own] { serve(replica, device, own); });
  }
}

ReplicaThreads::~ReplicaThreads() {
  {
    const MutexLock lock(mutex_);
    is_over_ = true;
  }
  has_begun_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ReplicaThreads::run(const std::function<void(size_t)>& body) {
  const Work work{&body, {}};
  const MutexLock lock(mutex_);
  work_ = &work;
  ++number_;
  busy_count_ = threads_.size();
  has_begun_.notify_all();
  has_ended_.wait(mutex_, [&]() PENSTOCK_REQUIRES(mutex_) { return busy_count_ == 0; });
  std::exception_ptr first;
  for (auto& error : errors_)
    if (const auto own = std::exchange(error, nullptr); own && !first) first = own;
  if (first) std::rethrow_exception(first);
}

void ReplicaThreads::serve(size_t replica, const torch::Device& device, int intra_op_threads) {
  const c10::DeviceGuard current_device(device);
  MutexLock lock(mutex_);
  // This sets the number of this thread alone. It needs the lock, because LibTorch's own pool, whose number is set at
  // the same time, has none. Asked for the first time in a thread, LibTorch sets the number that any thread has set
  // last; so that must have happened before.
  at::get_num_threads();
  at::set_num_threads(intra_op_threads);
  for (uint64_t done = 0;;) {
    has_begun_.wait(mutex_, [&]() PENSTOCK_REQUIRES(mutex_) { return number_ != done || is_over_; });
    if (is_over_) return;
    done = number_;
    const Work* const work = work_;
    lock.unlock();
    try {
      const at::ThreadLocalStateGuard modes(work->modes);
      (*work->body)(replica);
    } catch (...) {
      errors_[replica] = std::current_exception();  // read by the caller after the last one has ended
    }
    lock.lock();
    if (--busy_count_ == 0) has_ended_.notify_one();
  }
}

}  // namespace penstock::detail
