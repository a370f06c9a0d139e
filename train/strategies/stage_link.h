// StageLink: activations, gradients and labels on their way between the ranks that hold neighbouring stages.
#pragma once

#include <memory>
#include <vector>

#include "train/comm/comm.h"
#include "train/device_batch.h"

namespace penstock::detail {

/// Sends return at once and are waited for by finish(); receives wait. A tensor's sizes without its rows are told once,
/// before the first activation: the rows of each message are known to both ranks.
///
/// Errors: device_error as Comm has it, naming the message: "the activation of micro-batch 3 from rank 0". bug_error
/// for an activation of other sizes than the first one, before it is sent: Gloo ends the process of a rank that
/// receives more or fewer bytes than it expects. Thread-safety: the training thread's alone.
class StageLink {
 public:
  /// `pipe`: a rank for each part of the model, in the order of the stages.
  StageLink(Comm& pipe, const torch::Device& device) : pipe_(pipe), device_(device) {}

  void send_activation(int micro_batch, const torch::Tensor& activation);
  torch::Tensor receive_activation(int micro_batch, int64_t rows);
  void send_gradient(int micro_batch, const torch::Tensor& gradient);
  torch::Tensor receive_gradient(int micro_batch, const torch::Tensor& like);

  /// The batch with its labels, weights and mixing at the last part, as the first part has them; elsewhere as given.
  DeviceBatch with_targets(const DeviceBatch& batch);

  /// Waits until everything that was sent may be written to again.
  void finish();

 private:
  void send(torch::Tensor tensor, int peer, int tag, const std::string& what);
  torch::Tensor receive(torch::Tensor tensor, int peer, int tag, const std::string& what);

  Comm& pipe_;
  torch::Device device_;
  std::vector<int64_t> sent_sizes_, received_sizes_;  // of an activation, without its rows; empty: not told yet
  at::ScalarType sent_type_ = at::kFloat, received_type_ = at::kFloat;
  std::vector<torch::Tensor> held_;  // what is being sent
  std::vector<std::unique_ptr<Comm::Work>> works_;
};

}  // namespace penstock::detail
