// What `train` prints at the start and at the end, and summary.json.
#include "train/run/report.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/clock.h"
#include "core/json_text.h"
#include "core/number_text.h"
#include "core/plugin.h"
#include "core/text.h"
#include "train/checkpoint/kept_checkpoints.h"
#include "train/launch/command.h"
#include "train/nn/model.h"
#include "train/nn/module_names.h"
#include "train/options/emulated.h"
#include "train/options/recipes.h"
#include "train/run/bottleneck_report.h"
#include "train/run/exact.h"

namespace penstock {
namespace {

/// One line for each thing in which the model differs from --arch alone, and for each plug-in.
std::string model_text(const Setup& setup) {
  const auto& options = setup.options;
  std::string text;
  for (const auto& plugin : loaded_plugins())
    text += concat("plug-in ", plugin.file.string(), ": ", join(plugin.registered), "\n");
  if (options.has_new_head)
    text += concat("pretrained ", options.pretrained.string(), ": all but ", join(head_modules(*setup.model)),
                   ", which starts from random weights for ",
                   setup.loss->target().is_class() ? count_text(setup.shape.classes, "class", "classes")
                                                   : count_text(setup.shape.classes, "number"),
                   "\n");
  if (options.only_evaluates) return text;
  const ParameterCount count = count_parameters(*setup.model, options.freeze);
  if (!options.freeze.empty())
    text += concat("frozen ", options.freeze, ": ", grouped(count.frozen), " of ", grouped(count.all),
                   " parameters get no update, and BatchNorm in these layers keeps its statistics\n");
  if (setup.info.optimizer != CheckpointInfo().optimizer)
    text += concat("optimizer ", options.optimizer, ": --lr ", options.learning_rate, ", --wd ", options.weight_decay,
                   "\n");
  if (!options.layer_rates->empty()) text += concat("learning rate by layer: ", options.layer_rates, " times --lr\n");
  return text;
}

/// "60000 train, 10000 test samples"; if it is only evaluated, "10000 test samples".
std::string sample_text(const Setup& setup) {
  const auto& data = setup.data;
  if (setup.options.only_evaluates) return concat(data.test->size(), " ", setup.options.evaluated_split, " samples");
  return concat(data.train->size(), " train, ", data.test ? data.test->size() : 0, " test samples");
}

/// " in 10 classes" or " with tags (5 numbers)": what the loss compares the outputs with.
std::string target_text(const Setup& setup) {
  const LossTarget& target = setup.loss->target();
  if (target.is_class()) return concat(" in ", setup.shape.classes, " classes");
  return concat(" with ", target.field, " (", count_text(target.outputs, "number"), ")");
}

/// "0.8125", with four digits.
std::string short_text(double number) { return printed("%.4g", number); }

/// A score of this evaluation, or of one of its classes.
std::string score_text(const Evaluation& evaluation, double score) {
  return evaluation.accuracy() ? percent_text(score, 2) : short_text(score);
}

/// {"mean_absolute_error": 1.25}.
nlohmann::ordered_json scores_json(const Evaluation& evaluation) {
  nlohmann::ordered_json json;
  for (const auto& score : evaluation.scores) json[score.key()] = score.value;
  return json;
}

nlohmann::ordered_json class_scores_json(const Evaluation& evaluation) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& score : evaluation.class_scores)
    list.push_back(score ? nlohmann::ordered_json(*score) : nlohmann::ordered_json());
  return list;
}

/// Which rows BatchNorm normalises by; null for a model without it.
nlohmann::ordered_json rows_of_batch_norm(const Setup& setup) {
  if (!has_batch_norm(*setup.model)) return nullptr;
  const auto promise = promise_of(setup.world.plan);
  if (setup.options.exact_shards > 0) return "shards of --exact";
  return promise.sees_whole_batches ? "whole batches" : "parts of batches";
}

}  // namespace

