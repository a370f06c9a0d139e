// The backend of NCCL, which LibTorch has in libtorch_cuda.
#include "train/comm/nccl.h"

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <utility>

namespace penstock::detail {
namespace {

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(c10::intrusive_ptr<c10d::Store> store, int rank, int world_size,
                                                    std::chrono::seconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(std::move(store), rank, world_size, options);
}

const bool kRegistered = (set_nccl_maker(make_nccl_backend), true);

}  // namespace
}  // namespace penstock::detail
