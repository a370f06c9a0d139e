// Matrix: every mode over every number of ranks that it takes.
#include "train/verify/matrix.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "train/nn/model.h"
#include "train/nn/module_names.h"
#include "train/parallel/strategy/old_keys.h"
#include "train/parallel/strategy/stage_cuts.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock {
namespace {

constexpr double kFp64Bound = 1e-12, kOneStepBound = 1e-6;

/// What is trained, and in what classes.
struct Kind {
  Subject subject;
  std::vector<Equivalence> classes = {};  // empty: all that the mode keeps
  int most_ranks = std::numeric_limits<int>::max();
};

struct Candidate {
  Kind kind;
  std::unique_ptr<Model> model;
  Randomness randomness;

  bool is_for(Equivalence equivalence) const {
    return kind.classes.empty() ||
           std::find(kind.classes.begin(), kind.classes.end(), equivalence) != kind.classes.end();
  }
};

/// Few pairs of each kind, so that all kinds take no longer than one alone over all ranks and hostings. LeNet is one
/// bucket and one unit; the perceptron is two of each, also in float32.
std::vector<Kind> default_kinds() {
  using enum Equivalence;
  std::vector<Kind> kinds{
      {.subject = {.arch = "lenet"}},
      // An average makes ranks agree on their buffers: an evaluation must also come after a step without one.
      {.subject = {.arch = "lenet(batch-norm=true)",
                   .optimizer = "sgd(nesterov=true)",
                   .average = "ema(decay=0.9,every=3)"},
       .classes = {kBitwise, kFp64, kEvaluation}},
      {.subject = {.arch = "mlp(hidden=600:600)",
                   .optimizer = "adamw",
                   .average = "lookahead(decay=0.8,every=3)",
                   .layer_lr = "fc1=0.5",
                   .bias_decay = 0},
       .classes = {kFp64},
       .most_ranks = 2},
      // Not adam, which makes steps of the rounding of gradients that are 0, as that of a bias of keys is.
      {.subject = {.arch = "vit(patch=14,width=32,depth=2,heads=2,mlp=64,dropout=0.1,drop-path=0.1)",
                   .clip = "norm=0.5"},
       .classes = {kBitwise, kFp64},
       .most_ranks = 2}};
  for (const auto& loss : LossRegistry::names())
    if (loss != kDefaultLoss && make_loss(loss)->target().is_class())
      kinds.push_back({.subject = {.loss = loss}, .classes = {kBitwise}, .most_ranks = 2});
  return kinds;
}

std::vector<Kind> kinds_of(const VerifyOptions& options) {
  const Subject flags{.loss = options.loss,
                      .optimizer = options.optimizer,
                      .average = options.average,
                      .layer_lr = options.layer_lr,
                      .clip = options.clip,
                      .bias_decay = options.bias_decay};
  if (options.archs.empty() && flags_of(flags).empty()) return default_kinds();
  std::vector<Kind> kinds;
  for (const auto& arch :
       options.archs.empty() ? std::vector<std::string>{"lenet", "lenet(batch-norm=true)"} : options.archs) {
    kinds.push_back({.subject = flags});
    kinds.back().subject.arch = arch;
  }
  return kinds;
}

std::vector<Candidate> candidates_of(const VerifyOptions& options) {
  std::vector<Candidate> candidates;
  std::map<std::string, Randomness> known;  // by arch
  for (auto& kind : kinds_of(options)) {
    const auto& arch = kind.subject.arch;
    check(kind.subject);
    if (!known.contains(arch))
      known[arch] = randomness_of({.mode = "single",
                                   .subject = kind.subject,
                                   .batch_size = options.batch_size,
                                   .is_on_gpu = options.is_on_gpu});
    auto model = make_model_of(arch, ModelShape{});
    const Randomness randomness = known[arch];
    candidates.push_back({std::move(kind), std::move(model), randomness});
  }
  return candidates;
}

std::vector<std::string> all_modes() {
  std::vector<std::string> modes;
  for (const auto& [name, entry] : StrategyRegistry::entries()) {
    modes.push_back(name);
    modes.insert(modes.end(), entry.traits.examples.begin(), entry.traits.examples.end());
  }
  return modes;
}

/// What is run of one mode.
class ModeRows {
 public:
  ModeRows(const VerifyOptions& options, const std::string& mode, Matrix& matrix)
      : options_(options),
        mode_(mode),
        typed_(parse_spec("mode", mode)),
        entry_(StrategyRegistry::entry(typed_.name())),
        spec_(detail::without_old_keys(typed_).with_keys(entry_.keys)),
        matrix_(matrix) {}