std::string opening_text(const Setup& setup, const std::string& backend) {
  const int ranks = setup.world.rendezvous.world_size;
  const auto& options = setup.options;
  const auto& shape = setup.shape;
  const auto& data = setup.data;
  const auto started = setup.world.launcher == "none" ? std::string() : concat(" started by ", setup.world.launcher);
  std::string text = concat("data ", options.data, ": ", sample_text(setup), " of ", shape.channels, " x ",
                            shape.height, " x ", shape.width, target_text(setup), "; augment ",
                            (options.only_evaluates ? setup.eval_pipeline : setup.pipeline)->text(), "; batch ",
                            options.batch_size, "\n");
  if (!options.recipe.empty()) text += concat("recipe ", options.recipe, ": ", recipe_text(options.recipe), "\n");
  if (options.exact_shards > 0) text += exact_text(options);
  const Emulation& emulation = options.emulation;
  if (is_behind_sim_link(options)) text += concat("emulated: a link of ", sim_link_text(), " to the data\n");
  if (emulation.network) text += concat("emulated: a network of ", emulation.network->text, " between ranks\n");
  if (emulation.step_ns > 0 || emulation.load_ns > 0) {
    text += concat("emulated: ", ms_of(emulation.step_ns), " ms per step (0: the real one), ",
                   static_cast<double>(emulation.load_ns) * 1e-3, " us more processor time per sample\n");
  }
  for (const auto& note : data.notes) text += concat("note: ", note, "\n");
  text += model_text(setup);
  text += concat("arch ", options.arch, ", mode ", options.mode, ", ", count_text(ranks, "rank"), started,
                 backend.empty() ? "" : concat(" (", backend, ")"), " on ", options.device,
                 options.is_resident ? ", data resident" : "", "; per rank: ", count_text(options.workers, "worker"),
                 ", ", count_text(options.threads, "intra-op thread"), "; out ", options.out.string(), "\n");
  if (setup.checkpoint && !options.only_evaluates) {
    const auto& info = setup.checkpoint->info;
    text += concat("resuming at epoch ", info.position.epoch + 1, ", step ", info.position.batch, " of it");
    if (options.exact_shards == 0 && (info.threads != options.threads || info.world_size != ranks))
      text += concat("; the checkpoint was written with ", count_text(info.world_size, "rank"), " of ",
                     count_text(info.threads, "intra-op thread"), ", so sums are rounded differently now");
    if (info.augment != setup.info.augment) text += concat("; augment was ", info.augment);
    text += "\n";
  }
  return text;
}

std::string mode_text(const Setup& setup, const Strategy& strategy, int rank_count) {
  const auto& blocks = setup.model->blocks();
  const std::string whole =
      concat("with ", blocks_text(*setup.model, 0, blocks.size()), " (", grouped(count_parameters(*setup.model).all),
             " parameters)", rank_count > 1 ? " each" : "");
  const std::string division = strategy.text();
  const std::string left_out = strategy.left_out();
  return concat(left_out, left_out.empty() ? "" : "\n", "mode ", setup.options.mode, ", ",
                count_text(rank_count, "rank"), " ", division.empty() ? whole : division, "\n");
}

std::string going_on_text(const Setup& setup) {
  const auto& options = setup.options;
  const auto& world = setup.world;
  const int ranks = world.rendezvous.world_size;
  const bool is_single = options.mode.text() == TrainOptions().mode.text();
  const auto text = concat("--resume ", shell_quoted((options.out / kLastCheckpoint).string()),
                           is_single ? "" : " --mode " + shell_quoted(options.mode.text()));
  if (world.launcher == "flags")
    return concat(text, " --world-size ", ranks, ", with the --rank and --dist-url of each rank");
  const bool is_of_hostfile = world.launcher == "penstock" && std::getenv("PENSTOCK_CONTROL") != nullptr;
  if (is_of_hostfile) return concat(text, ", with the --hostfile of this run");
  if (world.launcher != "none" && world.launcher != "penstock")
    return concat(text, ", as ", count_text(ranks, "rank"), " that ", world.launcher, " starts");
  return concat(text, is_single ? "" : concat(" --nproc ", ranks), world.has_rank_threads ? " --hosting threads" : "");
}

std::string stopped_text(const Setup& setup, const TrainResult& result, int64_t batches_per_epoch) {
  const auto& at = result.position;
  return concat("stopped by SIG", sigabbrev_np(result.stop_signal), " at epoch ", at.epoch + 1, ", step ", at.batch,
                " of it", at.batch == batches_per_epoch ? ", before its evaluation" : "",
                setup.options.emulation.learns() ? concat("; go on with ", going_on_text(setup)) : "");
}

