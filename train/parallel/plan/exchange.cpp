// Exchange: messages between the ranks 0 and 1, 2 and 3, and so on.
#include "train/parallel/plan/exchange.h"

#include <cstdint>
#include <utility>

#include "train/parallel/plan/trials.h"

namespace penstock::detail {

Exchange::Exchange(Comm& comm, double gradient_bytes)
    : comm_(comm),
      peer_(comm.rank() ^ 1),
      gradients_(comm.allocate(static_cast<int64_t>(gradient_bytes / 4), torch::dtype(torch::kFloat32))) {}

void Exchange::message(const torch::Tensor& tensor) {
  constexpr int kTag = 1;
  wait_for_message();
  if (peer_ >= comm_.world_size()) return;
  sent_ = tensor.detach();
  received_ = torch::empty_like(sent_);
  works_[0] = comm_.receive(received_, peer_, kTag, "a probe");
  works_[1] = comm_.send(sent_, peer_, kTag, "a probe");
}

void Exchange::wait_for_message() {
  for (auto& work : works_)
    if (work) std::exchange(work, nullptr)->wait();
}

torch::Tensor Exchange::gather(const torch::Tensor& mine) {
  const int64_t start_ns = now_ns();
  auto sizes = mine.sizes().vec();
  sizes.insert(sizes.begin(), comm_.world_size());
  auto all = torch::empty(sizes, mine.options());
  comm_.all_gather_into(all, mine)->wait();
  gather_wait_ += seconds_since(start_ns);
  ++gather_count_;
  return all;
}

void Exchange::sum() { comm_.all_reduce_sum(gradients_)->wait(); }

}  // namespace penstock::detail
