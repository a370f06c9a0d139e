// StageLink: activations, gradients and labels on their way between the ranks that hold neighbouring stages.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "train/comm/comm.h"
#include "train/measure/recorder.h"
#include "train/parallel/strategy/schedule.h"
#include "train/tensor/device_batch.h"

namespace penstock::detail {

/// A rank may hold several parts. What goes from one of them to the next one at the same rank is handed over as it is.
///
/// Receives wait. Sends return at once, except that a gradient first waits until the one before it has arrived.
///
/// Memory: what was sent stays in memory until finish(), but an activation only until its gradient has come, and a
/// gradient only until the next one is sent. So one gradient is on its way, beside the activations that the schedule
/// keeps alive. This cannot stop a schedule of the registry: the peer receives gradients in the order in which they are
/// sent, and what it does before needs nothing that comes later (tests/train/parallel/pipeline has a test that runs all
/// of them so). Of other schedules nobody knows that: with `keeps_gradients` no send waits, and gradients stay until
/// finish().
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
  StageLink(Comm& pipe, const Placement& placement, const torch::Device& device, Recorder& recorder, int first_rank = 0,
            int64_t target_count = 0, bool keeps_gradients = false)
      : pipe_(pipe),
        placement_(placement),
        device_(device),
        recorder_(recorder),
        first_rank_(first_rank),
        target_count_(target_count),
        keeps_gradients_(keeps_gradients),
        sent_(static_cast<size_t>(placement.part_count())),
        received_(static_cast<size_t>(placement.part_count())) {}

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

  /// Whether two parts are at this rank, of which one has what the other needs.
  bool are_both_here(int part, int other) const { return placement_.rank_of(part) == placement_.rank_of(other); }
  torch::Tensor take_kept(int tag);
  int activation_tag(int part, int micro_batch) const;
  int gradient_tag(int part, int micro_batch) const { return activation_tag(part, micro_batch) + 1; }
  void send(torch::Tensor tensor, int peer, int tag, const std::string& what);
  void release(int tag);
  torch::Tensor receive(torch::Tensor tensor, int peer, int tag, const std::string& what);

  Comm& pipe_;
  Placement placement_;
  torch::Device device_;
  Recorder& recorder_;
  int first_rank_;
  int64_t target_count_;
  bool keeps_gradients_;
  int64_t activation_bytes_ = 0;
  std::vector<Shape> sent_, received_;    // one entry per part: what it gives, and what it takes
  std::vector<Message> under_way_;        // what was sent and not waited for
  std::map<int, torch::Tensor> kept_;     // by tag: what another part at this rank has not taken yet
  std::optional<int> last_gradient_tag_;  // of what was sent in this step
};

}  // namespace penstock::detail
