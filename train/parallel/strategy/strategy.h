// Strategy: the plug-in that decides how one optimisation step is spread over ranks.
//
// Lives here: the words of a step, which all of train/parallel shares: Strategy, StepPlan, ModelPart, Schedule,
// GradientSync, Update, ParameterStore, buckets.
// Not here: any way of spreading a step over ranks. It is the one folder of train/parallel that others include.
#pragma once

#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/registry.h"
#include "train/comm/comm.h"
#include "train/comm/emulation.h"
#include "train/losses/loss.h"
#include "train/measure/recorder.h"
#include "train/optimizers/optimizer.h"
#include "train/parallel/strategy/mesh.h"
#include "train/parallel/strategy/step_plan.h"
#include "train/tensor/device_batch.h"
#include "train/tensor/named_tensors.h"

namespace penstock {

class Model;
struct Precision;
namespace detail {
class StepTaps;
}

/// Named, unsharded tensors on the CPU: `model.<parameter>`, `model.<buffer>`, `optimizer.<slot>.<parameter>`, for
/// optimisers that need it the scalar `optimizer.steps`, and where an average is kept `average.<parameter>` and
/// `average.<buffer>`; and what a rank of a mode keeps for itself,
/// `strategy.<owner>.<rank>.<entry>`, which other modes and world sizes leave out.
using StateDict = std::map<std::string, torch::Tensor>;
using UseTensor = std::function<void(const std::string& name, const torch::Tensor& tensor)>;

/// What --bias-decay, --no-decay, --loss, --label-smoothing, --average and --clip-grad change in a step.
struct StepOptions {
  std::map<std::string, double> weight_decays = {};  // by parameter; that of the optimiser's options for the others
  std::shared_ptr<const Loss> loss = {};             // null: cross entropy; ranks that are threads share it
  bool keeps_average = false;                        // average_weights() will be called
  ClipOptions clip = {};                             // of the gradients, before the update
  /// A step in which some gradient is not finite changes no weight and no state of the optimiser; BatchNorm's running
  /// statistics are those of its forward. Costs the host a wait for the device in each step.
  bool skips_overflows = false;
  /// A row that would go through the model alone is left out, and counts as a masked one does. Where that is so of
  /// every row of a batch, the step changes nothing. For models in which such a row gives a BatchNorm one value per
  /// channel.
  bool leaves_out_single_rows = false;
  std::set<std::string> no_matrices = {};  // parameters that muon changes as vectors, whatever their dimensions
};

inline std::shared_ptr<const Loss> loss_of(const StepOptions& step) { return step.loss ? step.loss : make_loss(); }

/// What a strategy works on. All outlive it.
struct StrategyContext {
  Model& model;  // on the CPU, or whole on `device`; the strategy moves what it holds; see also `weights`
  Comm& comm;
  torch::Device device;  // of this rank
  OptimizerOptions optimizer;
  Recorder& recorder;
  Emulation emulation = {};
  std::map<std::string, double> rate_factors = {};  // of the learning rate, by parameter; 1 for the others
  std::vector<int64_t> input_sizes = {};            // of a full batch, over all ranks: N x C x H x W; empty: not known
  std::function<std::unique_ptr<Model>()> make_model = {};  // another one like `model`, on the CPU
  std::function<void(const std::string&)> log = {};         // hears lines for people; null: nobody reads them
  int micro_shards = 0;                                     // as MeshRequest::micro_shards
  uint64_t seed = 0;                                        // of what layers drop, and of the random numbers of shards
  /// Null: the model has its initial weights. Otherwise its tensors have no memory, and this gives the weights one by
  /// one, each valid as long as `use` runs, some of them twice; what comes last counts. Only with
  /// StepPlan::holds_part().
  std::function<void(const UseTensor& use)> weights = {};
  StepOptions step = {};
  detail::StepTaps* taps = nullptr;  // null: nobody looks into a step
};

/// Sums over the samples of this rank's rows, on its device, not synchronised.
struct StepSums {
  torch::Tensor loss;       // f64 or f32 scalar: sum of weight * loss; with --exact f64, in the order of the tree
  torch::Tensor correct;    // i64 scalar: rows of weight 1 whose largest logit is the label, of a mixed row that of the
                            // greater share
  int64_t count = 0;        // rows that the sums are of; 0 at a rank that holds no last stage
  bool is_skipped = false;  // with StepOptions::skips_overflows, the same at every rank
  bool has_rows = true;     // false: all rows were left out, and nothing has changed; the same at every rank
  torch::Tensor compression_error = {};  // see measure_next_step(); not of this rank, but of the sum over all
};

/// What one kind of tensors takes at one rank.
struct KindMemory {
  std::string kind;          // parameters, gradients, optimizer
  int64_t bytes = 0;         // measured between two steps
  int64_t peak_bytes = 0;    // the most at any time of a step so far
  double formula_bytes = 0;  // what `bytes` is by the formula of the mode
  std::string formula = {};  // "phi / 2", where phi is the bytes of the parameters
};

/// What one replica of the model has done, in a mode that has several on one rank.
struct ReplicaUse {
  std::string device;             // cpu, cuda:1
  double busy_ms = 0;             // in training: forward, backward and sums of gradients, of all steps
  int64_t peak_memory_bytes = 0;  // the most that LibTorch has allocated on this device; 0 on the CPU: not counted
};

/// Equivalence: fed the same global batches, every strategy at every world size that it accepts reaches the parameters
/// of `single`, unless its EquivalenceGuarantee says less: gradients are summed over all rows of all ranks and divided
/// once by the global true sample count.
///
/// Frozen parameters (Model::freeze()) require no gradient: they get no update, and stand in state() all the same, with
/// zeros in the optimiser's slots, so that a checkpoint does not know what was frozen.
///
/// Errors: the constructor throws config_error for a world size that it does not accept, as `mesh` does.
/// Thread-safety: the training thread's alone.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Which part of a global batch this rank works on: rank and world size for the loader.
  virtual int data_rank() const = 0;
  virtual int data_world_size() const = 0;
  /// How the ranks and the model were divided, for people, to follow "mode NAME, 4 ranks "; "" if every rank holds the
  /// whole model.
  virtual std::string text() const { return ""; }
  /// The share of a step, 0..1, in which each rank would wait for its neighbours in a pipeline if all parts took
  /// equally long and messages took no time; 0 if there is no pipeline.
  virtual double predicted_bubble() const { return 0; }
  /// Pieces in which the rows of this rank's batch go through the model, one after the other.
  virtual int micro_batches() const { return 1; }
  /// The number of these pieces must be a multiple of this; 0: it cannot be another.
  virtual int micro_batch_step() const { return 1; }
  /// Whether this rank needs images. Where it does not, its batches are counts without tensors.
  virtual bool is_fed() const { return true; }
  /// The most micro-batches whose intermediate activations this rank has kept at once; 1 where a batch runs whole.
  virtual int most_alive() const { return 1; }
  /// Bytes of the activation of one micro-batch that this rank sends to the next one; 0 where it sends none, and before
  /// the first step.
  virtual int64_t activation_bytes() const { return 0; }
  /// Forward, backward, communication and update. Marks the recorder's phases.
  virtual StepSums step(const DeviceBatch& batch) = 0;
  /// Collective. At a rank that holds the last stage: logits of the batch in evaluation mode, rows x classes, no
  /// gradient; and `batch` has its labels and weights. Elsewhere an undefined tensor.
  virtual torch::Tensor evaluate(DeviceBatch& batch) = 0;
  virtual void set_learning_rate(double learning_rate) = 0;
  /// Steps that each rank takes alone before ranks come to the same parameters again; 1: they have the same after every
  /// step, or hold parts of them.
  virtual int local_steps() const { return 1; }
  /// Collective, between two steps, as evaluate() and the end of an epoch need it: all ranks have the same parameters
  /// afterwards. Does nothing where they have.
  virtual void meet() {}
  /// Collective, between two steps: the average becomes decay * average + (1 - decay) * weights, with BatchNorm's
  /// running statistics among the weights; with `restarts` the weights then become the average. It starts as the
  /// weights of the first step. Requires StepOptions::keeps_average and Traits::keeps_average; without the latter it
  /// throws bug_error.
  virtual void average_weights(double decay, bool restarts);
  /// At every rank, between two steps: all layers compute in this, as penstock::compute_in() has it. Throws
  /// config_error in a mode that cannot.
  virtual void compute_in(const Precision& precision);
  /// Whether evaluate() uses the average, as it does at first where one is kept, or the weights.
  virtual void evaluate_average(bool on) { static_cast<void>(on); }
  /// The norm of the gradients of the last step over the whole model, before they were clipped: f64 scalar, the same at
  /// every rank unless each takes steps alone. Undefined where nothing is clipped.
  virtual torch::Tensor gradient_norm() { return {}; }
  /// One entry per replica; empty in a mode that has none.
  virtual std::vector<ReplicaUse> replica_use() { return {}; }
  /// Called at every rank or at none. If gradients are sent compressed, the next step also finds out what that costs:
  /// |gradient as it was sent - true gradient| / |true gradient|, in StepSums::compression_error.
  virtual void measure_next_step() {}

