// Schedule: in which order one rank of a pipeline runs forward and backward of its micro-batches; a plug-in.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/registry.h"

namespace penstock {
namespace detail {

struct Operation {
  /// kBackward gives the gradients of the part's input and of its parameters at once. kInputGradient and
  /// kWeightGradient are its two halves, in this order.
  enum class Kind { kForward, kBackward, kInputGradient, kWeightGradient };
  Kind kind = Kind::kForward;
  int micro_batch = 0;
  int chunk = 0;  ///< Which of the parts that the rank holds, in the order of the model.
  /// In a forward: only its input is kept. In the operation that follows it: the forward is run again first.
  bool recomputes = false;
  bool operator==(const Operation&) const = default;
};

/// The operations of one rank in one step, in order.
using Schedule = std::vector<Operation>;

/// Which forwards keep their input alone and are run again before their backward (Chen et al. 2016, "Training deep nets
/// with sublinear memory cost"). kExceptLast: all but those that their backward follows at once, which would save
/// nothing. With gpipe that is the last micro-batch, as in torchgpipe (Kim et al. 2020, sec. 2.3).
enum class Recompute { kNever, kExceptLast, kAlways };

/// What a pipeline's operations depend on. The model has ranks x interleave parts; part q is chunk q / ranks of rank
/// q % ranks, unless ScheduleTraits::is_v or a file says otherwise.
struct SchedulePlan {
  std::string name = "1f1b";  // of ScheduleRegistry, or the path of a file (pipeline/schedule_file.h)
  int ranks = 1, micro_batches = 1;
  int interleave = 1;  // parts per rank; above 1 only with a schedule that has several
  Recompute recompute = Recompute::kNever;
  bool takes_turns = false;  // each micro-batch is through before the next one begins, whatever the name
};

}  // namespace detail

/// A schedule is a pure function of its plan. Its file draws it, with the bubble and the source. A contract test holds
/// every registered one to this: each rank runs each of its micro-batches once, nothing comes before what it needs,
/// no rank waits for ever, and most_alive() is what it says.
class PipelineSchedule {
 public:
  virtual ~PipelineSchedule() = default;
  /// In order, without Operation::recomputes, which is added by `plan.recompute`.
  virtual detail::Schedule operations(const detail::SchedulePlan& plan, int rank) const = 0;
  /// The most micro-batches, of all chunks together, whose activations are alive at this rank without recomputation.
  virtual int most_alive(const detail::SchedulePlan& plan, int rank) const = 0;
};

struct ScheduleTraits {
  /// Parts of the model per rank, unless the key `interleave` says another number. Above 1 the micro-batches must be a
  /// multiple of the ranks, unless `is_v`.
  int chunks = 1;
  bool splits_backward = false;  ///< Into kInputGradient and kWeightGradient.
  /// Whether messages are under way while the next micro-batch is computed, except where the pipeline fills and drains.
  bool hides_messages = false;
  bool is_v = false;       ///< Rank p has parts p and 2 * ranks - 1 - p. Requires 2 chunks, which are then no choice.
  int least_per_rank = 0;  ///< Micro-batches for each rank that the schedule needs.
};

struct ScheduleKind {
  using Interface = PipelineSchedule;
  using Traits = ScheduleTraits;
  static constexpr const char* kName = "schedule";
  using Factory = std::function<std::unique_ptr<PipelineSchedule>(const Spec&)>;
};
using ScheduleRegistry = Registry<ScheduleKind>;

}  // namespace penstock
