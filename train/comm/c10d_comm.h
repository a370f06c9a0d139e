// c10d: LibTorch's collectives, over Gloo on the CPU and NCCL on CUDA.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "train/comm/comm.h"

namespace penstock {

/// The group of the ranks that meet in `store`; of the rendezvous only rank, world size, host and time-out count.
/// Blocks until all ranks are there. With a HashStore the ranks may be threads of one process, a Comm for each.
std::unique_ptr<Comm> make_c10d_comm(c10::intrusive_ptr<c10d::Store> store, const Rendezvous& rendezvous,
                                     const torch::Device& device, const std::string& backend);

}  // namespace penstock