std::string resumed_text(const Setup& setup) {
  if (!setup.checkpoint) return "";
  const Position& start = setup.info.position;
  return concat(" since epoch ", start.epoch + 1, ", step ", start.batch, " of it, where --resume went on");
}

std::string scores_text(const Setup& setup, const Evaluation& evaluation) {
  const LossTarget& target = setup.loss->target();
  const auto& names = setup.data.train->manifest().class_names;
  const auto number = [&](double score) { return score_text(evaluation, score); };
  std::string text;
  for (const auto& score : evaluation.scores)
    text += concat(text.empty() ? concat(score.name, " over the ", evaluation.sample_count, " ",
                                         setup.options.evaluated_split, " samples: ")
                                : concat(", ", score.name, " "),
                   number(score.value));
  text.front() = static_cast<char>(std::toupper(text.front()));
  text += "\n";
  for (size_t i = 0; i < evaluation.class_scores.size(); ++i) {
    const auto& score = evaluation.class_scores[i];
    const std::string name = target.names.empty() ? std::to_string(i) : target.names[i];
    text += concat("  ", target.is_class() ? "class " + names[i] : concat(target.field, " ", name), ": ",
                   score ? number(*score) : "no samples", "\n");
  }
  return text;
}

std::string skipped_text(const Position& position) {
  if (!position.scale) return "";
  return concat("f16: ", grouped(static_cast<uint64_t>(position.scale->skipped_steps)), " of ",
                count_text(static_cast<size_t>(position.step), "step"),
                " were skipped, because gradients overflowed; the scale ends at ", position.scale->scale, "\n");
}

std::string scores_of_weights_text(const Evaluation& evaluation) {
  std::vector<std::string> scores;
  for (const auto& score : evaluation.scores)
    scores.push_back(concat(score.name, " ", score_text(evaluation, score.value)));
  return concat("The weights without averaging: ", join(scores), "\n");
}

namespace {

double busy_share(const ReplicaUse& replica, double seconds) {
  return seconds > 0 ? std::min(1.0, replica.busy_ms * 1e-3 / seconds) : 0;
}

}  // namespace

std::string replicas_text(const std::vector<ReplicaUse>& replicas, double seconds, int64_t memory_bytes) {
  std::string text;
  for (size_t number = 0; number < replicas.size(); ++number) {
    const auto& replica = replicas[number];
    const std::string memory =
        replica.peak_memory_bytes > 0
            ? concat("peak memory ", byte_text(static_cast<uint64_t>(replica.peak_memory_bytes)))
            : concat("peak memory of the whole process ", byte_text(static_cast<uint64_t>(memory_bytes)));
    text += concat("replica ", number, " on ", replica.device, ": busy ", percent_text(busy_share(replica, seconds)),
                   ", ", memory, "\n");
  }
  return text;
}

nlohmann::ordered_json replicas_json(const std::vector<ReplicaUse>& replicas, double seconds) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& replica : replicas) {
    nlohmann::ordered_json one{{"device", replica.device}, {"busy_share", busy_share(replica, seconds)}};
    if (replica.peak_memory_bytes > 0) one["peak_memory_bytes"] = replica.peak_memory_bytes;
    list.push_back(std::move(one));
  }
  return list;
}

namespace {

void add_accuracies(const ClassTally& tally, nlohmann::ordered_json& json) {
  const auto share = [&](int64_t count) {
    return tally.count > 0 ? nlohmann::ordered_json(static_cast<double>(count) / static_cast<double>(tally.count))
                           : nlohmann::ordered_json();
  };
  json["samples"] = tally.count;
  json["top1"] = share(tally.hit_count);
  json["top5"] = share(tally.top5_count);
}

}  // namespace

