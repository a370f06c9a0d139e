// set_up(): resolves options, opens data and checkpoint, makes the model, and checks that they fit together.
#include "train/run/open_run.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "core/limits.h"
#include "core/text.h"
#include "loader/files/files.h"
#include "loader/order/partition.h"
#include "loader/rows/sample_order.h"
#include "train/checkpoint/kept_checkpoints.h"
#include "train/checkpoint/last_checkpoint.h"
#include "train/losses/loss.h"
#include "train/nn/model.h"
#include "train/nn/module_names.h"
#include "train/nn/parameter_groups.h"
#include "train/nn/pretrained.h"
#include "train/options/check.h"
#include "train/options/emulated.h"
#include "train/options/options_file.h"
#include "train/parallel/strategy/old_keys.h"
#include "train/parallel/strategy/stage_cuts.h"
#include "train/parallel/strategy/strategy.h"
#include "train/rendezvous/address.h"
#include "train/run/agreement.h"
#include "train/run/first_images.h"
#include "train/run/run_checks.h"
#include "train/run/run_folder.h"
#include "train/run/run_precision.h"
#include "train/tensor/out_of_memory.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// The data that a checkpoint was trained on are compared when they are open. Names are compared here, before they are
/// packed for minutes, and because checkpoints of earlier versions say nothing about them.
void check_same_data_name(const TrainOptions& options) {
  const auto data = text_in(read_options(options.out).at("data"));
  const std::string named = without_sim_link(options.data);
  std::error_code ignored;
  if (data == named || fs::equivalent(data, named, ignored)) return;
  throw config_error(concat("--resume auto: ", options.out.string(), " holds a run on data ", in_quotes(data),
                            "; expected ", in_quotes(named), ", as --data is, or another --out"));
}

/// Replaces the "auto" of options.resume by the path of the checkpoint that is returned, or by "" if the run starts.
/// `log` gets a line about files that are passed over, and one if the run starts. Throws config_error if OUT holds
/// checkpoints of a run on other data, and like last_whole_checkpoint().
std::optional<Checkpoint> resume_if_possible(TrainOptions& options,
                                             const std::function<void(const std::string&)>& log) {
  auto found = naming_memory("--resume auto", "the tensors of a checkpoint", "a smaller model",
                             [&] { return last_whole_checkpoint(options.out, log); });
  if (!found) {
    log(concat("--resume auto: no checkpoint in ", options.out.string(), "; the run starts"));
    options.resume.clear();
    return std::nullopt;
  }
  check_same_data_name(options);
  options.resume = found->path;
  return std::move(found->checkpoint);
}

/// A line with both rates where the schedule of options.epochs goes on, after the checkpoint in options.resume, at less
/// than half or more than twice the rate that the run had with the number of epochs in its options.json; otherwise "".
std::string note_of_rate(const TrainOptions& options, const Position& at, int64_t steps_per_epoch) {
  const auto folder = options.resume.parent_path();
  const int64_t done = at.epoch * steps_per_epoch + at.batch, step_count = options.epochs * steps_per_epoch;
  if (!has_options(folder) || done < 1 || done >= step_count) return "";
  const auto earlier = read_options(folder);
  const auto value = [&](const char* key) { return earlier.value(key, nlohmann::json()); };
  const auto epochs = value("epochs"), rate = value("lr"), schedule = value("schedule");
  if (!epochs.is_number_integer() || !rate.is_number() || !schedule.is_string() || epochs == options.epochs) return "";
  const RateSchedule before(schedule.get<std::string>());
  const double was = rate.get<double>() *
                     before.factor(done - 1, std::max(done, epochs.get<int64_t>() * steps_per_epoch), steps_per_epoch);
  const double is = options.learning_rate * options.schedule->factor(done, step_count, steps_per_epoch);
  if (2 * std::min(was, is) >= std::max(was, is)) return "";
  return concat("--epochs is ", options.epochs, " and was ", epochs.get<int64_t>(), ": the learning rate was ", was,
                " in step ", at.step, " and goes on at ", is);
}

