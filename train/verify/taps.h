// Taps: the tensors of some steps of one rank, as they stand after each operation.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "train/losses/loss.h"
#include "train/nn/model.h"
#include "train/parallel/strategy/step_taps.h"
#include "train/verify/progress.h"

namespace penstock {

/// What a tapped tensor is, in an order in which none follows from a later one of the same step. (The two of backward
/// are of one place: a block's output comes before its parameters, and those before the output of the block below.)
enum class TapPoint {
  kStart,           // a parameter or buffer as the first forward of its block finds it
  kForward,         // what a block gives
  kRecompute,       // what it gives when it runs again for its backward
  kOutputGradient,  // the gradient of what a block gave
  kContribution,    // what one backward adds to the gradient of a parameter
  kSum,             // the gradient of a parameter, summed over micro-batches and ranks
  kUpdate,          // a parameter after the update, at the rank that changes it
  kShare,           // a parameter or buffer at the end of the step
};

/// Rows where it is something of samples: their positions in the epoch, which also say which ones a kContribution is
/// of. Otherwise the elements from `first` on of a parameter or buffer, in the order of its memory.
struct TapRecord {
  int64_t step = 0;
  TapPoint point = TapPoint::kStart;
  int rank = 0;
  size_t block = 0;
  std::string name;  // of the parameter or buffer; of the block for what it gives
  int64_t first = 0, count = 0;
  torch::Tensor value;
};
using TapRecords = std::vector<TapRecord>;

/// Whether dimension 0 of `value` are rows.
constexpr bool has_rows(TapPoint point) {
  return point == TapPoint::kForward || point == TapPoint::kRecompute || point == TapPoint::kOutputGradient;
}

/// Some rows of the batch of a step.
struct TapCut {
  int64_t step, first, count;
  auto operator<=>(const TapCut&) const = default;
};

/// The steps to look into, and for `single` also what some of their rows alone would add to the gradients, as
/// kContribution.
struct TapPlan {
  int64_t first_step = 0, end_step = 0;
  std::set<TapCut> cuts = {};
};

/// Memory: copies on the CPU of what it sees, until write(). Thread-safety: that of StepTaps; several models of a rank
/// may run on threads of their own.
class Taps final : public detail::StepTaps {
 public:
  /// `progress` always has what the rank is doing, and outlives this.
  Taps(int rank, TapPlan plan, RankProgress& progress) : rank_(rank), plan_(std::move(plan)), progress_(progress) {}

  /// Every model that the rank makes, before it runs. The taps outlive it.
  void attach(Model& model);
  /// Before a step. `batch` is the whole one where the plan has cuts.
  void begin_step(int64_t step, Model& model, const Loss& loss, const DeviceBatch& batch);
  /// After the last step.
  void write(const std::filesystem::path& to) const;

  void before_weight_gradient(uint64_t first_position, int64_t row_count) override;
  void after_weight_gradient() override { weight_rows_ = {}; }
  void after_sum(const NamedTensors& trained, detail::Update& update) override;
  void after_update(const NamedTensors& trained, detail::Update& update) override;
  void after_share(const NamedTensors& trained, const NamedTensors& buffers) override;

 private:
  struct Rows {
    int64_t first = 0, count = 0;
  };
  /// What one model is at.
  struct Attached {
    std::map<std::string, size_t> blocks = {};                    // of parameters and buffers
    std::set<std::string> hooked = {};                            // parameters
    std::map<size_t, int64_t> started = {};                       // by block: the last step that was seen
    std::set<std::pair<size_t, int64_t>> forwards, outputs = {};  // of this step: block and first row
    Rows rows = {};                                               // of the output gradient that came last
  };

  torch::Tensor run(const std::shared_ptr<Attached>& attached, Model& model, size_t block,
                    const Model::BlockForward& forward, const torch::Tensor& x);
  void start_block(const std::shared_ptr<Attached>& attached, Model& model, size_t block);
  void see_output(const std::shared_ptr<Attached>& attached, const Model& model, size_t block, const torch::Tensor& y);
  void add_cut(Model& model, const Loss& loss, const DeviceBatch& batch, const TapCut& cut);
  void add(TapPoint point, size_t block, const std::string& name, Rows rows, const torch::Tensor& value);
  void add_whole(TapPoint point, const NamedTensors& tensors);
  void begin(const std::string& operation, const std::string& tensor = "");

  int rank_;
  TapPlan plan_;
  RankProgress& progress_;
  int64_t step_ = 0;
  bool records_ = false;
  Rows weight_rows_ = {};  // of the weight gradient that runs; none: those of Attached
  std::vector<std::shared_ptr<Attached>> attached_;
  mutable Mutex mutex_;
  TapRecords all_ PENSTOCK_GUARDED_BY(mutex_);
};

/// What the taps of all ranks have written beside `to`.
TapRecords read_taps(const std::filesystem::path& to, int ranks);

}  // namespace penstock
