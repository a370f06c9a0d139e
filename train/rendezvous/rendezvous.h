// Rendezvous: where the ranks of a run meet. Apart from comm.h, so that launching needs no LibTorch.
//
// Lives here: how ranks find each other, make sure that they are about to train the same, and watch each other. They
// use a key-value store, which they find at an address or through a file.
// Not here: starting ranks (train/launch), and collectives (train/comm).
#pragma once

#include <string>
#include <vector>

namespace penstock {

/// Where the ranks of a run meet.
struct Rendezvous {
  int rank = 0, world_size = 1, local_rank = 0;
  std::string host = "127.0.0.1";
  int port = 0;
  std::string file = "";          ///< If not empty: rank 0 writes its host and port there, and the others read them.
  std::string interface = "";     ///< --interface: for Gloo and NCCL, and for rank 0's store where `host` is remote.
  int meeting_seconds = 600;      ///< The longest wait for all ranks to be there, and of a collective before step 1.
  int step_seconds = 120;         ///< The longest collective from then on.
  bool is_hosted = false;         ///< The launcher listens at host:port already (torchrun's agent), not rank 0.
  std::string attempt = "first";  ///< Keeps what ranks left there before the launcher started them again apart.
  /// What the launcher has told its ranks alone, so that they can tell each other from strangers; "" without one.
  std::string token = "";
  /// One entry per rank: where it announces itself, as meet() has found out. None: all ranks are on this machine.
  std::vector<std::string> addresses = {};
};

}  // namespace penstock