std::string evaluation_json(const Setup& setup, const Evaluation& evaluation, const Predictions* predictions) {
  const auto& options = setup.options;
  nlohmann::ordered_json json{
      {"weights", options.resume.empty() ? options.pretrained.string() : options.resume.string()},
      {"arch", options.arch.text()},
      {"data", options.data},
      {"split", options.evaluated_split},
      {"augment", setup.eval_pipeline->text()},
      {"loss", evaluation.loss}};
  if (predictions == nullptr) {
    json["samples"] = evaluation.sample_count;
    json.update(scores_json(evaluation));
    json["scores_of_classes"] = class_scores_json(evaluation);
    return json_text(json, 2) + "\n";
  }
  const auto& names = setup.data.test->manifest().class_names;
  ClassTally all;
  auto by_class = nlohmann::ordered_json::array();
  for (size_t i = 0; i < predictions->classes().size(); ++i) {
    const auto& tally = predictions->classes()[i];
    all.count += tally.count;
    all.hit_count += tally.hit_count;
    all.top5_count += tally.top5_count;
    nlohmann::ordered_json one{{"name", names[i]}};
    add_accuracies(tally, one);
    one["confusion"] = nlohmann::ordered_json::object();
    for (const auto& [prediction, count] : tally.predictions)
      one["confusion"][names[static_cast<size_t>(prediction)]] = count;
    by_class.push_back(std::move(one));
  }
  add_accuracies(all, json);
  json["classes"] = std::move(by_class);
  return json_text(json, 2) + "\n";
}

nlohmann::ordered_json summary_json(const Setup& setup, const TrainResult* result, const Evaluation* evaluation,
                                    int64_t memory_bytes) {
  nlohmann::ordered_json json{{"format", kSummaryFormat}, {"emulated", is_emulated(setup.options)}};
  json["accuracy"] = nullptr;
  json["per_class_accuracy"] = nlohmann::ordered_json::array();
  if (evaluation != nullptr) {
    if (const auto accuracy = evaluation->accuracy())
      json["accuracy"] = *accuracy;
    else
      json["scores"] = scores_json(*evaluation);
    json[evaluation->accuracy() ? "per_class_accuracy" : "scores_of_classes"] = class_scores_json(*evaluation);
    json["test_loss"] = evaluation->loss;
    json["test_samples"] = evaluation->sample_count;
  }
  if (result != nullptr && result->of_weights) {
    const Evaluation& weights = *result->of_weights;
    json["of_weights"] = {{"test_loss", weights.loss}};
    json["of_weights"].update(scores_json(weights));
  }
  if (result != nullptr) {
    json["batch_norm_rows"] = rows_of_batch_norm(setup);
    json["resumed_at_step"] = setup.checkpoint ? setup.checkpoint->info.position.step : 0;  // times begin there
    json["train_seconds"] = result->train_seconds;
    json["epoch_seconds"] = result->epoch_seconds;
    json["load_ms_per_step"] = result->load_ms_per_step;
    json["update_ms_per_step"] = result->update_ms_per_step;
    json["images_per_second"] = result->images_per_second;
    json["epochs"] = result->position.epoch;
    json["steps"] = result->position.step;
    if (const auto& scale = result->position.scale) {
      json["skipped_steps"] = scale->skipped_steps;
      json["gradient_scale"] = scale->scale;
    }
    for (int phase = 0; phase < kPhaseCount; ++phase)
      json["phase_ms"][kPhaseNames[phase]] = result->a_step[Phase{phase}];
    json["hidden_communication_ms"] = result->a_step.hidden_communication();
    if (setup.options.captures_steps) {
      json["graph"] = result->replay_count > 0;
      json["replayed_steps"] = result->replay_count;
    }
  }
  const auto& options = setup.options;
  json["world_size"] = options.world_size;
  json["workers"] = options.workers;
  json["threads"] = options.threads;
  json["peak_memory_bytes"] = memory_bytes;
  json["arch"] = options.arch.text();
  json["mode"] = options.mode.text();
  json["device"] = options.device;
  json["batch_size"] = options.batch_size;
  if (options.exact_shards > 0) json["exact_shards"] = options.exact_shards;
  json["seed"] = options.seed;
  json["schedule"] = options.schedule.text();
  json["optimizer"] = options.optimizer.text();
  json["learning_rate"] = options.learning_rate;
  json["classes"] = setup.data.train->manifest().class_names;
  return json;
}

}  // namespace penstock