  /// Those of the numbers of ranks that the mode takes.
  std::vector<Mesh> meshes() {
    std::vector<Mesh> meshes;
    std::vector<std::pair<int, std::string>> refused;  // ranks and reason
    const auto try_one = [&](int ranks) {
      try {
        meshes.push_back(plan_of(ranks, Subject()).mesh);
      } catch (const Error& error) {
        refused.emplace_back(ranks, error.what());
      }
    };
    for (const int ranks : options_.ranks) try_one(ranks);
    if (meshes.empty()) try_one(0);
    // What is wrong with the ranks that the mode chooses itself is wrong with any.
    if (meshes.empty()) refused.front().second = refused.back().second;
    for (const auto& [ranks, reason] : refused) leave_out("", ranks, reason);
    std::erase_if(meshes, [&](const Mesh& mesh) { return !has_rows_for(mesh); });
    return meshes;
  }

  /// `is_first`: no number of ranks before this one was run.
  void add(const Mesh& mesh, const Candidate& candidate, bool is_first) {
    const auto& subject = candidate.kind.subject;
    if (mesh.size() > candidate.kind.most_ranks && !is_first) return;
    const auto refuse = [&](const std::string& reason, const std::string& classes = "") {
      leave_out(text_of(subject), mesh.size(), reason, classes);
    };
    StepPlan plan;
    try {
      plan = detail::fitted(plan_of(mesh.size(), subject), detail::facts_of(*candidate.model));
    } catch (const Error& error) {
      return refuse(error.what());
    }
    const EquivalenceGuarantee promise = promise_of(plan);
    if (!subject.average.empty() && (!entry_.traits.keeps_average || promise.averages_parameters))
      return refuse(concat("--mode ", mode_, " keeps no average; expected no --average"));
    if (candidate.randomness == Randomness::kOwn)
      return refuse(
          "the model's forward in training mode gives something else when LibTorch's random numbers are the "
          "same; expected one that draws from LibTorch's generator alone, as dropout does");
    add_exact(mesh, candidate);
    const bool is_compressed = promise.compression_error > 0;
    if (candidate.randomness == Randomness::kGenerator)
      return refuse(
          "the model draws random numbers, as dropout does, which are others in every mode; expected "
          "--exact, which gives all modes the same: class bitwise",
          is_compressed ? name_of(Equivalence::kCompressed)
                        : join({name_of(Equivalence::kOneStep), name_of(Equivalence::kFp64)}));
    if (has_batch_norm(*candidate.model) && !promise.sees_whole_batches) {
      add_hosted(mesh, candidate, Equivalence::kEvaluation, kFp64Bound);
      return refuse(concat("--mode ", spec_.name(), ": BatchNorm sees the rows of one rank, replica or micro-batch; ",
                           "expected a model without it, or sync-bn=true"),
                    is_compressed ? name_of(Equivalence::kCompressed)
                                  : join({name_of(Equivalence::kOneStep), name_of(Equivalence::kFp64)}));
    }
    if (promise.averages_parameters && !subject.clip.empty())
      return refuse(concat("--clip-grad is ", subject.clip, "; expected none, because each rank clips the gradient ",
                           "of its own rows"));
    if (is_compressed) {
      add_hosted(mesh, candidate, Equivalence::kCompressed, promise.compression_error);
      return add_hosted(mesh, candidate, Equivalence::kEvaluation, kFp64Bound);
    }
    add_hosted(mesh, candidate, Equivalence::kOneStep, kOneStepBound);
    const bool is_linear = parse_spec("optimizer", subject.optimizer).name() == "sgd";
    if (promise.holds_for_many_steps && (is_linear || !promise.averages_parameters))
      return add_hosted(mesh, candidate, Equivalence::kFp64, kFp64Bound);
    add_hosted(mesh, candidate, Equivalence::kEvaluation, kFp64Bound);
    refuse("ranks take steps alone; expected local-steps=1 with outer=sgd and outer-rate=1, and --optimizer sgd",
           name_of(Equivalence::kFp64));
  }

 private:
  bool has_rows_for(const Mesh& mesh) {
    const int64_t copies = int64_t{mesh.data} * mesh.replicas;
    if (options_.batch_size < copies)
      leave_out("", mesh.size(),
                concat("--batch-size is ", options_.batch_size, "; expected ", copies,
                       " or more, one sample for each rank or replica"));
    return options_.batch_size >= copies;
  }

  /// Ranks share the GPU. The machine is not asked: this process must not use it (run_launch()).
  int gpu_count() const { return options_.is_on_gpu ? 1 : 0; }

  StepPlan plan_of(int ranks, const Subject& subject, int micro_shards = 0) const {
    return penstock::plan_of(spec_, {.ranks = ranks,
                                     .batch_size = options_.batch_size,
                                     .micro_shards = micro_shards,
                                     .gpus = gpu_count(),
                                     .optimizer = parse_spec("optimizer", subject.optimizer),
                                     .clip = parse_clip(subject.clip)});
  }

