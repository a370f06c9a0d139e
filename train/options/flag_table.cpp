// Flag table: one row per flag, in the order of --help.
#include "train/options/flag_table.h"

#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "core/text.h"
#include "train/options/emulated.h"

namespace penstock {
namespace {

using Options = const TrainOptions&;

constexpr FlagUses kOwn{};                             // may differ between ranks
constexpr FlagUses kOwnAside{.affects_speed = false};  // the same, and runs with different values are compared
constexpr FlagUses kAgreed{.is_agreed = true};         // must be equal at all ranks
constexpr FlagUses kAgreedAside{.is_agreed = true, .affects_speed = false};
constexpr FlagUses kTrained{.is_resumed = true, .is_agreed = true};  // says what is trained
constexpr FlagUses kTrainedAside{.is_resumed = true, .is_agreed = true, .affects_speed = false};

constexpr FlagRange kFromZero{.least = 0}, kFromZeroOrAuto{.least = 0, .automatic = -1}, kFromOne{.least = 1},
    kShare{.least = 0, .below = 1};

/// "" for -1, which stands for a flag that was not given.
std::string given_number(double value) { return value == -1 ? "" : json_text(nlohmann::json(value)); }

std::vector<Flag> data_flags() {
  return {
      {"data", kTrained, [](Options o) -> FlagValue { return without_sim_link(o.data); }},
      {"also", kTrained,
       [](Options o) -> FlagValue {
         auto folders = o.also;
         for (auto& folder : folders) folder = without_sim_link(folder);
         return folders;
       }},
      {"split", kTrained, [](Options o) -> FlagValue { return o.split; }},
      {"augment", kTrained, [](Options o) -> FlagValue { return o.augment; }},
      {"eval-augment", kTrained, [](Options o) -> FlagValue { return o.eval_augment; }},
      {"size-schedule", kTrained, [](Options o) -> FlagValue { return o.size_schedule.text(); }},
      {"subset", kTrained, [](Options o) -> FlagValue { return o.subset; }},
      {"exclude-ids", kTrained, [](Options o) -> FlagValue { return o.exclude_ids; }},
      {"sampler", kTrained, [](Options o) -> FlagValue { return o.sampler; }},
      {"shuffle", kTrained, [](Options o) -> FlagValue { return o.shuffle.text(); }},
      {"tail", kTrained, [](Options o) -> FlagValue { return o.tail.text(); }},
      {"batch-size", kTrained, [](Options o) -> FlagValue { return o.batch_size; }, kFromOne},
      {"workers", kOwnAside, [](Options o) -> FlagValue { return int64_t{o.workers}; }, kFromZeroOrAuto},
      {"prefetch", kOwn, [](Options o) -> FlagValue { return int64_t{o.prefetch}; }, kFromOne},
      {"resident", kAgreed, [](Options o) -> FlagValue { return o.is_resident; }},  // a GPU may round in another way
      {"graph", kOwn, [](Options o) -> FlagValue { return o.captures_steps; }},     // it gives the same bits
      {"layout", kTrained, [](Options o) -> FlagValue { return o.layout.text(); }},
      {"decode", kOwn, [](Options o) -> FlagValue { return o.decode.text(); }},  // all ways give the same pixels
      {"dct-scale", kTrained, [](Options o) -> FlagValue { return o.dct_scale.text(); }},
      {"on-corrupt", kTrained, [](Options o) -> FlagValue { return o.on_corrupt.text(); }},
      {"cache", kOwnAside, [](Options o) -> FlagValue { return o.cache.string(); }},
      {"repack", kOwnAside, [](Options o) -> FlagValue { return o.repacks; }},
      {"cache-dir", kOwnAside, [](Options o) -> FlagValue { return o.cache_dir; }},
      {"cache-limit", kOwnAside, [](Options o) -> FlagValue { return o.cache_limit; }},
      {"sim-link", kOwn, [](Options o) -> FlagValue { return is_behind_sim_link(o) ? sim_link_text() : ""; }},
  };
}

std::vector<Flag> model_flags() {
  return {
      {"arch", kTrained, [](Options o) -> FlagValue { return o.arch.text(); }},
      {"pretrained", kAgreedAside, [](Options o) -> FlagValue { return o.pretrained.string(); }},
      {"new-head", kAgreedAside, [](Options o) -> FlagValue { return o.has_new_head; }},
      {"freeze", kTrained, [](Options o) -> FlagValue { return o.freeze; }},
      {"layer-lr", kTrainedAside, [](Options o) -> FlagValue { return o.layer_rates.text(); }},
      {"epochs", kTrainedAside, [](Options o) -> FlagValue { return o.epochs; }, kFromZero},
      {"optimizer", kTrained, [](Options o) -> FlagValue { return o.optimizer.text(); }},
      {"lr", kTrainedAside, [](Options o) -> FlagValue { return o.learning_rate; }, kFromZeroOrAuto},
      {"schedule", kTrainedAside, [](Options o) -> FlagValue { return o.schedule.text(); }},
      {"momentum", kTrainedAside, [](Options o) -> FlagValue { return o.momentum; }, kShare},
      {"weight-decay", kTrainedAside, [](Options o) -> FlagValue { return o.weight_decay; }, kFromZero},
      {"seed", kTrainedAside, [](Options o) -> FlagValue { return o.seed; }},
      {"exact", kTrained, [](Options o) -> FlagValue { return int64_t{o.exact_shards}; }},
      {"exact-kernels", kTrained, [](Options o) -> FlagValue { return o.exact_kernels; }},
      {"recipe", kAgreedAside, [](Options o) -> FlagValue { return o.recipe; }},
      {"precision", kTrained, [](Options o) -> FlagValue { return o.precision.text(); }},
      {"channels-last", kTrained, [](Options o) -> FlagValue { return o.is_channels_last; }},
      {"bias-decay", kTrainedAside, [](Options o) -> FlagValue { return given_number(o.bias_decay); }},
      {"no-decay", kTrainedAside, [](Options o) -> FlagValue { return o.no_decay.text(); }},
      {"bias-lr", kTrainedAside, [](Options o) -> FlagValue { return o.bias_rate; }},
      {"layer-decay", kTrainedAside, [](Options o) -> FlagValue { return o.layer_decay; }},
      {"loss", kTrained, [](Options o) -> FlagValue { return o.loss.text(); }},
      {"label-smoothing", kTrainedAside, [](Options o) -> FlagValue { return o.label_smoothing; }, kShare},
      {"clip-grad", kTrainedAside, [](Options o) -> FlagValue { return o.clip.text(); }},
      {"average", kTrained, [](Options o) -> FlagValue { return o.average.text(); }},
      {"tta", kTrainedAside, [](Options o) -> FlagValue { return o.test_views.text(); }},
  };
}

std::vector<Flag> device_flags() {
  return {
      {"device", kAgreed, [](Options o) -> FlagValue { return o.device; }},
      {"gpu", kOwnAside, [](Options o) -> FlagValue { return int64_t{o.gpu}; }, kFromZeroOrAuto},
      {"threads", kOwn, [](Options o) -> FlagValue { return int64_t{o.threads}; }, kFromZero},
      {"mode", kAgreed, [](Options o) -> FlagValue { return o.mode.text(); }},
      {"print-schedule", kOwnAside, [](Options o) -> FlagValue { return o.prints_schedule; }},
      {"nproc", kOwnAside, [](Options o) -> FlagValue { return int64_t{o.nproc}; }, kFromZero},
      {"hostfile", kOwnAside, [](Options o) -> FlagValue { return o.hostfile.string(); }},
      {"include", kOwnAside, [](Options o) -> FlagValue { return o.include; }},
      {"exclude", kOwnAside, [](Options o) -> FlagValue { return o.exclude; }},
      {"max-restarts", kOwnAside, [](Options o) -> FlagValue { return int64_t{o.max_restarts}; }, kFromZero},
      {"dry-run", kOwnAside, [](Options o) -> FlagValue { return o.only_prints_commands; }},
      {"world-size", kAgreed, [](Options o) -> FlagValue { return int64_t{o.world_size}; }, kFromZero},
      {"rank", kOwnAside, [](Options o) -> FlagValue { return int64_t{o.rank}; }, FlagRange{.least = -1}},
      {"dist-url", kOwnAside, [](Options o) -> FlagValue { return o.dist_url; }},
      {"dist-backend", kAgreed, [](Options o) -> FlagValue { return o.dist_backend; }},
      {"hosting", kOwn, [](Options o) -> FlagValue { return o.hosting; }},
      {"interface", kOwnAside, [](Options o) -> FlagValue { return o.interface; }},
      {"timeout", kOwnAside, [](Options o) -> FlagValue { return int64_t{o.timeout_seconds}; }, kFromOne},
  };
}

/// Evaluations, checkpoints, sums of losses and profiles are made by all ranks together, at the same steps.
std::vector<Flag> run_flags() {
  return {
      {"out", kOwnAside, [](Options o) -> FlagValue { return o.out.string(); }},
      {"force", kOwnAside, [](Options o) -> FlagValue { return o.replaces_run; }},
      {"save-every", kAgreedAside, [](Options o) -> FlagValue { return to_string(o.save_every); }},
      {"keep", kOwnAside, [](Options o) -> FlagValue { return o.keep; }, kFromOne},
      {"resume", kAgreedAside, [](Options o) -> FlagValue { return o.resume.string(); }},
      {"print-config", kOwnAside, [](Options o) -> FlagValue { return o.prints_config; }},
      {"evaluate", kAgreedAside, [](Options o) -> FlagValue { return o.only_evaluates; }},
      {"check", kOwnAside, [](Options o) -> FlagValue { return o.only_checks; }},
      {"eval-at-end", kAgreedAside, [](Options o) -> FlagValue { return !o.evaluates_each_epoch; }},
      {"print-freq", kAgreedAside, [](Options o) -> FlagValue { return o.print_freq; }, kFromOne},
      {"profile", kAgreedAside, [](Options o) -> FlagValue { return o.profile_steps; }},
      {"predicted-step", kOwnAside, [](Options o) -> FlagValue { return concat(o.predicted_step_ns, "ns"); }},
      {"plugin", kTrained, [](Options o) -> FlagValue { return o.plugins; }},
      {"emulate-step", kAgreed, [](Options o) -> FlagValue { return concat(o.emulation.step_ns, "ns"); }},
      {"emulate-load", kOwn, [](Options o) -> FlagValue { return concat(o.emulation.load_ns, "ns"); }},
      {"sim-net", kAgreed, [](Options o) -> FlagValue { return o.emulation.network ? o.emulation.network->text : ""; }},
  };
}

}  // namespace

const std::vector<Flag>& flag_table() {
  static const std::vector<Flag> table = [] {
    std::vector<Flag> all;
    for (const auto& group : {data_flags(), model_flags(), device_flags(), run_flags()})
      all.insert(all.end(), group.begin(), group.end());
    return all;
  }();
  return table;
}

std::string text_of(const FlagValue& value) {
  return std::visit(
      [](const auto& given) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(given)>, std::string>)
          return given;
        else
          return json_text(nlohmann::json(given));
      },
      value);
}

}  // namespace penstock
