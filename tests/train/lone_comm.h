// LoneComm: the communicator of a single rank, for tests that want to see some of what is asked of it.
#pragma once

#include <memory>
#include <string>

#include "train/comm/comm.h"

namespace penstock {

/// As make_self_comm() has it; what a test wants to see it overrides.
class LoneComm : public Comm {
 public:
  int rank() const override { return self_->rank(); }
  int world_size() const override { return self_->world_size(); }
  std::string backend() const override { return self_->backend(); }
  std::unique_ptr<Work> all_reduce_sum(torch::Tensor& tensor) override { return self_->all_reduce_sum(tensor); }
  std::unique_ptr<Work> reduce_scatter_sum(torch::Tensor& mine, torch::Tensor& all) override {
    return self_->reduce_scatter_sum(mine, all);
  }
  void broadcast(torch::Tensor& tensor, int root) override { self_->broadcast(tensor, root); }
  torch::Tensor all_gather(const torch::Tensor& tensor) override { return self_->all_gather(tensor); }
  std::unique_ptr<Work> all_gather_into(torch::Tensor& all, const torch::Tensor& mine) override {
    return self_->all_gather_into(all, mine);
  }
  void barrier() override {}
  std::unique_ptr<Work> send(const torch::Tensor& tensor, int peer, int tag, const std::string& what) override {
    return self_->send(tensor, peer, tag, what);
  }
  std::unique_ptr<Work> receive(torch::Tensor& tensor, int peer, int tag, const std::string& what) override {
    return self_->receive(tensor, peer, tag, what);
  }
  std::unique_ptr<Comm> split(int color) override { return self_->split(color); }
  void at_step(int64_t) override {}
  void abort(const std::string&) override {}

 private:
  std::unique_ptr<Comm> self_ = make_self_comm();
};

}  // namespace penstock
