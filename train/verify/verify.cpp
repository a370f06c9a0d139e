// Verification: two launches per pair, and what they are held against.
#include "train/verify/verify.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/scratch_folder.h"
#include "core/text.h"
#include "train/nn/module_names.h"
#include "train/tensor/tensor_file.h"
#include "train/verify/difference.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

// Rows beyond whole batches: the last batch of an epoch is not full, and some ranks have fewer rows or none.
constexpr int64_t kWholeBatches = 3, kRestRows = 3;  // over four ranks one has none of the rest

// With a learning rate of 0.05 the training is chaotic: orders of the same sums are 1e-9 to 1e-6 apart after 200 steps.
// With 0.01 they stay at 1e-14.
const OptimizerOptions kSgd{.learning_rate = 0.01, .momentum = 0.9, .weight_decay = 1e-3};
// After one step the momentum is the gradient.
const OptimizerOptions kPlainSgd{.learning_rate = 1, .momentum = 0.9, .weight_decay = 0};

// Bounds of a model that rounds more than LeNet, as multiples of what rounding does to `single` alone. Many steps: of
// what moves once there is more in every step.
constexpr double kRoundings = 8, kDrifts = 100;
// Larger ones would let mistakes through: of those in tests/train/mutants the smallest is 8e-3.
constexpr double kMostRounding = 1e-3, kMostDrift = 1e-5;

class Verifier {
 public:
  explicit Verifier(const VerifyOptions& options)
      : options_(options), samples_(digit_samples(kWholeBatches * options.batch_size + kRestRows)) {}

  Verdict judge(const Comparison& pair) {
    Verdict verdict{.pair = pair, .difference = std::numeric_limits<double>::infinity(), .tensor = {}, .failure = {}};
    const StateDict& expected = reference(reference_launch(pair));
    const int64_t start_ns = now_ns();
    verdict.failure = train(launch_of(pair), stop_of(pair));
    if (verdict.failure.empty()) compare(expected, state_of_result(), verdict);
    if (verdict.failure.empty() && !verdict.holds()) follow_model(verdict);
    verdict.seconds = ms_since(start_ns) * 1e-3;
    return verdict;
  }

  Localised localise(const Verdict& verdict) {
    const auto& pair = verdict.pair;
    Localised found{pair, {}, verdict.failure};
    if (!found.failure.empty()) return found;
    auto mode = launch_of(pair), single = reference_launch(pair);
    const int64_t step = first_step_that_differs(pair);
    mode.taps = {std::max<int64_t>(step - 1, 0), step + 2};
    mode.end_step = single.end_step = step + 2;
    TapRecords seen, expected, rounded;
    found.failure = train(mode, stop_of(pair), &seen);
    if (!found.failure.empty()) return found;
    single.taps = mode.taps;
    if (single.shards == 0 && !has_batch_norm(*make_model_of(pair.arch, ModelShape{})))
      for (const auto& one : seen)
        if (one.point == TapPoint::kContribution) single.taps->cuts.insert({one.step, one.first, one.count});
    found.failure = train(single, kNeverStops, &expected);
    if (!found.failure.empty()) return found;
    auto other = single;
    other.is_nudged = pair.equivalence == Equivalence::kFp64;
    if (pair.equivalence == Equivalence::kOneStep) other.dtype = torch::kFloat64;
    if (pair.equivalence != Equivalence::kBitwise) found.failure = train(other, kNeverStops, &rounded);
    found.place = first_place({seen, expected, rounded, pair.bound, other.is_nudged ? kDrifts : kRoundings});
    if (!found.place && found.failure.empty()) found.place = place_without_taps(pair, step);
    if (!found.place && found.failure.empty())
      found.failure = concat("no tensor of the steps ", mode.taps->first_step, " to ", step + 1,
                             " differs while taps look: weight gradients of several micro-batches are not joined then");
    return found;
  }

 private:
  static constexpr int64_t kNeverStops = 0;

  /// The step in which a pair's ranks end, and others go on.
  int64_t stop_of(const Comparison& pair) const {
    return compares_states(pair) ? (launch_of(pair).end_step + 1) / 2 : kNeverStops;
  }

