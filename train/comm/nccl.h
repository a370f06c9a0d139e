// NCCL: what makes its backend of c10d.
#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace penstock::detail {

using NcclMaker = c10::intrusive_ptr<c10d::Backend>(c10::intrusive_ptr<c10d::Store> store, int rank, int world_size,
                                                    std::chrono::seconds timeout);

/// libpenstock_cuda.so says it when it is loaded, before main() (train/tensor/cuda_library.h). Until then nobody makes
/// NCCL's backend. A maker throws as c10d's constructor does.
void set_nccl_maker(NcclMaker* maker);

}  // namespace penstock::detail