  void add_exact(const Mesh& mesh, const Candidate& candidate) {
    const auto exact = entry_.traits.exact;
    if (exact == StrategyKind::Exact::kNever || !candidate.is_for(Equivalence::kBitwise)) return;
    const auto& subject = candidate.kind.subject;
    const auto refuse = [&](const std::string& reason) {
      leave_out(text_of(subject), mesh.size(), reason, name_of(Equivalence::kBitwise));
    };
    if (options_.batch_size % kVerifiedShards != 0)
      return refuse(
          concat("--batch-size is ", options_.batch_size, "; expected a number that ", kVerifiedShards, " divides"));
    const auto& optimizer = OptimizerRegistry::entry(parse_spec("optimizer", subject.optimizer).name());
    if (exact == StrategyKind::Exact::kPieces && !optimizer.traits.takes_pieces)
      return refuse(concat("--optimizer is ", subject.optimizer, "; expected one whose bits do not depend on slices"));
    try {
      plan_of(mesh.size(), subject, kVerifiedShards);
    } catch (const Error& error) {
      return refuse(error.what());
    }
    const bool draws = candidate.randomness == Randomness::kGenerator;
    if (draws && hostings_of_drawing(mesh).empty())
      return refuse(
          "the model draws random numbers, as dropout does, and with --exact no threads may draw from one generator; "
          "expected --hosting processes, and not --mode dp");
    for (const Hosting hosting : draws ? hostings_of_drawing(mesh) : hostings_of(mesh.size(), Equivalence::kBitwise))
      matrix_.pairs.push_back({mode_, subject, mesh.size(), hosting, Equivalence::kBitwise, 0});
  }

  std::vector<Hosting> hostings_of(int ranks, Equivalence equivalence) const {
    if (ranks == 1) return {Hosting::kThreads};  // there is nothing to host
    if (!options_.hostings.empty()) return options_.hostings;
    if (ranks > 2 || equivalence == Equivalence::kBitwise) return {Hosting::kThreads};
    const bool is_state = equivalence == Equivalence::kFp64 || equivalence == Equivalence::kEvaluation;
    return {is_state ? Hosting::kProcesses : Hosting::kSockets};
  }

  /// Those in which nobody else draws from a rank's random numbers. `dp` computes in threads of its own, also where
  /// it has one replica.
  std::vector<Hosting> hostings_of_drawing(const Mesh& mesh) const {
    if (mesh.replicas > 1 || spec_.name() == "dp") return {};
    if (mesh.size() == 1) return {Hosting::kThreads};
    auto hostings = options_.hostings;
    if (hostings.empty()) hostings = {Hosting::kProcesses};
    std::erase(hostings, Hosting::kThreads);
    return hostings;
  }

  void add_hosted(const Mesh& mesh, const Candidate& candidate, Equivalence equivalence, double bound) {
    if (!candidate.is_for(equivalence)) return;
    for (const Hosting hosting : hostings_of(mesh.size(), equivalence))
      matrix_.pairs.push_back({mode_, candidate.kind.subject, mesh.size(), hosting, equivalence, bound});
  }

  /// One entry for all numbers of ranks that are left out in the same place; it has the reason of the first one.
  void leave_out(const std::string& subject, int ranks, const std::string& reason,
                 const std::string& equivalence = "") {
    const auto found = std::find_if(matrix_.left_out.begin(), matrix_.left_out.end(), [&](const Skipped& one) {
      return one.mode == mode_ && one.subject == subject && one.equivalence == equivalence;
    });
    if (found == matrix_.left_out.end())
      matrix_.left_out.push_back({mode_, subject, {ranks}, equivalence, reason});
    else
      found->ranks.push_back(ranks);
  }

  const VerifyOptions& options_;
  const std::string& mode_;
  const Spec typed_;
  const StrategyRegistry::Entry& entry_;
  const Spec spec_;
  Matrix& matrix_;
};

}  // namespace

std::string name_of(Equivalence equivalence) {
  if (equivalence == Equivalence::kFp64) return "fp64";
  if (equivalence == Equivalence::kBitwise) return "bitwise";
  if (equivalence == Equivalence::kEvaluation) return "evaluation";
  return equivalence == Equivalence::kOneStep ? "one-step" : "compressed";
}

std::string name_of(Hosting hosting) {
  if (hosting == Hosting::kSockets) return "sockets";
  return hosting == Hosting::kThreads ? "threads" : "processes";
}

Matrix matrix_of(const VerifyOptions& options) {
  Matrix matrix;
  const auto candidates = candidates_of(options);
  // A mode that cannot fix random numbers is no wrong command.
  const bool has_random = std::any_of(candidates.begin(), candidates.end(), [](const Candidate& candidate) {
    return candidate.randomness != Randomness::kNone;
  });
  const auto modes = options.modes.empty() ? all_modes() : options.modes;
  for (const auto& mode : modes) {
    ModeRows rows(options, mode, matrix);
    const auto meshes = rows.meshes();
    for (size_t i = 0; i < meshes.size(); ++i)
      for (const auto& candidate : candidates) rows.add(meshes[i], candidate, /*is_first=*/i == 0);
    const bool runs = !matrix.pairs.empty() && matrix.pairs.back().mode == mode;
    if (!runs && !options.modes.empty() && !has_random) throw config_error(matrix.left_out.back().reason);
  }
  if (matrix.pairs.empty()) throw config_error(matrix.left_out.back().reason);
  return matrix;
}

}  // namespace penstock
