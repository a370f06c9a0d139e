// Ranks that are threads: one setup for each, and who failed first.
#include "train/run/rank_threads.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <thread>

#include "core/error.h"
#include "core/limits.h"
#include "core/mutex.h"
#include "core/text.h"
#include "train/comm/sim_net.h"
#include "train/comm/thread_comm.h"
#include "train/nn/model.h"
#include "train/run/run.h"
#include "train/run/world.h"
#include "train/tensor/short_message.h"

namespace penstock {
namespace {

constexpr std::chrono::seconds kGrace{5};  // the others end with their step, unless they hang

/// Rank 0 takes the model; the others' are made one after the other, because weights come from the random numbers of
/// the process.
Setup setup_of_rank(Setup& all, int rank) {
  Setup own;
  own.options = all.options;
  own.world = all.world;
  own.world.rendezvous.rank = own.world.rendezvous.local_rank = rank;
  own.device = all.device;
  own.data = all.data;
  own.pipeline = all.pipeline;
  own.eval_pipeline = all.eval_pipeline;
  own.shape = all.shape;
  own.rows_per_epoch = all.rows_per_epoch;
  own.selection = all.selection;
  own.rate_factors = all.rate_factors;
  own.step_options = all.step_options;
  own.loss = all.loss;
  own.initial_weights = all.initial_weights;
  own.is_outline = all.is_outline;
  if (rank == 0)
    own.model = std::move(all.model);
  else
    own.model = all.is_outline ? make_outline(all) : make_model(all);
  own.checkpoint = all.checkpoint;  // its tensors are shared and only read
  own.info = all.info;
  return own;
}

class RankThreads {
 public:
  explicit RankThreads(Setup& setup) {
    const int count = setup.world.rendezvous.world_size;
    for (int rank = 0; rank < count; ++rank) setups_.push_back(setup_of_rank(setup, rank));
    comms_ = make_thread_comms(count, setup.world.rendezvous.step_seconds, setup.world.rendezvous.meeting_seconds);
    for (auto& comm : comms_) comm = make_sim_net(std::move(comm), setup.options.emulation.network);
    codes_.resize(setups_.size());
  }

  int run() {
    start();
    {
      const MutexLock lock(mutex_);
      changed_.wait(mutex_,
                    [&]() PENSTOCK_REQUIRES(mutex_) { return ended_count_ == threads_.size() || first_error_; });
      if (first_error_ && !changed_.wait_for(mutex_, kGrace, [&]() PENSTOCK_REQUIRES(mutex_) {
            return ended_count_ == threads_.size();
          }))
        end_now();
    }
    for (auto& thread : threads_) thread.join();
    const MutexLock lock(mutex_);
    if (first_error_) std::rethrow_exception(first_error_);
    return codes_.front();
  }

 private:
  /// A thread that the system does not give is a rank that fails: those that run would wait for it.
  void start() {
    try {
      while (threads_.size() < setups_.size()) threads_.emplace_back([this, rank = threads_.size()] { serve(rank); });
    } catch (const std::exception&) {
      const Error error = threads_error("--hosting threads", static_cast<int>(setups_.size()),
                                        static_cast<int>(threads_.size()), "fewer ranks (--nproc)");
      fail(std::make_exception_ptr(error));
      comms_[threads_.size()]->abort(error.what());
    }
  }

  void serve(size_t rank) {
    {
      // This sets the number of this thread alone. ReplicaThreads::serve() says why it needs the lock and the call
      // before.
      const MutexLock lock(mutex_);
      at::get_num_threads();
      at::set_num_threads(setups_[rank].options.threads);
    }
    try {
      const c10::DeviceGuard current_device(rank_device(setups_[rank].options, setups_[rank].world));
      codes_[rank] = run_rank(setups_[rank], *comms_[rank]);
    } catch (const std::exception& failure) {
      fail(std::current_exception());  // before the others know: what they then throw is not the first error
      comms_[rank]->abort(short_message(failure));
    }
    const MutexLock lock(mutex_);
    ++ended_count_;
    changed_.notify_all();
  }

  void fail(std::exception_ptr error) {
    const MutexLock lock(mutex_);
    if (!first_error_) first_error_ = std::move(error);
    changed_.notify_all();
  }

  /// Without the destructors of what the remaining threads still use.
  [[noreturn]] void end_now() const PENSTOCK_REQUIRES(mutex_) {
    int code = 1;
    std::string message;
    try {
      std::rethrow_exception(first_error_);
    } catch (const Error& error) {
      code = error.exit_code();
      message = error.what();
    } catch (const std::exception& error) {
      message = concat("unforeseen: ", short_message(error));
    }
    std::cout << std::flush;
    std::cerr << concat("train: ", message, "\n") << std::flush;
    std::_Exit(code);
  }

  std::vector<Setup> setups_;  // one entry per rank, as of all that follow
  std::vector<std::unique_ptr<Comm>> comms_;
  std::vector<int> codes_;
  Mutex mutex_;
  CondVar changed_;
  size_t ended_count_ PENSTOCK_GUARDED_BY(mutex_) = 0;
  std::exception_ptr first_error_ PENSTOCK_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace

int run_rank_threads(Setup& setup) {
  RankThreads ranks(setup);
  return ranks.run();
}

}  // namespace penstock
