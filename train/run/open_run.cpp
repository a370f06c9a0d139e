// set_up(): resolves options, opens data and checkpoint, makes the model, and checks that they fit together.
#include "train/run/open_run.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/limits.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/files/files.h"
#include "loader/order/partition.h"
#include "loader/rows/sample_order.h"
#include "train/checkpoint/kept_checkpoints.h"
#include "train/checkpoint/rate_note.h"
#include "train/checkpoint/resume_auto.h"
#include "train/feed/split_check.h"
#include "train/loop/tta.h"
#include "train/losses/loss.h"
#include "train/nn/initial_weights.h"
#include "train/nn/model.h"
#include "train/nn/module_names.h"
#include "train/nn/parameter_groups.h"
#include "train/nn/pretrained.h"
#include "train/options/check.h"
#include "train/options/options_file.h"
#include "train/parallel/strategy/stage_cuts.h"
#include "train/parallel/strategy/strategy.h"
#include "train/rendezvous/address.h"
#include "train/run/agreement.h"
#include "train/run/first_images.h"
#include "train/run/run_folder.h"
#include "train/run/run_precision.h"
#include "train/tensor/out_of_memory.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

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

void check_data(const Setup& setup) {
  const auto& options = setup.options;
  const int world_size = setup.world.plan.mesh.data;
  if (options.only_evaluates && !setup.data.test)
    throw config_error(concat("--evaluate with --data ", options.data, ": ", setup.data.no_test, "; expected a ",
                              options.evaluated_split, " split"));
  if (options.only_evaluates && setup.data.test->size() == 0)
    throw config_error(concat("--evaluate with --data ", options.data, ": 0 ", options.evaluated_split,
                              " samples; expected 1 or more"));
  if (options.schedule->plateau() != nullptr && !options.only_evaluates &&
      (!setup.data.test || setup.data.test->size() == 0))
    throw config_error(concat("--schedule is ", options.schedule, " with --data ", options.data, ": ",
                              setup.data.test ? "0 test samples" : setup.data.no_test,
                              "; expected a test split, whose evaluation it follows"));
  if (setup.data.test) check_splits_fit(setup.data, options.loss.text(), setup.loss->target());
  if (setup.data.test && setup.data.test->size() > 0) {
    const Extent train = rendered_extent(*setup.data.train, *setup.pipeline);
    const Extent test = rendered_extent(*setup.data.test, *setup.eval_pipeline);
    if (train != test) {
      throw config_error(concat("--eval-augment: gives ", test.channels, " x ", test.height, " x ", test.width,
                                ", --augment gives ", train.channels, " x ", train.height, " x ", train.width,
                                "; expected the same"));
    }
    if (*options.test_views == TestViews::kFlipTranslate && std::min(test.height, test.width) < 2)
      throw config_error(concat("--tta flip-translate: pictures are ", test.width, " x ", test.height,
                                "; expected at least 2 x 2, because their borders are mirrored"));
  }
  if (*options.shuffle == Shuffle::kRankLocal && setup.data.train->shard_count() < world_size) {
    throw config_error(concat("--shuffle rank-local: ", setup.data.train->shard_count(), " shards for ", world_size,
                              " ranks; expected at least one shard per rank"));
  }
  if (options.only_evaluates) return;
  const Partition partition(setup.rows_per_epoch, options.batch_size, 0, world_size, *options.tail);
  if (partition.batch_count() == 0) {
    throw config_error(concat("--batch-size is ", options.batch_size, " with --tail drop and ", setup.rows_per_epoch,
                              " samples; expected a batch size of at most the number of samples"));
  }
  const int64_t step_count = partition.batch_count() * options.epochs;
  const int every = options.average->every;
  if (options.epochs > 0 && every > step_count)
    throw config_error(concat("--average ", options.average, ": every is ", every, " in a run of ",
                              count_text(step_count, "step"),
                              ", which would end with the weights that it began with; "
                              "expected at most ",
                              step_count));
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

/// What muon changes as vectors. Throws config_error where it would change no matrix and be sgd under another name.
std::set<std::string> checked_no_matrices(const TrainOptions& options, const Model& model) {
  const Spec& spec = *options.optimizer;
  if (spec.name() != "muon") return {};
  const bool is_for_filters_alone = spec.get("layers", "all") == "conv";
  auto vectors = no_matrices(model);
  const auto parameters = model.named_parameters();
  if (std::none_of(parameters.begin(), parameters.end(), [&](const auto& item) {
        return item.value().dim() >= (is_for_filters_alone ? 3 : 2) && !vectors.contains(item.key());
      }))
    throw config_error(concat("--optimizer ", options.optimizer, " with --arch ", options.arch, ": the model has no ",
                              is_for_filters_alone ? "filters" : "weight matrix before its head",
                              ", so all of it would change as with sgd; expected ",
                              is_for_filters_alone ? "layers=all, or " : "", "--optimizer sgd"));
  return vectors;
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

/// Whether some weights follow from pictures of training. None do where all come from a file.
bool begins_from_images(const Setup& setup) {
  return setup.model->initial_image_count() > 0 && !setup.checkpoint && setup.options.pretrained.empty();
}

/// Throws config_error where ranks would begin from different pictures and no rank has all weights to share.
void check_begins_alike(const Setup& setup, bool holds_part) {
  const auto& mesh = setup.world.plan.mesh;
  if (holds_part && mesh.pipe == 1 && mesh.data > 1 && *setup.options.shuffle == Shuffle::kRankLocal &&
      !setup.world.has_rank_threads)
    throw config_error(concat("--shuffle rank-local with --mode ", setup.options.mode, ": --arch ", setup.options.arch,
                              " begins from pictures, of which each rank would see others; expected --shuffle global"));
}

/// Throws config_error where the data, or how their batches are made, do not give what the loss compares outputs with.
void check_target(const Setup& setup, const TrainOptions& options) {
  const LossTarget& target = setup.loss->target();
  const Manifest& manifest = setup.data.train->manifest();
  if (target.is_class() && manifest.class_names.empty())
    throw config_error(concat("--loss ", options.loss, " with --data ", options.data, ", whose samples have no class; ",
                              "expected a loss of a field, such as --loss 'mse(target=",
                              manifest.fields.empty() ? "FIELD" : manifest.fields.front().name, ")'"));
  if (target.is_class()) return;
  if (setup.pipeline->batch_mix().kind != BatchMix::Kind::kNone)
    throw config_error(concat("--loss ", options.loss, " with --augment ", options.augment,
                              ", which mixes classes and no fields; expected no mixup and no cutmix"));
  if (options.is_resident)
    throw config_error(
        concat("--loss ", options.loss, " with --resident, whose batches have no fields; expected one of the two"));
}

/// The sizes of a model's weights, by name; made without memory for them.
std::map<std::string, std::vector<int64_t>> weight_sizes(const std::string& arch, const ModelShape& shape) {
  std::map<std::string, std::vector<int64_t>> sizes;
  WeightStream stream(
      [&](const std::string& name, const torch::Tensor& tensor) { sizes[name] = tensor.sizes().vec(); });
  stream.finish(*make_model_of(arch, shape));
  return sizes;
}

/// Throws config_error where some epochs would have pictures that the model, or the mode, does not take.
void check_sizes(const Setup& setup) {
  const auto& options = setup.options;
  if (options.size_schedule->is_empty() || options.only_evaluates) return;
  if (setup.world.plan.mesh.pipe > 1)
    throw config_error(concat("--size-schedule is ", options.size_schedule, " with --mode ", options.mode,
                              ", whose ranks send each other activations of one size; expected a mode whose ranks ",
                              "have the whole model"));
  const std::string& arch = options.arch.text();
  const auto sizes = weight_sizes(arch, setup.shape);
  for (const auto& [epoch, size] : options.size_schedule->stages()) {
    const Extent extent = rendered_extent(*setup.data.train, with_size(*setup.pipeline, size));
    if (weight_sizes(arch, {extent.channels, extent.height, extent.width, setup.shape.classes}) != sizes)
      throw config_error(concat("--size-schedule is ", options.size_schedule, " with --arch ", arch,
                                ", whose weights for pictures of ", extent.width, " x ", extent.height,
                                " are others than for ", setup.shape.width, " x ", setup.shape.height,
                                "; expected a model that takes any size, such as resnet18"));
  }
}

/// Reads the pictures once; the models of other ranks and replicas take the weights as well. A process that starts
/// ranks has no rank's work to do: it checks alone, so that a refusal is one line and not one per rank.
void begin_from_images(Setup& setup, bool holds_part) {
  if (!begins_from_images(setup)) return;
  check_begins_alike(setup, holds_part);
  if (setup.world.is_spawner) return;
  FirstImages images(setup, setup.model->initial_image_count());
  setup.initial_weights = setup.model->initial_weights([&images] { return images.next(); });
  if (!setup.is_outline) take_weights(*setup.model, setup.initial_weights);
}

}  // namespace

// Longer than others: each step needs what the one before it has found out, of options, ranks, checkpoint, data and
// model.
Setup set_up(TrainOptions options, const std::function<void(const std::string&)>& log) {
  check(options, ModelRegistry::names(), StrategyRegistry::names(), OptimizerRegistry::names());
  check_spec<ModelRegistry>(*options.arch);
  check_spec<StrategyRegistry>(*options.mode);
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