/// If --evaluate is given without weights, they are those of the run in --out.
void resolve_weights(TrainOptions& options) {
  if (!options.only_evaluates || !options.resume.empty() || !options.pretrained.empty()) return;
  if (options.out.empty()) {
    throw config_error(
        "--evaluate: no weights are named; expected --resume FILE, --pretrained FILE, or --out with a run's folder");
  }
  options.pretrained = options.out / "model.safetensors";
}

/// Finds out how many rows an epoch of training has, and of which samples.
void choose_samples(Setup& setup) {
  const auto& options = setup.options;
  const Dataset& dataset = *setup.data.train;
  setup.rows_per_epoch = dataset.size();
  const bool is_whole = options.subset.empty() && options.exclude_ids.empty() && options.sampler.empty();
  if ((is_whole && !options.shuffle->has_window()) || options.only_evaluates) return;
  const SampleOrder order(dataset, {.batch_size = options.batch_size,
                                    .shuffle = *options.shuffle,
                                    .subset = options.subset,
                                    .exclude_ids = options.exclude_ids,
                                    .sampler = options.sampler,
                                    .seed = options.seed});
  setup.rows_per_epoch = order.rows();
  setup.selection = order.identity(dataset);
  setup.data.notes.push_back(order.text());
}

CheckpointInfo info_of(const Setup& setup) {
  const auto& options = setup.options;
  CheckpointInfo info;
  info.arch = options.arch.text();
  info.optimizer = options.optimizer->name();
  info.average = options.average->name;
  info.shape = setup.shape;
  info.seed = options.seed;
  info.batch_size = options.batch_size;
  info.shuffle = options.shuffle->text();
  info.tail = options.tail.text();
  info.dataset_size = setup.data.train->size();
  info.data = identity_of(setup.data.train->manifest());
  info.selection = setup.selection;
  info.world_size = setup.world.rendezvous.world_size;
  info.threads = options.threads;
  info.augment = setup.data.augment;
  if (!options.size_schedule->is_empty()) info.augment += concat(" in sizes ", options.size_schedule);
  return info;
}

/// Names in --pretrained that were made to fit.
void add_note_of_pretrained(Setup& setup) {
  const auto& path = setup.options.pretrained;
  const std::string prefix = path.empty() ? "" : prefix_of_wrapper(*setup.model, path);
  if (!prefix.empty())
    setup.data.notes.push_back(
        concat("the names in ", path.string(), " begin with ", in_quotes(prefix), ", which was taken off"));
}

/// What cannot be compared with the run that wrote the checkpoint.
void add_notes_of_checkpoint(Setup& setup) {
  const fs::path& path = setup.options.resume;
  auto& notes = setup.data.notes;
  if (!has_options(path.parent_path()))
    notes.push_back(
        concat("no options.json beside ", path.string(), ": flags that were not typed have their defaults"));
  if (!setup.options.only_evaluates && setup.checkpoint->info.data.empty())
    notes.push_back(concat(path.string(), " does not say which data it was trained on (an earlier version wrote it), ",
                           "so that they are not compared with --data"));
}

/// Checks name and keys before data are packed and ranks are started. The plug-in itself checks the values.
template <class Registry>
void check_spec(const Spec& spec) {
  spec.with_keys(Registry::entry(spec.name()).keys);
}

/// Before data are packed and ranks are started.
void check_keeps_average(const TrainOptions& options) {
  const bool keeps = StrategyRegistry::entry(options.mode->name()).traits.keeps_average;
  if (!options.average->name.empty() && (!keeps || options.mode->has("local-steps")))
    throw config_error(concat("--average ", options.average, " with --mode ", options.mode,
                              ", which keeps no average of the weights; expected no --average, or another mode"));
}

