// StageLink: activations, gradients and labels on their way between the ranks that hold neighbouring stages.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "train/comm/comm.h"
#include "train/measure/recorder.h"
#include "train/tensor/device_batch.h"

namespace penstock::detail {

/// Part q of the model is at rank q modulo the number of ranks, so that messages go around when a rank holds several.
/// Sends return at once, but for a gradient, which first waits until the one before it has arrived; receives wait. What
/// was sent keeps its memory until finish(), an activation until its gradient has come, and a gradient until the next
/// one is sent: beside the activations that the schedule keeps alive, one gradient is on its way. No schedule comes to
/// a stop by that: the peer asks for the gradients in the order in which they are sent, and what it does before that
/// needs nothing that comes later (tests/train/parallel/pipeline/schedule_test.cpp runs all of them so). A tensor's
/// sizes without its rows are told once per part, before its first activation: the rows of each message are known to
/// both ranks.
///
/// Errors: device_error as Comm has it, naming the message: "the activation of micro-batch 3 from rank 0". bug_error
/// for an activation of other sizes than the first one, before it is sent: Gloo ends the process of a rank that
/// receives more or fewer bytes than it expects. Thread-safety: the training thread's alone.
class StageLink {
 public:
  /// `pipe`: the ranks that hold the parts, two or more, which are ranks `first_rank` and on of the run. `recorder`
  /// hears of each message.
  StageLink(Comm& pipe, int part_count, const torch::Device& device, Recorder& recorder, int first_rank = 0)
      : pipe_(pipe),
        part_count_(part_count),
        device_(device),
        recorder_(recorder),
        first_rank_(first_rank),
        sent_(part_count),
        received_(part_count) {}

  /// What `part` gives, to the part after it; and what it takes, from the part before it.
  void send_activation(int part, int micro_batch, const torch::Tensor& activation);
  torch::Tensor receive_activation(int part, int micro_batch, int64_t rows);
  /// The gradient of what `part` takes, to the part before it; and of what it gives, from the part after it. Sending
  /// belongs to Phase::kBackward, and its wait to Phase::kBubble.
  void send_gradient(int part, int micro_batch, const torch::Tensor& gradient);
  torch::Tensor receive_gradient(int part, int micro_batch, const torch::Tensor& like);

  /// The batch with its labels, weights and mixing at the last part, as the first part has them; elsewhere as given.
  DeviceBatch with_targets(const DeviceBatch& batch);

  /// The size of the largest activation that this rank has sent so far, which is one micro-batch's.
  int64_t activation_bytes() const { return activation_bytes_; }

  /// Waits until everything that was sent may be written to again.
  void finish();

 private:
  /// An activation's sizes without its rows; empty: not told yet.
  struct Shape {
    std::vector<int64_t> sizes;
    at::ScalarType type = at::kFloat;
  };

  struct Message {
    int tag;
    torch::Tensor tensor;
    std::unique_ptr<Comm::Work> work;
  };

  int rank_of(int part) const { return part % pipe_.world_size(); }
  int activation_tag(int part, int micro_batch) const;
  int gradient_tag(int part, int micro_batch) const { return activation_tag(part, micro_batch) + 1; }
  void send(torch::Tensor tensor, int peer, int tag, const std::string& what);
  void release(int tag);
  torch::Tensor receive(torch::Tensor tensor, int peer, int tag, const std::string& what);

  Comm& pipe_;
  int part_count_;
  torch::Device device_;
  Recorder& recorder_;
  int first_rank_;
  int64_t activation_bytes_ = 0;
  std::vector<Shape> sent_, received_;    // one entry per part: what it gives, and what it takes
  std::vector<Message> under_way_;        // what was sent and not waited for
  std::optional<int> last_gradient_tag_;  // of what was sent in this step
};

}  // namespace penstock::detail
