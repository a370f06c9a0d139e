// Matrix: every mode over every number of ranks that it takes.
#include "train/verify/matrix.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "train/models/layers.h"
#include "train/models/model.h"
#include "train/strategies/strategy.h"

namespace penstock {
namespace {

constexpr double kFp64Bound = 1e-12, kOneStepBound = 1e-6;

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
        entry_(StrategyRegistry::entry(parse_spec("mode", mode).name())),
        spec_(parse_spec("mode", mode).with_keys(entry_.keys)),
        matrix_(matrix) {}

  /// Those of the numbers of ranks that the mode takes.
  std::vector<Mesh> meshes() {
    std::vector<Mesh> meshes;
    std::vector<std::pair<int, std::string>> refused;  // ranks and reason
    const auto try_one = [&](int ranks) {
      try {
        meshes.push_back(
            entry_.traits.mesh(spec_, {.ranks = ranks, .batch_size = options_.batch_size, .gpus = gpu_count()}));
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

  void add(const Mesh& mesh, const std::string& arch, const Model& model) {
    try {
      if (entry_.traits.check_model) entry_.traits.check_model(spec_, model, mesh);
    } catch (const Error& error) {
      return leave_out(arch, mesh.size(), error.what());
    }
    const Promise promise = promise_of(spec_, mesh);
    add_exact(mesh, arch);
    if (has_batch_norm(model) && !promise.sees_whole_batches)
      return leave_out(
          arch, mesh.size(),
          concat("--mode ", spec_.name(), ": BatchNorm sees the rows of one rank, replica or micro-batch; ",
                 "expected a model without it, or sync-bn=true"));
    if (promise.compression_error > 0)
      return add_hosted(mesh, arch, Equivalence::kCompressed, promise.compression_error);
    // The backward of BatchNorm in float32 rounds the gradient by 1e-5: that of `single` itself is not known better.
    if (!has_batch_norm(model)) add_hosted(mesh, arch, Equivalence::kOneStep, kOneStepBound);
    add_hosted(mesh, arch, Equivalence::kFp64, kFp64Bound);
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

  void add_exact(const Mesh& mesh, const std::string& arch) {
    if (entry_.traits.exact == StrategyKind::Exact::kNever) return;
    if (options_.batch_size % kVerifiedShards != 0)
      return leave_out(
          arch, mesh.size(),
          concat("--batch-size is ", options_.batch_size, "; expected a number that ", kVerifiedShards, " divides"),
          name_of(Equivalence::kBitwise));
    try {
      entry_.traits.mesh(
          spec_,
          {.ranks = mesh.size(), .batch_size = options_.batch_size, .shards = kVerifiedShards, .gpus = gpu_count()});
    } catch (const Error& error) {
      return leave_out(arch, mesh.size(), error.what(), name_of(Equivalence::kBitwise));
    }
    add_hosted(mesh, arch, Equivalence::kBitwise, 0);
  }

  void add_hosted(const Mesh& mesh, const std::string& arch, Equivalence equivalence, double bound) {
    const int ranks = mesh.size();
    for (const Hosting hosting : options_.hostings) {
      if (hosting == Hosting::kProcesses && ranks > options_.most_processes && options_.hostings.size() > 1) continue;
      matrix_.pairs.push_back({mode_, arch, ranks, hosting, equivalence, bound});
      if (ranks == 1) return;  // there is nothing to host
    }
  }

  /// One entry for all numbers of ranks that are left out in the same place; it has the reason of the first one.
  void leave_out(const std::string& arch, int ranks, const std::string& reason, const std::string& equivalence = "") {
    const auto found = std::find_if(matrix_.left_out.begin(), matrix_.left_out.end(), [&](const LeftOut& one) {
      return one.mode == mode_ && one.arch == arch && one.equivalence == equivalence;
    });
    if (found == matrix_.left_out.end())
      matrix_.left_out.push_back({mode_, arch, {ranks}, equivalence, reason});
    else
      found->ranks.push_back(ranks);
  }

  const VerifyOptions& options_;
  const std::string& mode_;
  const StrategyRegistry::Entry& entry_;
  Spec spec_;
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
  Matrix matrix;
  std::vector<std::unique_ptr<Model>> models;
  for (const auto& arch : options.archs) models.push_back(make_model_of(arch, ModelShape{}));
  const auto modes = options.modes.empty() ? all_modes() : options.modes;
  for (const auto& mode : modes) {
    ModeRows rows(options, mode, matrix);
    for (const auto& mesh : rows.meshes())
      for (size_t i = 0; i < models.size(); ++i) rows.add(mesh, options.archs[i], *models[i]);
    const bool runs = !matrix.pairs.empty() && matrix.pairs.back().mode == mode;
    if (!runs && !options.modes.empty()) throw config_error(matrix.left_out.back().reason);
  }
  return matrix;
}

}  // namespace penstock