/// Sets the default of --lr, and makes the optimiser over no parameters, so that it checks the values of its keys.
void resolve_optimizer(TrainOptions& options) {
  const auto& entry = OptimizerRegistry::entry(options.optimizer->name());
  if (options.learning_rate < 0) options.learning_rate = entry.traits.learning_rate;
  make_optimizer({.parameters = {}, .options = optimizer_options(options)});
}

/// Starts LibTorch's intra-op threads before its first operation. If the system gives no thread, OpenMP ends the
/// process; so this first tries whether the system gives them, and then lets OpenMP start all of them.
void start_intra_op_threads(int count) {
  require_threads(concat("--threads ", count), intra_op_threads(count), "fewer of them");
  at::set_num_threads(count);
  at::parallel_for(0, count, /*grain_size=*/1, [](int64_t, int64_t) {});
}

}  // namespace

// Longer than others: each step needs what the one before it has found out, of options, ranks, checkpoint, data and
// model.
Setup set_up(TrainOptions options, const std::function<void(const std::string&)>& log) {
  check(options, ModelRegistry::names(), StrategyRegistry::names(), OptimizerRegistry::names());
  check_spec<ModelRegistry>(*options.arch);
  check_spec<StrategyRegistry>(detail::without_old_keys(*options.mode));
  resolve_optimizer(options);
  make_loss(options.loss.text(), {.label_smoothing = options.label_smoothing});  // throws
  Setup setup;
  setup.device = device_type(options);
  check_precision(options, setup.device);
  set_matrix_precision(options);
  setup.world = find_world(options, setup.device);
  if (setup.world.launcher == "penstock") options.repacks = false;  // the process that has started this rank did it
  const bool copies_to_replicas = setup.world.plan.mesh.replicas > 1 && !options.emulation.learns();
  if (options.emulation.network && setup.world.rendezvous.world_size == 1 && !copies_to_replicas) {
    log(concat("--sim-net ", options.emulation.network->text,
               ": one rank has nobody to talk to, so no network is emulated"));
    options.emulation.network.reset();  // the results are those of this machine
  }
  // Before data are packed, at every rank, and also where there is only one.
  if (!options.interface.empty()) detail::address_of_interface(options.interface);
  resolve_weights(options);
  setup.has_new_folder = resolve_out(options);
  resolve_threads(options, setup.world, setup.device);
  if (options.cache.empty()) options.cache = default_cache();
  options.world_size = setup.world.rendezvous.world_size;
  options.device = setup.device == torch::kCUDA ? "cuda" : "cpu";
  if (options.resumes_if_possible()) check_has_options("--resume auto", options.out);
  if (options.only_evaluates)
    check_evaluation_folder(options);
  else if (!setup.has_new_folder)
    check_training_folder(options);
  // The checkpoint is read first, because packing the data may take minutes.
  const bool tells = setup.world.rendezvous.rank == 0 && !setup.world.is_spawner;
  if (options.resumes_if_possible())
    setup.checkpoint = resume_if_possible(
        options, tells ? log : [](const std::string&) {});
  else if (!options.resume.empty())
    setup.checkpoint = naming_memory("--resume " + options.resume.string(), "its tensors", "a smaller model",
                                     [&] { return load_checkpoint(options.resume); });
  // An evaluation makes no update, but load_state() expects the state of the checkpoint's optimiser.
  if (options.only_evaluates && setup.checkpoint) {
    options.optimizer = setup.checkpoint->info.optimizer;
    if (has_average(setup.checkpoint->state) && options.average->name.empty())
      options.average = setup.checkpoint->info.average.empty() ? "ema" : setup.checkpoint->info.average;
  }
  check_keeps_average(options);

  // Ranks that are threads share what is open, so that all shards are needed.
  const bool is_shared = setup.world.has_rank_threads;
  const LoaderOptions own{.rank = is_shared ? 0 : setup.world.plan.mesh.data_rank(setup.world.rendezvous.rank),
                          .world_size = is_shared ? 1 : setup.world.plan.mesh.data,
                          .shuffle = *options.shuffle};
  setup.data = open_training_data(options, needed_shards(own), log);
  const auto& manifest = setup.data.train->manifest();
  setup.pipeline.emplace(setup.data.augment, manifest.statistics);
  // The model was trained on the training split's statistics.
  setup.eval_pipeline.emplace(setup.data.eval_augment, manifest.statistics);
  const Extent extent = rendered_extent(*setup.data.train, *setup.pipeline);
  setup.loss = make_loss(options.loss.text(), {.data = &manifest});
  check_target(setup, options);
  const LossTarget& target = setup.loss->target();
  setup.shape = {extent.channels, extent.height, extent.width,
                 target.is_class() ? static_cast<int64_t>(manifest.class_names.size()) : target.outputs};
  setup.options = std::move(options);
  choose_samples(setup);
  check_data(setup);
  check_sizes(setup);
  setup.info = info_of(setup);

  start_intra_op_threads(setup.world.is_spawner || is_shared ? 1 : setup.options.threads);
  const bool holds_part = setup.world.plan.holds_part();
  setup.is_outline = setup.world.is_spawner || holds_part;
  setup.model = setup.is_outline ? make_outline(setup) : make_model(setup);
  check_layers(setup.options, *setup.model);
  if (auto note = left_in_f32(setup.options, *setup.model); !note.empty()) setup.data.notes.push_back(std::move(note));
  auto vectors = checked_no_matrices(setup.options, *setup.model);
  if (!setup.options.pretrained.empty() && !setup.world.is_spawner && setup.world.rendezvous.world_size > 1)
    setup.pretrained = identity_of_weights(setup.options.pretrained);
  add_note_of_pretrained(setup);
  begin_from_images(setup, holds_part);
  setup.rate_factors = rate_factors(*setup.model, *setup.options.layer_rates);
  decay_by_layer(*setup.model, setup.options.layer_decay, setup.rate_factors);
  scale_biases(*setup.model, setup.options.bias_rate, setup.rate_factors);
  auto weight_decays = bias_decays(*setup.model, setup.options.bias_decay);
  leave_out_of_decay(*setup.model, *setup.options.no_decay, weight_decays);
  setup.step_options = {.weight_decays = std::move(weight_decays),
                        .loss = make_loss(setup.options.loss.text(),
                                          {.label_smoothing = setup.options.label_smoothing, .data = &manifest}),
                        .keeps_average = !setup.options.average->name.empty(),
                        .clip = *setup.options.clip,
                        .skips_overflows = setup.options.precision->adapts(),
                        .no_matrices = std::move(vectors)};
  setup.world.plan = detail::fitted(setup.world.plan, detail::facts_of(*setup.model));
  if (setup.checkpoint) {
    check_same_model(setup.options.resume, setup.checkpoint->info, setup.options.arch.text(), setup.shape);
    check_same_optimizer(setup.options.resume, setup.checkpoint->info, setup.info);
    check_same_average(setup.options.resume, *setup.checkpoint, setup.info);
    if (!setup.options.only_evaluates) {
      check_same_data(setup.options.resume, setup.checkpoint->info, setup.info);
      check_same_order(setup.options.resume, setup.checkpoint->info, setup.info);
    }
    setup.info.position = setup.checkpoint->info.position;
    add_notes_of_checkpoint(setup);
    if (!setup.options.only_evaluates) {
      const Partition partition(setup.rows_per_epoch, setup.options.batch_size, 0, setup.world.plan.mesh.data,
                                *setup.options.tail);
      auto note = note_of_rate(setup.options, setup.info.position, static_cast<int64_t>(partition.batch_count()));
      if (!note.empty()) setup.data.notes.push_back(std::move(note));
    }
  }
  return setup;
}

}  // namespace penstock
