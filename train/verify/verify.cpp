// Verification: two launches per pair, and what they are held against.
#include "train/verify/verify.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/number_text.h"
#include "core/temporary.h"
#include "core/text.h"
#include "train/nn/module_names.h"
#include "train/tensor/tensor_file.h"
#include "train/verify/difference.h"
#include "train/verify/training.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

// Rows beyond whole batches: the last batch of an epoch is not full, and some ranks have fewer rows or none.
constexpr int64_t kWholeBatches = 3, kRestRows = 3;  // over four ranks one has none of the rest

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
    if (pair.equivalence != Equivalence::kEvaluation) reference(reference_launch(pair));  // outside of its time
    const int64_t start_ns = now_ns();
    const LaunchEnd end = train(launch_of(pair), stop_of(pair));
    verdict.failure = end.failure;
    if (!end.failure.empty() && end.at.operation[0] != 0) verdict.failure = concat(text_of(end.at), ": ", end.failure);
    if (end.failure.empty()) compare(verdict);
    if (verdict.failure.empty() && !verdict.holds()) follow_model(verdict);
    verdict.seconds = ms_since(start_ns) * 1e-3;
    return verdict;
  }

  Localised localise(const Verdict& verdict) {
    const auto& pair = verdict.pair;
    Localised found{pair, {}, verdict.failure};
    auto mode = launch_of(pair), single = reference_launch(pair);
    if (!found.failure.empty()) {
      found.place = place_of_failure(mode, stop_of(pair));
      return found;
    }
    if (pair.equivalence == Equivalence::kEvaluation) {
      found.place = Place{.step = mode.end_step - 1,
                          .operation = "evaluation",
                          .tensor = verdict.tensor,
                          .difference = verdict.difference,
                          .bound = pair.bound};
      return found;
    }
    const int64_t step = first_step_that_differs(pair);
    mode.taps = {std::max<int64_t>(step - 1, 0), step + 2};
    mode.end_step = single.end_step = step + 2;
    TapRecords seen, expected, rounded;
    found.failure = train(mode, stop_of(pair), &seen).failure;
    if (!found.failure.empty()) return found;
    single.taps = mode.taps;
    if (single.micro_shards == 0 && !has_batch_norm(*make_model_of(pair.subject.arch, ModelShape{})))
      for (const auto& one : seen)
        if (one.point == TapPoint::kContribution) single.taps->cuts.insert({one.step, one.first, one.count});
    found.failure = train(single, kNeverStops, &expected).failure;
    if (!found.failure.empty()) return found;
    auto other = single;
    other.is_nudged = pair.equivalence == Equivalence::kFp64;
    if (pair.equivalence == Equivalence::kOneStep) other.dtype = torch::kFloat64;
    if (pair.equivalence != Equivalence::kBitwise) found.failure = train(other, kNeverStops, &rounded).failure;
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
  static StateDict state_in(const fs::path& file) {
    auto state = read_tensors(file).tensors;
    std::erase_if(state, [](const auto& entry) { return entry.first.starts_with("strategy."); });
    return state;
  }

  /// With taps that see what every rank begins. They join no weight gradients, so that the failure may not come again.
  std::optional<Place> place_of_failure(Launch launch, int64_t stop) {
    launch.taps = TapPlan{};
    const LaunchEnd end = train(launch, stop);
    if (end.failure.empty()) return std::nullopt;
    return Place{.step = end.at.step,
                 .rank = end.rank,
                 .operation = end.at.operation.data(),
                 .tensor = end.at.tensor.data(),
                 .problem = "fails",
                 .difference = std::numeric_limits<double>::infinity()};
  }

  /// Doubles the number of steps until the states differ, and halves what is between.
  int64_t first_step_that_differs(const Comparison& pair) {
    if (!compares_states(pair)) return 0;
    const int64_t all = launch_of(pair).end_step;
    const auto differ_after = [&](int64_t count) {
      auto launch = launch_of(pair), single = reference_launch(pair);
      launch.end_step = single.end_step = count;
      if (!train(launch, stop_of(pair)).failure.empty()) return true;
      const double difference = largest_difference(reference(single), state_in(result_)).relative;
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
    if (!train(launch, stop_of(pair)).failure.empty()) return std::nullopt;
    // What is not a tensor of the model is compared only where it follows from the model: the average, what a run says.
    const std::string model = "model.", average = "average.", said = kSaid;
    for (const auto& prefix : {model, average, said}) {
      const auto some_of = [&](StateDict state) {
        std::erase_if(state, [&](const auto& entry) { return !entry.first.starts_with(prefix); });
        return state;
      };
      const StateDict state = some_of(state_in(result_));
      const auto largest = largest_difference(some_of(reference(single)), state);
      if (largest.tensor.empty() || largest.relative < pair.bound) continue;
      return Place{.step = step,
                   .operation = prefix == model     ? "backward over several micro-batches"
                                : prefix == average ? "average"
                                                    : "evaluation or the sum of losses",
                   .tensor = largest.tensor.substr(prefix.size()),
                   .difference = largest.relative,
                   .bound = pair.bound};
    }
    return std::nullopt;
  }

  /// What is in the file of the result with what it should be.
  void compare(Verdict& verdict) {
    const auto& pair = verdict.pair;
    const auto expected = [&]() -> StateDict {
      if (pair.equivalence != Equivalence::kEvaluation) return reference(reference_launch(pair));
      auto single = reference_launch(pair);
      single.from = result_;
      single.first_step = single.end_step;
      verdict.failure = run_launch(single, samples_, middle_).failure;
      return verdict.failure.empty() ? state_in(middle_) : StateDict();
    }();
    if (!verdict.failure.empty()) return;
    const StateDict state = state_in(result_);
    if (compares_states(pair)) {
      auto largest = largest_difference(expected, state);
      verdict.difference = largest.relative;
      verdict.tensor = std::move(largest.tensor);
    } else {
      verdict.difference = gradient_difference(expected, state);
    }
  }

  /// Whether it is many steps, and not one gradient.
  static bool compares_states(const Comparison& pair) {
    return pair.equivalence != Equivalence::kOneStep && pair.equivalence != Equivalence::kCompressed;
  }

  Launch launch_of(const Comparison& pair) const {
    const bool is_state = compares_states(pair), is_bitwise = pair.equivalence == Equivalence::kBitwise;
    Subject subject = pair.subject;
    if (!is_state) subject = {.arch = subject.arch, .loss = subject.loss, .clip = subject.clip};
    const int64_t steps = !is_state                                ? 1
                          : pair.equivalence == Equivalence::kFp64 ? options_.step_count
                                                                   : std::max<int64_t>(options_.step_count / 5, 2);
    return {.mode = pair.mode,
            .subject = subject,
            .ranks = pair.ranks,
            .hosting = pair.hosting,
            .dtype = is_state && !is_bitwise ? torch::kFloat64 : torch::kFloat32,
            .optimizer = is_state ? optimizer_of(subject) : kPlainSgd,
            .batch_size = options_.batch_size,
            .is_on_gpu = options_.is_on_gpu,
            .micro_shards = is_bitwise ? kVerifiedShards : 0,
            .end_step = steps,
            .step_count = steps,
            .evaluates = is_state};
  }

  /// If it stops before its end, in two launches, the second of which goes on where the first one ended. With `taps`
  /// these get what the launch's taps have seen.
  LaunchEnd train(Launch launch, int64_t stop, TapRecords* taps = nullptr) {
    const auto run = [&](const fs::path& to) {
      auto end = run_launch(launch, samples_, to);
      if (end.failure.empty() && taps)
        for (auto& record : read_taps(to, launch.ranks)) taps->push_back(std::move(record));
      return end;
    };
    if (stop <= launch.first_step || stop >= launch.end_step) return run(result_);
    const int64_t end_step = std::exchange(launch.end_step, stop);
    if (auto end = run(middle_); !end.failure.empty()) return end;
    launch.first_step = std::exchange(launch.end_step, end_step);
    launch.from = middle_;
    auto end = run(result_);
    if (!end.failure.empty()) end.failure = concat("going on from step ", launch.first_step, ": ", end.failure);
    return end;
  }

  Launch reference_launch(const Comparison& pair) const {
    auto launch = launch_of(pair);
    launch.mode = "single";
    launch.ranks = 1;
    launch.hosting = Hosting::kThreads;
    return launch;
  }

  const StateDict& reference(const Launch& launch) {
    const auto [found, is_new] =
        references_.try_emplace({launch.subject, launch.dtype, launch.micro_shards, launch.end_step, launch.is_nudged});
    if (is_new) {
      const fs::path file = folder_.path() / "reference.safetensors";
      if (const auto end = run_launch(launch, samples_, file); !end.failure.empty())
        throw device_error(concat("verify: single, arch ", text_of(launch.subject), ": ", end.failure));
      found->second = read_tensors(file).tensors;
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
      verdict.failure =
          concat("rounding alone moves single by ", printed("%.1e", own), ", which hides mistakes; expected ",
                 is_step ? "a model that rounds less" : "fewer --steps");
    }
  }

  VerifyOptions options_;
  Samples samples_;
  ScratchFolder folder_{"penstock-verify"};
  fs::path middle_ = folder_.path() / "middle.safetensors", result_ = folder_.path() / "result.safetensors";
  /// By subject, dtype, shards, steps, and whether the weights were nudged.
  std::map<std::tuple<Subject, torch::ScalarType, int, int64_t, bool>, StateDict> references_;
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
