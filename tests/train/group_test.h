// GroupTest: what holds for a group of ranks, whatever they communicate by.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/train/rank_threads.h"

namespace penstock {

struct Medium {
  const char* name;
  Network network;
  std::optional<NetworkModel> sim_net = {};
};

/// What holds for ranks over Gloo, for those that share memory beside it, for ranks that are threads, and for these
/// over a simulated network.
class GroupTest : public testing::TestWithParam<Medium> {
 protected:
  void ranks(int world_size, const std::function<void(Comm&)>& body, int step_seconds = 60) {
    run_ranks(world_size, body, step_seconds, GetParam().network, GetParam().sim_net);
  }
  std::string backend() const { return GetParam().network == Network::kThreads ? "threads" : "gloo"; }
};
const std::vector<Medium> kMedia{{"Gloo", Network::kGloo},
                                 {"Shared", Network::kShared},
                                 {"Threads", Network::kThreads},
                                 {"Simulated", Network::kThreads, NetworkModel{20'000, 1e9}}};
inline std::string name_of_medium(const testing::TestParamInfo<Medium>& info) { return info.param.name; }

}  // namespace penstock