  /// Without what ranks keep for themselves alone.
  StateDict state_of_result() const {
    auto state = read_tensors(result_).tensors;
    std::erase_if(state, [](const auto& entry) { return entry.first.starts_with("strategy."); });
    return state;
  }

  /// Doubles the number of steps until the states differ, and halves what is between.
  int64_t first_step_that_differs(const Comparison& pair) {
    if (!compares_states(pair)) return 0;
    const int64_t all = launch_of(pair).end_step;
    const auto differ_after = [&](int64_t count) {
      auto launch = launch_of(pair), single = reference_launch(pair);
      launch.end_step = single.end_step = count;
      if (!train(launch, stop_of(pair)).empty()) return true;
      const StateDict state = state_of_result();
      const double difference = largest_difference(reference(single), state).relative;
      return difference > 0 && difference >= pair.bound;
    };
    int64_t good = 0, bad = 1;
    while (bad < all && !differ_after(bad)) good = std::exchange(bad, std::min(2 * bad, all));
    while (bad - good > 1) {
      const int64_t middle = (good + bad) / 2;
      (differ_after(middle) ? bad : good) = middle;
    }
    return bad - 1;
  }

  /// What differs after this step while nobody looks: with taps no gradients of several micro-batches are made at once.
  /// The joined gradients do not depend on each other, so the tensor that is furthest off is one that was made wrongly.
  std::optional<Place> place_without_taps(const Comparison& pair, int64_t step) {
    if (!compares_states(pair)) return std::nullopt;
    auto launch = launch_of(pair), single = reference_launch(pair);
    launch.end_step = single.end_step = step + 1;
    if (!train(launch, stop_of(pair)).empty()) return std::nullopt;
    const std::string prefix = "model.";
    const auto model_of = [&](StateDict state) {
      std::erase_if(state, [&](const auto& entry) { return !entry.first.starts_with(prefix); });
      return state;
    };
    const StateDict state = model_of(state_of_result());
    const auto largest = largest_difference(model_of(reference(single)), state);
    if (largest.tensor.empty() || largest.relative < pair.bound) return std::nullopt;
    return Place{.step = step,
                 .operation = "backward over several micro-batches",
                 .tensor = largest.tensor.substr(prefix.size()),
                 .difference = largest.relative,
                 .bound = pair.bound};
  }

  static void compare(const StateDict& expected, const StateDict& state, Verdict& verdict) {
    if (compares_states(verdict.pair)) {
      auto largest = largest_difference(expected, state);
      verdict.difference = largest.relative;
      verdict.tensor = std::move(largest.tensor);
    } else {
      verdict.difference = gradient_difference(expected, state);
    }
  }

  /// Whether it is many steps, and not one gradient.
  static bool compares_states(const Comparison& pair) {
    return pair.equivalence == Equivalence::kFp64 || pair.equivalence == Equivalence::kBitwise;
  }

  Launch launch_of(const Comparison& pair) const {
    Launch launch{.mode = pair.mode,
                  .arch = pair.arch,
                  .ranks = pair.ranks,
                  .hosting = pair.hosting,
                  .dtype = pair.equivalence == Equivalence::kFp64 ? torch::kFloat64 : torch::kFloat32,
                  .optimizer = compares_states(pair) ? kSgd : kPlainSgd,
                  .loss = options_.loss,
                  .clip = options_.clip,
                  .batch_size = options_.batch_size,
                  .is_on_gpu = options_.is_on_gpu,
                  .end_step = pair.equivalence == Equivalence::kFp64 ? options_.step_count : 1};
    if (pair.equivalence == Equivalence::kBitwise) {
      launch.shards = kVerifiedShards;
      launch.end_step = std::max<int64_t>(options_.step_count / 10, 2);  // eight times the operations per step
    }
    return launch;
  }

