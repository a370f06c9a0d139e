// transfer(): a call, and its answer.
#include "train/parallel/strategy/transfer.h"

#include "core/text.h"

namespace penstock::detail {

torch::Tensor transfer(Comm& comm, int from, const torch::Tensor& own, const torch::Device& device,
                       const std::string& what) {
  constexpr int kTag = 0;  // messages of a step have ended
  if (from == 0) return comm.rank() == 0 ? own : torch::Tensor();
  auto call = torch::zeros({1}, torch::dtype(torch::kUInt8).device(device));
  if (comm.rank() == from) {
    comm.receive(call, 0, kTag, concat("the call for ", what))->wait();
    comm.send(own.detach().contiguous(), 0, kTag, what)->wait();
  }
  if (comm.rank() != 0) return {};
  auto tensor = torch::empty(own.sizes(), torch::dtype(own.scalar_type()).device(device));
  const auto sent = comm.send(call, from, kTag, concat("the call for ", what));
  comm.receive(tensor, from, kTag, what)->wait();
  sent->wait();
  return tensor;
}

}  // namespace penstock::detail
