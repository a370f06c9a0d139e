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
///
/// Receives wait. Sends return at once, except that a gradient first waits until the one before it has arrived.
///
/// Memory: what was sent stays in memory until finish(), but an activation only until its gradient has come, and a
/// gradient only until the next one is sent. So one gradient is on its way, beside the activations that the schedule
/// keeps alive. This cannot stop a schedule: the peer receives gradients in the order in which they are sent, and what
/// it does before needs nothing that comes later (tests/train/parallel/pipeline/schedule_test.cpp runs all of them so).
///
/// Sizes: before the first activation of a part its sizes are sent, once, without the rows. Both ranks know the rows of
/// each message anyway.
///
/// Errors: device_error as Comm has it, naming the message: "the activation of micro-batch 3 from rank 0". bug_error
/// for an activation of other sizes than the first one, before it is sent: Gloo ends the process of a rank that
/// receives more or fewer bytes than it expects. Thread-safety: the training thread's alone.
class StageLink {
 public:
  /// `pipe`: the ranks that hold the parts; its rank 0 is rank `first_rank` of the run. Each message is told to
  /// `recorder`. One rank alone sends nothing. `target_count`: numbers per row of the column kTargetColumn; 0: batches
  /// have none.
  StageLink(Comm& pipe, int part_count, const torch::Device& device, Recorder& recorder, int first_rank = 0,
            int64_t target_count = 0)
      : pipe_(pipe),
        part_count_(part_count),
        device_(device),
        recorder_(recorder),
        first_rank_(first_rank),
        target_count_(target_count),
        sent_(part_count),
        received_(part_count) {}

  /// Sends the output of `part` to the part after it; receives the input of `part` from the part before it.
  void send_activation(int part, int micro_batch, const torch::Tensor& activation);
  torch::Tensor receive_activation(int part, int micro_batch, int64_t rows);
  /// Sends the gradient of the input of `part` to the part before it; receives the gradient of its output, which has
  /// the sizes of `like`, from the part after it. Sending counts as Phase::kBackward, its wait as Phase::kBubble.
  void send_gradient(int part, int micro_batch, const torch::Tensor& gradient);
  torch::Tensor receive_gradient(int part, int micro_batch, const torch::Tensor& like);

  /// The labels, weights, mixing and targets of a batch go from the first part to the last. Returns, at the last part,
  /// the batch with them; elsewhere the batch as given.
  DeviceBatch with_targets(const DeviceBatch& batch);

  /// The bytes of the largest activation, of one micro-batch, that this rank has sent so far.
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
  int64_t target_count_;
  int64_t activation_bytes_ = 0;
  std::vector<Shape> sent_, received_;    // one entry per part: what it gives, and what it takes
  std::vector<Message> under_way_;        // what was sent and not waited for
  std::optional<int> last_gradient_tag_;  // of what was sent in this step
};

}  // namespace penstock::detail
