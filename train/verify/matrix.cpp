// Matrix: every mode over every number of ranks that it takes.
#include "train/verify/matrix.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "train/nn/model.h"
#include "train/nn/module_names.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock {
namespace {

constexpr double kFp64Bound = 1e-12, kOneStepBound = 1e-6;

struct Candidate {
  std::string arch;
  std::unique_ptr<Model> model;
  Randomness randomness;
};

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
        spec_(typed_.with_keys(entry_.keys)),
        matrix_(matrix) {}

  /// Those of the numbers of ranks that the mode takes.
  std::vector<Mesh> meshes() {
    std::vector<Mesh> meshes;
    std::vector<std::pair<int, std::string>> refused;  // ranks and reason
    const auto try_one = [&](int ranks) {
      try {
        meshes.push_back(entry_.traits.mesh(
            spec_, {.ranks = ranks, .batch_size = options_.batch_size, .gpus = gpu_count(), .clip = options_.clip}));
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

  void add(const Mesh& mesh, const Candidate& candidate) {
    const auto& [arch, model, randomness] = candidate;
    try {
      if (entry_.traits.check_model) entry_.traits.check_model(spec_, *model, mesh);
    } catch (const Error& error) {
      return leave_out(arch, mesh.size(), error.what());
    }
    if (randomness == Randomness::kOwn)
      return leave_out(
          arch, mesh.size(),
          "the model's forward in training mode gives something else when LibTorch's random numbers are the "
          "same; expected one that draws from LibTorch's generator alone, as dropout does");
    add_exact(mesh, candidate);
    const EquivalenceGuarantee promise = promise_of(spec_, mesh);
    const bool is_compressed = promise.compression_error > 0;
    if (randomness == Randomness::kGenerator)
      return leave_out(arch, mesh.size(),
                       "the model draws random numbers, as dropout does, which are others in every mode; expected "
                       "--exact, which gives all modes the same: class bitwise",
                       is_compressed ? name_of(Equivalence::kCompressed)
                                     : join({name_of(Equivalence::kOneStep), name_of(Equivalence::kFp64)}));
    if (has_batch_norm(*model) && !promise.sees_whole_batches)
      return leave_out(
          arch, mesh.size(),
          concat("--mode ", spec_.name(), ": BatchNorm sees the rows of one rank, replica or micro-batch; ",
                 "expected a model without it, or sync-bn=true"));
    if (promise.averages_parameters && !options_.clip.empty())
      return leave_out(arch, mesh.size(),
                       concat("--clip-grad is ", options_.clip,
                              "; expected none, because each rank clips the gradient ", "of its own rows"));
    const auto hostings = hostings_of(mesh.size());
    if (is_compressed) return add_hosted(mesh, arch, hostings, Equivalence::kCompressed, promise.compression_error);
    add_hosted(mesh, arch, hostings, Equivalence::kOneStep, kOneStepBound);
    if (promise.holds_for_many_steps) return add_hosted(mesh, arch, hostings, Equivalence::kFp64, kFp64Bound);
    leave_out(arch, mesh.size(), "ranks take steps alone; expected local-steps=1 with outer=sgd and outer-rate=1",
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

  void add_exact(const Mesh& mesh, const Candidate& candidate) {
    if (entry_.traits.exact == StrategyKind::Exact::kNever) return;
    const auto leave_out_bitwise = [&](const std::string& reason) {
      leave_out(candidate.arch, mesh.size(), reason, name_of(Equivalence::kBitwise));
    };
    if (options_.batch_size % kVerifiedShards != 0)
      return leave_out_bitwise(
          concat("--batch-size is ", options_.batch_size, "; expected a number that ", kVerifiedShards, " divides"));
    try {
      entry_.traits.mesh(spec_, {.ranks = mesh.size(),
                                 .batch_size = options_.batch_size,
                                 .shards = kVerifiedShards,
                                 .gpus = gpu_count(),
                                 .clip = options_.clip});
    } catch (const Error& error) {
      return leave_out_bitwise(error.what());
    }
    const bool draws = candidate.randomness == Randomness::kGenerator;
    const auto hostings = draws ? hostings_of_drawing(mesh) : hostings_of(mesh.size());
    if (hostings.empty())
      return leave_out_bitwise(
          "the model draws random numbers, as dropout does, and with --exact no threads may draw from one generator; "
          "expected --hosting processes, and not --mode dp");
    add_hosted(mesh, candidate.arch, hostings, Equivalence::kBitwise, 0);
  }

  std::vector<Hosting> hostings_of(int ranks) const {
    if (ranks == 1) return {options_.hostings.front()};  // there is nothing to host
    auto hostings = options_.hostings;
    if (ranks > options_.most_processes && hostings.size() > 1) std::erase(hostings, Hosting::kProcesses);
    return hostings;
  }

  /// Those in which nobody else draws from a rank's random numbers. `dp` computes in threads of its own, also where it
  /// has one replica.
  std::vector<Hosting> hostings_of_drawing(const Mesh& mesh) const {
    if (mesh.replicas > 1 || spec_.name() == "dp") return {};
    if (mesh.size() == 1) return hostings_of(1);
    const auto& hostings = options_.hostings;
    if (std::find(hostings.begin(), hostings.end(), Hosting::kProcesses) == hostings.end()) return {};
    return {Hosting::kProcesses};
  }

  void add_hosted(const Mesh& mesh, const std::string& arch, const std::vector<Hosting>& hostings,
                  Equivalence equivalence, double bound) {
    for (const Hosting hosting : hostings)
      matrix_.pairs.push_back({mode_, arch, mesh.size(), hosting, equivalence, bound});
  }

  /// One entry for all numbers of ranks that are left out in the same place; it has the reason of the first one.
  void leave_out(const std::string& arch, int ranks, const std::string& reason, const std::string& equivalence = "") {
    const auto found = std::find_if(matrix_.left_out.begin(), matrix_.left_out.end(), [&](const Skipped& one) {
      return one.mode == mode_ && one.arch == arch && one.equivalence == equivalence;
    });
    if (found == matrix_.left_out.end())
      matrix_.left_out.push_back({mode_, arch, {ranks}, equivalence, reason});
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
  return equivalence == Equivalence::kOneStep ? "one-step" : "compressed";
}

std::string name_of(Hosting hosting) { return hosting == Hosting::kThreads ? "threads" : "processes"; }

Matrix matrix_of(const VerifyOptions& options) {
  if (!make_loss(options.loss)->target().is_class())
    throw config_error(concat("--loss ", options.loss,
                              ": verify-modes trains on digits, which have no fields; expected a loss without target"));
  parse_clip(options.clip);  // throws
  Matrix matrix;
  std::vector<Candidate> candidates;
  for (const auto& arch : options.archs) {
    auto model = make_model_of(arch, ModelShape{});
    Launch launch;
    launch.mode = "single";
    launch.arch = arch;
    launch.batch_size = options.batch_size;
    launch.is_on_gpu = options.is_on_gpu;
    candidates.push_back({arch, std::move(model), randomness_of(launch)});
  }
  // A mode that cannot fix random numbers is no wrong command.
  const bool has_random = std::any_of(candidates.begin(), candidates.end(), [](const Candidate& candidate) {
    return candidate.randomness != Randomness::kNone;
  });
  const auto modes = options.modes.empty() ? all_modes() : options.modes;
  for (const auto& mode : modes) {
    ModeRows rows(options, mode, matrix);
    for (const auto& mesh : rows.meshes())
      for (const auto& candidate : candidates) rows.add(mesh, candidate);
    const bool runs = !matrix.pairs.empty() && matrix.pairs.back().mode == mode;
    if (!runs && !options.modes.empty() && !has_random) throw config_error(matrix.left_out.back().reason);
  }
  if (matrix.pairs.empty()) throw config_error(matrix.left_out.back().reason);
  return matrix;
}

}  // namespace penstock
