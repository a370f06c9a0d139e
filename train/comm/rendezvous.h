// Rendezvous: where the ranks of a run meet. Apart from comm.h, so that launching needs no LibTorch.
#pragma once

#include <string>

namespace penstock {

/// Where the ranks of a run meet.
struct Rendezvous {
  int rank = 0, world_size = 1, local_rank = 0;
  std::string host = "127.0.0.1";
  int port = 0;
  int timeout_seconds = 600;
  bool is_hosted = false;  ///< The launcher listens at host:port already (torchrun's agent); otherwise rank 0 does.
};

}  // namespace penstock
