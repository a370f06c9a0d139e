// Schedule: in which order one rank of a pipeline runs forward and backward of its micro-batches; a plug-in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
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

/// Where nothing is measured, backward takes twice as long as forward, and each of its halves as long as forward: in
/// thirds of a forward and a backward.
constexpr int thirds_of(Operation::Kind kind) { return kind == Operation::Kind::kBackward ? 2 : 1; }

/// The operations of one rank in one step, in order.
using Schedule = std::vector<Operation>;

/// Blocks first .. end - 1 of a model.
struct BlockRange {
  size_t first = 0, end = 0;
  bool operator==(const BlockRange&) const = default;
};

/// Parts of the model, in its order, and the rank of each. The parts of one rank, in the same order, are its chunks.
///
/// Thread-safety: a value.
class Placement {
 public:
  /// `rank_of_part`: one entry per part. Requires that every rank from 0 to the highest one has a part.
  explicit Placement(std::vector<int> rank_of_part = {0}) : ranks_(std::move(rank_of_part)) {
    parts_.resize(static_cast<size_t>(*std::max_element(ranks_.begin(), ranks_.end())) + 1);
    for (size_t part = 0; part < ranks_.size(); ++part) {
      auto& own = parts_[static_cast<size_t>(ranks_[part])];
      chunks_.push_back(static_cast<int>(own.size()));
      own.push_back(static_cast<int>(part));
    }
  }

  /// Part q is chunk q / ranks of rank q % ranks: the way through the model goes around.
  static Placement loop(int ranks, int chunks) {
    std::vector<int> rank_of_part;
    for (int part = 0; part < ranks * chunks; ++part) rank_of_part.push_back(part % ranks);
    return Placement(std::move(rank_of_part));
  }

  /// Rank p has parts p and 2 * ranks - 1 - p: the way goes to the last rank and back, as the letter V.
  static Placement v(int ranks) {
    std::vector<int> rank_of_part;
    for (int part = 0; part < 2 * ranks; ++part) rank_of_part.push_back(std::min(part, 2 * ranks - 1 - part));
    return Placement(std::move(rank_of_part));
  }

  int rank_count() const { return static_cast<int>(parts_.size()); }
  int part_count() const { return static_cast<int>(ranks_.size()); }
  int rank_of(int part) const { return ranks_[static_cast<size_t>(part)]; }
  int chunk_of(int part) const { return chunks_[static_cast<size_t>(part)]; }
  int part_of(int rank, int chunk) const { return parts_of(rank)[static_cast<size_t>(chunk)]; }
  /// In the order of the model.
  const std::vector<int>& parts_of(int rank) const { return parts_[static_cast<size_t>(rank)]; }
  bool operator==(const Placement&) const = default;

 private:
  std::vector<int> ranks_, chunks_;      // one entry per part
  std::vector<std::vector<int>> parts_;  // one entry per rank
};

/// The operations of all ranks, and where the parts of the model are.
struct PlacedSchedules {
  Placement placement;
  std::vector<Schedule> ranks = {};  ///< One entry per rank.
  int micro_batches = 1;
  bool operator==(const PlacedSchedules&) const = default;
};

/// Which forwards keep their input alone and are run again before their backward (Chen et al. 2016, "Training deep nets
/// with sublinear memory cost"). kExceptLast: all but those that their backward follows at once, which would save
/// nothing. With gpipe that is the last micro-batch, as in torchgpipe (Kim et al. 2020, sec. 2.3).
enum class Recompute { kNever, kExceptLast, kAlways };

/// What a pipeline's operations depend on. The model has ranks x interleave parts; part q is chunk q / ranks of rank
/// q % ranks, unless ScheduleTraits::is_v or a file says otherwise.
struct SchedulePlan {
  std::string name =
      "1f1b";  // of ScheduleRegistry, or the path of a file (pipeline/schedule_file.h); see StepPlan for ""
  int ranks = 1, micro_batches = 1;
  int interleave = 1;  // parts per rank; above 1 only with a schedule that has several
  Recompute recompute = Recompute::kNever;
  bool takes_turns = false;  // each micro-batch is through before the next one begins, whatever the name
  bool operator==(const SchedulePlan&) const = default;
};

}  // namespace detail

/// A schedule is a pure function of its plan. Its file draws it, with the bubble and the source. A contract test holds
/// every registered one to this: each rank runs each of its micro-batches once, nothing comes before what it needs, and
/// no rank waits for ever.
class PipelineSchedule {
 public:
  virtual ~PipelineSchedule() = default;
  /// In order, without Operation::recomputes, which is added by `plan.recompute`.
  virtual detail::Schedule operations(const detail::SchedulePlan& plan, int rank) const = 0;
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
