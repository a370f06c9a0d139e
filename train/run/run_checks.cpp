// Checks of a run, each of which says what to do in place of what was asked for.
#include "train/run/run_checks.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/order/partition.h"
#include "train/feed/training_data.h"
#include "train/losses/loss.h"
#include "train/losses/target.h"
#include "train/nn/initial_weights.h"
#include "train/nn/model.h"
#include "train/nn/module_names.h"
#include "train/nn/parameter_groups.h"
#include "train/parallel/strategy/single_rows.h"

namespace penstock {
namespace {

/// How many numbers the loss wants of each sample of this split.
int64_t outputs_in(const Dataset& test, const std::string& loss) {
  try {
    return make_loss(loss, {.data = &test.manifest()})->target().outputs;
  } catch (const Error& error) {
    throw Error(error.kind(), concat(test.folder().string(), ": ", error.what()));
  }
}

/// Throws config_error, which names both folders, if the splits, which may be of two data sets, have different classes,
/// fields or channels, and if the one that is evaluated has not what the loss compares outputs with. Requires that
/// there is such a split.
void check_splits_fit(const Setup& setup) {
  const Dataset& train = *setup.data.train;
  const Dataset& test = *setup.data.test;
  const auto problem = class_problem(test.folder(), test.manifest(), train.folder(), train.manifest());
  if (!problem.empty()) throw config_error(problem);
  if (test.size() == 0) return;
  const auto as_in_train = concat(", as in ", train.folder().string());
  const int channels = setup.eval_pipeline->channels(test.manifest().channels),
            expected = setup.pipeline->channels(train.manifest().channels);
  if (channels != expected)
    throw config_error(concat(test.folder().string(), ": pictures have ",
                              count_text(static_cast<uint64_t>(channels), "channel"), "; expected ", expected,
                              as_in_train,
                              channels == 1 || expected == 1 ? ": with rgb first in --augment, grey ones have 3" : ""));
  const LossTarget& target = setup.loss->target();
  if (target.is_class()) return;
  const int64_t outputs = outputs_in(test, setup.options.loss.text());
  if (outputs != target.outputs)
    throw config_error(concat(test.folder().string(), ": field ", in_quotes(target.field), " has ", outputs,
                              " numbers per sample; expected ", target.outputs, as_in_train));
}

/// The sizes of a model's weights, by name; made without memory for them.
std::map<std::string, std::vector<int64_t>> weight_sizes(const std::string& arch, const ModelShape& shape) {
  std::map<std::string, std::vector<int64_t>> sizes;
  WeightStream stream(
      [&](const std::string& name, const torch::Tensor& tensor) { sizes[name] = tensor.sizes().vec(); });
  stream.finish(*make_model_of(arch, shape));
  return sizes;
}

/// The smallest pictures of an epoch.
ModelShape smallest_shape(const Setup& setup) {
  ModelShape least = setup.shape;
  for (const auto& [epoch, size] : setup.options.size_schedule->stages()) {
    const Extent extent = rendered_extent(*setup.data.train, with_size(*setup.pipeline, size));
    if (int64_t{extent.height} * extent.width < least.height * least.width)
      least.height = extent.height, least.width = extent.width;
  }
  return least;
}

}  // namespace

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
  if (setup.data.test) check_splits_fit(setup);
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

std::string problem_of_single_rows(const Setup& setup, const Spec& mode, const StepPlan& plan) {
  const auto& options = setup.options;
  if (options.only_evaluates || !options.emulation.learns() || !has_batch_norm(*setup.model)) return "";
  const auto single = single_rows(plan, {.batch_size = options.batch_size,
                                         .samples = static_cast<int64_t>(setup.rows_per_epoch),
                                         .drops_tail = *options.tail == Tail::kDrop,
                                         .is_by_rank = *options.shuffle == Shuffle::kRankLocal});
  if (single == SingleRows::kNone) return "";
  const ModelShape shape = smallest_shape(setup);
  const std::string layer = norm_without_variance(*setup.model, shape);
  if (layer.empty()) return "";
  const std::string why = concat(layer, " normalises over maps of one place, where one row of ", shape.channels, " x ",
                                 shape.height, " x ", shape.width, " has no variance");
  if (single == SingleRows::kAll)
    throw config_error(concat("--mode ", mode.text(), " with --batch-size ", options.batch_size,
                              ": in every step some row goes through the model alone, and ", why,
                              "; expected two rows or more at a time (a larger batch, or fewer micro-batches, ranks, ",
                              "replicas or shards), or larger pictures"));
  return why;
}

void leave_out_single_rows(Setup& setup) {
  const std::string problem = problem_of_single_rows(setup, *setup.options.mode, setup.world.plan);
  if (problem.empty()) return;
  setup.step_options.leaves_out_single_rows = true;
  setup.data.notes.push_back(
      concat("a row that goes through the model alone, as in a short last batch, is left out of training: ", problem));
}

}  // namespace penstock
