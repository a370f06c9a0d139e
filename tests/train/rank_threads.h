// Ranks as threads of the test's process: they use the real c10d over Gloo and meet in a HashStore.
#pragma once

#include <ATen/Parallel.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "core/error.h"
#include "train/comm/c10d_comm.h"
#include "train/comm/sim_net.h"
#include "train/comm/thread_comm.h"

namespace penstock {

enum class Network { kGloo, kShared, kThreads };  // the second: Gloo, and memory that ranks share

/// Calls `body` once per rank, each time on a thread of its own with its own Comm. Rethrows what the lowest rank threw.
/// A single rank gets the Comm for one rank. With `sim_net` they are as far apart as that says. `meeting_seconds` is 0
/// for the seconds of a step.
inline void run_ranks(int world_size, const std::function<void(Comm&)>& body, int step_seconds = 60,
                      Network network = Network::kGloo, const std::optional<NetworkModel>& sim_net = {},
                      int meeting_seconds = 0) {
  // LibTorch 2.11's flight recorder writes to a std::map of process groups before it takes its lock
  // (FlightRecorderDetail.hpp, record()): a crash where several ranks are threads of one process, as only here.
  setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/1);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  if (meeting_seconds == 0) meeting_seconds = step_seconds;
  auto thread_comms = make_thread_comms(world_size, step_seconds, meeting_seconds);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(world_size)), echoes(errors);
  std::vector<std::thread> threads;
  std::latch connected(world_size);
  for (int rank = 0; rank < world_size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        at::set_num_threads(1);  // OpenMP threads of one rank would spin and take the cores from those of the others
        const Rendezvous rendezvous{
            .rank = rank, .world_size = world_size, .meeting_seconds = meeting_seconds, .step_seconds = step_seconds};
        std::unique_ptr<Comm> comm;
        try {
          if (world_size == 1)
            comm = make_self_comm();
          else if (network == Network::kThreads)
            comm = std::move(thread_comms[static_cast<size_t>(rank)]);
          else
            comm = make_c10d_comm(store, rendezvous, torch::kCPU, network == Network::kGloo ? "gloo" : "auto");
          if (sim_net) comm = make_sim_net(std::move(comm), *sim_net);
        } catch (...) {
          connected.count_down();
          throw;
        }
        // Without this, a rank with a short body would end before a slow rank has connected to it.
        connected.arrive_and_wait();
        body(*comm);
      } catch (const Error& error) {
        auto& list = error.kind() == ErrorKind::kDevice ? echoes : errors;
        list[static_cast<size_t>(rank)] = std::current_exception();
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  errors.insert(errors.end(), echoes.begin(), echoes.end());
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

/// Ranks over Gloo that share memory.
inline void run_sharing(int world_size, const std::function<void(Comm&)>& body, int step_seconds = 60) {
  run_ranks(world_size, body, step_seconds, Network::kShared);
}

}  // namespace penstock