  /// If it stops before its end, in two launches, the second of which goes on where the first one ended. With `taps`
  /// these get what the launch's taps have seen.
  std::string train(Launch launch, int64_t stop, TapRecords* taps = nullptr) {
    const auto run = [&](const fs::path& to) {
      auto failure = run_launch(launch, samples_, to);
      if (failure.empty() && taps)
        for (auto& record : read_taps(to, launch.ranks)) taps->push_back(std::move(record));
      return failure;
    };
    if (stop <= launch.first_step || stop >= launch.end_step) return run(result_);
    const int64_t end_step = std::exchange(launch.end_step, stop);
    if (auto failure = run(middle_); !failure.empty()) return failure;
    launch.first_step = std::exchange(launch.end_step, end_step);
    launch.from = middle_;
    auto failure = run(result_);
    return failure.empty() ? failure : concat("going on from step ", launch.first_step, ": ", failure);
  }

  Launch reference_launch(const Comparison& pair) const {
    auto launch = launch_of(pair);
    launch.mode = "single";
    launch.ranks = 1;
    return launch;
  }

  const StateDict& reference(const Launch& launch) {
    const auto [found, is_new] =
        references_.try_emplace({launch.arch, launch.dtype, launch.shards, launch.end_step, launch.is_nudged});
    if (is_new) {
      if (const auto failure = train(launch, kNeverStops); !failure.empty())
        throw device_error(concat("verify: single, arch ", launch.arch, ": ", failure));
      found->second = read_tensors(result_).tensors;
    }
    return found->second;
  }

  /// What rounding alone does to this model. One step: how far the gradient of `single` in float32 is from its own in
  /// float64. Many steps in float64: how far `single` ends from itself if it starts one unit in the last place beside.
  double rounding_of(const Comparison& pair) {
    auto launch = reference_launch(pair), other = launch;
    if (pair.equivalence == Equivalence::kOneStep) {
      other.dtype = torch::kFloat64;
      return gradient_difference(reference(other), reference(launch));
    }
    other.is_nudged = true;
    return largest_difference(reference(launch), reference(other)).relative;
  }

  /// Raises the bound where the model rounds more than those for which it was made.
  void follow_model(Verdict& verdict) {
    const auto equivalence = verdict.pair.equivalence;
    if (equivalence != Equivalence::kOneStep && equivalence != Equivalence::kFp64) return;
    const bool is_step = equivalence == Equivalence::kOneStep;
    const double own = rounding_of(verdict.pair), bound = own * (is_step ? kRoundings : kDrifts);
    if (bound <= (is_step ? kMostRounding : kMostDrift)) {
      verdict.pair.bound = std::max(verdict.pair.bound, bound);
    } else {
      char text[32];
      std::snprintf(text, sizeof text, "%.1e", own);
      verdict.failure = concat("rounding alone moves single by ", text, ", which hides mistakes; expected ",
                               is_step ? "a model that rounds less" : "fewer --steps");
    }
  }

  VerifyOptions options_;
  Samples samples_;
  ScratchFolder folder_{"penstock-verify"};
  fs::path middle_ = folder_.path() / "middle.safetensors", result_ = folder_.path() / "result.safetensors";
  /// By arch, dtype, shards, steps, and whether the weights were nudged.
  std::map<std::tuple<std::string, torch::ScalarType, int, int64_t, bool>, StateDict> references_;
};

}  // namespace

void verify(const std::vector<Comparison>& pairs, const VerifyOptions& options,
            const std::function<void(const Verdict&)>& use) {
  at::set_num_threads(1);  // no other thread may be there when a launch forks
  Verifier verifier(options);
  for (const auto& pair : pairs) use(verifier.judge(pair));
}

void localise(const std::vector<Verdict>& verdicts, const VerifyOptions& options,
              const std::function<void(const Localised&)>& use) {
  at::set_num_threads(1);              // as in verify()
  std::vector<const Verdict*> chosen;  // one entry per mode
  for (const auto& verdict : verdicts) {
    if (verdict.holds()) continue;
    const auto found = std::find_if(chosen.begin(), chosen.end(),
                                    [&](const Verdict* one) { return one->pair.mode == verdict.pair.mode; });
    if (found == chosen.end())
      chosen.push_back(&verdict);
    else if (verdict.pair.equivalence == Equivalence::kFp64 && (*found)->pair.equivalence != Equivalence::kFp64)
      *found = &verdict;
  }
  Verifier verifier(options);
  for (const auto* verdict : chosen) use(verifier.localise(*verdict));
}

}  // namespace penstock
