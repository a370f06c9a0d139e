// Ranks as threads of the test's process: real c10d over Gloo, meeting in a HashStore.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "train/comm/c10d_comm.h"

namespace penstock {

/// Calls `body` once a rank, each on a thread of its own with its own Comm; rethrows what the lowest rank threw. One
/// rank gets the self comm.
inline void run_ranks(int world_size, const std::function<void(Comm&)>& body) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::exception_ptr> errors(static_cast<size_t>(world_size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        const Rendezvous rendezvous{.rank = rank, .world_size = world_size, .timeout_seconds = 60};
        auto comm = world_size == 1 ? make_self_comm() : make_c10d_comm(store, rendezvous, torch::kCPU, "gloo");
        body(*comm);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace penstock