  /// What this rank's tensors take now; the kinds are the same at every rank. Empty if it is not known.
  virtual std::vector<KindMemory> memory() const { return {}; }

  /// The tensors of a checkpoint, in the order of the model; the same at every rank. They need no memory.
  virtual NamedTensors state_sizes() = 0;
  /// Collective. Rank 0's `use` gets each of them once, whole, in that order and the same at any world size; that of
  /// other ranks is not called. A tensor is on any device and valid as long as `use` runs: no rank collects those that
  /// it does not hold.
  virtual void for_each_state(const UseTensor& use) = 0;
  /// Collective: at rank 0 copies of all of them on the CPU, elsewhere nothing. For small models.
  StateDict state();
  /// The inverse, with the whole state at every rank, of which it reads what it holds. Throws corrupt_error naming a
  /// tensor that is missing, too many or of another shape.
  virtual void load_state(const StateDict& state) = 0;
  /// What the last load_state() left out because it is for another mode or world size, in one line; "" for nothing.
  virtual std::string left_out() const { return ""; }
};

struct StrategyKind {
  using Interface = Strategy;
  static constexpr const char* kName = "mode";
  using Factory = std::function<std::unique_ptr<Strategy>(const Spec&, const StrategyContext&)>;
  /// Which runs with --exact a mode takes. kPieces: only optimisers with Traits::takes_pieces, because a rank has
  /// pieces of parameters.
  enum class Exact { kNever, kPieces, kAlways };
  struct Traits {
    /// The step of the mode over these ranks, before data are opened. Its mesh has `request.ranks` ranks, unless that
    /// is 0. Throws config_error for keys that contradict each other, and for a number of ranks that it does not take.
    std::function<StepPlan(const Spec&, const MeshRequest& request)> plan;
    /// What all ranks must have equal where keys of the mode name files: what the files hold in place of their names.
    /// "": they name none. Null: they never do.
    std::function<std::string(const Spec&)> identity = {};
    /// What `train verify-modes` runs beside the mode without keys: "ddp(accumulate=2)".
    std::vector<std::string> examples = {};
    /// A mode that takes shards computes them one by one, and reaches the bits of every other one that does.
    Exact exact = Exact::kNever;
    /// Whether it has average_weights().
    bool keeps_average = false;
  };
};
using StrategyRegistry = Registry<StrategyKind>;

/// The plan of the mode `spec`, with its name. Throws config_error, also for a key that the mode does not have.
StepPlan plan_of(const Spec& spec, const MeshRequest& request);

}  // namespace penstock
