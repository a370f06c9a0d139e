// Matrix: which modes are held against `single`, over which ranks and models, and by what.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/verify/launch.h"

namespace penstock {

/// In what sense two trainings are the same.
enum class Equivalence {
  kFp64,        // all of the state after many steps in float64, with a stop in the middle from which the run goes on
  kOneStep,     // the gradient of one step in float32, from equal weights
  kCompressed,  // the same, by the bound that the mode states for its compression
  kBitwise,     // all of the state in float32 with --exact, after a fifth of the steps of kFp64 and with such a stop
  /// After as many steps in float64: what the ranks' evaluation gives, and what `single`'s gives from their checkpoint.
  kEvaluation,
};
std::string name_of(Equivalence equivalence);  ///< fp64, one-step, compressed, bitwise, evaluation
constexpr int kVerifiedShards = 8;             ///< The number of --exact.
std::string name_of(Hosting hosting);          ///< threads, processes, sockets

/// One line of the table: a mode against `single`, which one rank trains.
struct Comparison {
  std::string mode;
  Subject subject = {};
  int ranks = 1;
  Hosting hosting = Hosting::kThreads;
  Equivalence equivalence = Equivalence::kFp64;
  double bound = 0;  // the difference must be below, or 0; verify() raises it to what the model itself rounds
};

/// What is not run, and why.
struct Skipped {
  std::string mode;
  std::string subject;  // as text_of(); empty: whatever is trained
  std::vector<int> ranks;
  std::string equivalence;  // one, or several separated by commas; empty: all
  std::string reason;
};

struct VerifyOptions {
  std::vector<std::string> modes = {};  // empty: every registered mode without keys, and its examples
  /// Empty, and no flag below: what default_kinds() says. Empty with flags: LeNet without and with BatchNorm.
  std::vector<std::string> archs = {};
  std::vector<int> ranks = {2, 4};
  /// Empty: with more than two ranks threads, and with two what the class is about: threads for bitwise, processes
  /// for fp64 and evaluation, sockets for the others.
  std::vector<Hosting> hostings = {};
  bool is_on_gpu = false;   // all ranks on GPU 0; otherwise on the CPU
  int64_t batch_size = 24;  // 2, 3, 4, 6 and 8 divide it
  int64_t step_count = 40;  // of the class fp64
  // As the flags of these names.
  std::string loss = Subject().loss, optimizer = Subject().optimizer;
  std::string average = {}, layer_lr = {}, clip = {};
  double bias_decay = Subject().bias_decay;
};

struct Matrix {
  std::vector<Comparison> pairs;
  std::vector<Skipped> left_out;
};

/// A mode that takes none of the numbers of ranks gets the one that it chooses itself. Models that draw random numbers
/// are compared bit by bit alone (randomness_of()). Throws config_error for unknown modes, models, losses and keys, and
/// for a mode of `modes` that cannot run with any of the numbers of ranks and models. Requires what run_launch()
/// requires.
Matrix matrix_of(const VerifyOptions& options);

}  // namespace penstock
