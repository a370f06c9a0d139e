// Predicted step: the formulas of docs/PARALLEL.md with numbers in them.
#include "tools/train/study/predicted_step.h"

#include <algorithm>

#include "core/spec.h"
#include "train/parallel/strategy/strategy.h"

namespace penstock {
namespace {

constexpr double kLastBucketBytes = 1 << 20;  // as buckets of gradients are cut, if the tensors in it are smaller

/// One mode over some ranks.
class Formula {
 public:
  Formula(const StepPlan& plan, const StepParts& single, const StepParts& own, const std::optional<NetworkModel>& net)
      : plan_(plan), ranks_(plan.mesh.size()), single_(single), own_(own), net_(net) {}

  /// One rank, whose rows are divided by replicas.
  double of_replicas() const {
    const double replicas = own_.replicas;
    const double share = single_.uses_cores ? slowdown(1) : 1 / replicas;
    double copies = 0;  // of the parameters to the other replicas, and of their gradients back; see EmulatedStep
    if (!single_.uses_cores && net_ && replicas > 1) copies = 2 * transfer_ms(own_.parameter_bytes * (replicas - 1), 1);
    return fixed() + single_.load + single_.optimizer + share * compute() + copies;
  }

  /// Every rank holds the model.
  double of_copies() const {
    const double copies = ranks_, accumulate = plan_.schedule.micro_batches;
    const double compression = plan_.compression.name == "fp16" ? 0.5 : 1;  // of the bytes of gradients
    const bool slices_update = plan_.sharded.optimizer;
    const double slower = slowdown(ranks_), work = slower / copies;
    const double update = single_.optimizer * slower / (slices_update ? copies : 1);
    const double exposed =
        plan_.local ? meeting_ms(copies) / plan_.local->count
                    : exposed_ms(own_.parameter_bytes * compression, copies, work * single_.backward / accumulate);
    const double gathers = slices_update ? transfer_ms(own_.parameter_bytes * (copies - 1) / copies, copies - 1) : 0;
    return fixed() + single_.load / copies + work * compute() + update + exposed + gathers;
  }

  double of_parts() const {
    const bool takes_turns = plan_.mode == "mp";
    const double copies = plan_.mesh.data, parts = plan_.mesh.pipe;
    const double slower = slowdown(takes_turns ? 1 : ranks_);
    const double recomputed = plan_.schedule.recompute == detail::Recompute::kNever ? 1 : 4.0 / 3;
    const double work = recomputed * slower * compute() / (ranks_ * (1 - own_.predicted_bubble));
    const double update = slower * single_.optimizer / parts;
    const double one = transfer_ms(own_.activation_bytes, 1);
    // Messages of gpipe are under way while the next micro-batch is computed, except where the pipeline fills and
    // drains; in 1f1b each rank waits for the round trip of one micro-batch before it can begin the next.
    const auto known = ScheduleRegistry::entries().find(plan_.schedule.name);  // a file is not there
    const bool hides =
        takes_turns || (known != ScheduleRegistry::entries().end() && known->second.traits.hides_messages);
    const double messages = one * (hides ? 2 * (parts - 1) : own_.micro_batches + parts - 1);
    const double hiding = slower * single_.backward / (ranks_ * own_.micro_batches);
    return fixed() + single_.load + work + update + messages + exposed_ms(own_.parameter_bytes, copies, hiding);
  }

 private:
  double compute() const { return single_.forward + single_.backward; }
  double fixed() const { return single_.other; }

  /// How many times as long as in `single` a rank takes for the same work while `at_once` ranks compute.
  double slowdown(int at_once) const {
    if (!single_.uses_cores) return 1;
    return std::min(single_.threads, single_.cores) / std::min(own_.threads, own_.cores / at_once);
  }

  double transfer_ms(double bytes, double delays) const {
    if (!net_) return 0;
    return bytes / net_->bytes_per_second * 1e3 + delays * static_cast<double>(net_->delay_ns) * 1e-6;
  }

  /// The sums of gradients that backward does not hide: the last bucket always.
  double exposed_ms(double bytes, double copies, double backward) const {
    if (copies < 2) return 0;
    const double sent = 2 * (copies - 1) / copies, delays = 2 * (copies - 1);
    const double last = std::min(bytes, kLastBucketBytes);
    return std::max(transfer_ms(sent * bytes, delays) - backward, transfer_ms(sent * last, delays));
  }

  /// The sum of the parameters of ranks that take steps alone, which nothing hides.
  double meeting_ms(double copies) const {
    return transfer_ms(2 * (copies - 1) / copies * own_.parameter_bytes, 2 * (copies - 1));
  }

  const StepPlan& plan_;
  int ranks_;
  const StepParts &single_, &own_;
  const std::optional<NetworkModel>& net_;
};

}  // namespace

std::optional<double> predicted_step_ms(const std::string& mode, int ranks, const StepParts& single,
                                        const StepParts& own, const std::optional<NetworkModel>& net) {
  const Spec spec = parse_spec("mode", mode);
  if (spec.name() == "single") return single.total();
  if (!StrategyRegistry::entries().contains(spec.name())) return std::nullopt;
  const StepPlan plan = plan_of(spec, {.ranks = ranks});
  const Formula formula(plan, single, own, net);
  if (!plan.is_complete || plan.compression.name == "powersgd" || plan.sharded.parameters || plan.syncs_batch_norm)
    return std::nullopt;
  if (!plan.replicas.empty()) return formula.of_replicas();
  if (!plan.has_stages()) return formula.of_copies();
  return plan.sharded.optimizer ? std::nullopt : std::optional(formula.of_parts());
}

std::vector<std::string> prediction_notes() {
  return {
      "formula s: the total by the formula of the mode, from the step of single in this study: t is its forward and "
      "backward, "
      "u its update, l its load wait, o the rest. With W ranks, P stages, M micro-batches, D copies of a pipeline, phi "
      "the bytes of the parameters, a those of a micro-batch's activation, and a network of --sim-net (otherwise "
      "messages count as taking no time): "
      "dp, R replicas: o + l + u + t / R (with an emulated step also 2 phi (R - 1) of copies); "
      "ddp: o + l / W + u + t / W + what backward does not hide of 2 phi (W - 1) / W, at least the last bucket, or "
      "with local-steps=H all of it / H; "
      "zero: ddp with u / W, + phi (W - 1) / W; "
      "mp and pipeline: o + l + u / P + t / (W (1 - bubble)) + messages of a, 2 (P - 1) of them one after the other in "
      "mp "
      "and gpipe, M + P - 1 in the other schedules; bubble is that of equal stages, 1 - 1 / P in mp.",
      "On the cores of this machine, a rank counts as slower by the threads of single / the threads that it has, or "
      "its "
      "share of the cores if that is less. zero(stage=3), pipeline(zero=1), powersgd, sync-bn and modes of plug-ins "
      "have "
      "no prediction."};
}

}  // namespace penstock
