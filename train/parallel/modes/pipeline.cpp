// pipeline and mp: the stages of the model spread over ranks. A batch goes through them in micro-batches, so that
// several ranks work at once (Huang et al. 2019, "GPipe"); mp sends it through whole, so that one works at a time.
#include <algorithm>
#include <cstdio>

#include "core/number_text.h"
#include "core/text.h"
#include "loader/shards/shard.h"
#include "train/nn/model.h"
#include "train/nn/module_names.h"
#include "train/parallel/engine/engine.h"
#include "train/parallel/exact/tree_sync.h"
#include "train/parallel/modes/devices.h"
#include "train/parallel/modes/mode_keys.h"
#include "train/parallel/modes/pipeline_plan.h"
#include "train/parallel/modes/sharding_config.h"
#include "train/parallel/pipeline/block_costs.h"
#include "train/parallel/pipeline/timeline.h"
#include "train/parallel/sync/bucket_sync.h"

namespace penstock {
namespace {

using detail::at_least_one, detail::flag, detail::plan_of, detail::PipelineShape, detail::Placement;
using detail::Balance, detail::MeasuredParts, detail::SchedulePlan, detail::ShardedKinds, detail::BlockRange;

std::vector<std::string> cuts_of(const Spec& spec) {
  const std::string text = spec.get("cut", "");
  return text.empty() ? std::vector<std::string>() : split(text, ':');
}

/// For `parts` that cuts make.
Mesh grid_of_cuts(const Spec& spec, int ranks, int data, int parts, int interleave) {
  const bool is_whole = parts % interleave == 0;
  if (is_whole && (ranks == 0 || parts / interleave * data == ranks)) return {.data = data, .pipe = parts / interleave};
  std::string expected = concat(parts * data, " ranks, ",
                                data > 1 ? concat(parts, " stages for each of ", data, " copies of the model")
                                         : std::string("one for each stage"));
  if (interleave > 1)
    expected = ranks == 0 ? concat("a number of stages that ", interleave, " divides")
                          : concat(ranks / data * interleave - 1, " cuts, for ", interleave, " model chunks per rank");
  throw config_error(concat(flag(spec), ": ", count_text(parts - 1, "cut"),
                            ranks == 0 ? "" : concat(" with ", count_text(ranks, "rank")),
                            interleave > 1 ? concat(" and interleave ", interleave) : "", "; expected ", expected));
}

/// For a schedule that says which rank has which parts.
Mesh grid_of_file(const Spec& spec, int ranks, int data, int parts, const PipelineShape& shape) {
  if (parts > 1 && parts != shape.parts)
    throw config_error(concat(flag(spec), ": ", count_text(parts - 1, "cut"), " with schedule ",
                              spec.get("schedule", ""), ", which has ", count_text(shape.parts, "stage"), "; expected ",
                              count_text(shape.parts - 1, "cut")));
  if (ranks > 0 && ranks != shape.ranks * data)
    throw config_error(concat(flag(spec), ": schedule ", spec.get("schedule", ""), " has ",
                              count_text(shape.ranks, "row"), ", one per rank",
                              data > 1 ? concat(" of each of ", data, " copies of the model") : "", ", with ",
                              count_text(ranks, "rank"), "; expected ", shape.ranks * data));
  return {.data = data, .pipe = shape.ranks};
}

/// One per rank of a machine; empty: the ranks choose by their local rank.
std::vector<torch::Device> devices_of_ranks(const Spec& spec, const MeshRequest& request) {
  if (!spec.has("devices")) return {};
  auto devices = detail::devices_of(spec, "ranks", request.gpus);
  if (request.local_ranks > 0 && static_cast<size_t>(request.local_ranks) != devices.size())
    throw config_error(concat(flag(spec), ": devices is ", spec.get("devices", ""), " with ",
                              count_text(request.local_ranks, "rank"), " on this machine; expected ",
                              count_text(devices.size(), "rank"), ", one for each device"));
  return devices;
}

/// 0: as many as the parts that cuts make, or as a file says.
int rank_count(const Spec& spec, const MeshRequest& request, int data, const PipelineShape& shape) {
  if (request.ranks > 0) return request.ranks;
  if (spec.has("devices")) return static_cast<int>(devices_of_ranks(spec, request).size());
  return cuts_of(spec).empty() && shape.ranks == 0 ? std::max(request.default_ranks / data, 2) * data : 0;
}

Mesh grid_of(const Spec& spec, const MeshRequest& request) {
  const int data = spec.name() == "mp" ? 1 : at_least_one(spec, "data", 1);
  const auto parts = static_cast<int>(cuts_of(spec).size()) + 1;
  const PipelineShape shape = detail::shape_of(spec);
  const int ranks = rank_count(spec, request, data, shape), interleave = shape.interleave;
  if (ranks % data != 0)
    throw config_error(concat(flag(spec), ": data is ", data, " with ", count_text(ranks, "rank"),
                              "; expected ranks = data x stages, as ", data, " x ", ranks / data + 1, " = ",
                              data * (ranks / data + 1)));
  if (shape.ranks > 0) return grid_of_file(spec, ranks, data, parts, shape);
  const Mesh mesh =
      parts > 1 ? grid_of_cuts(spec, ranks, data, parts, interleave) : Mesh{.data = data, .pipe = ranks / data};
  if (interleave > 1 && mesh.pipe == 1)
    throw config_error(concat(flag(spec), ": schedule=", spec.get("schedule", ""), " with ",
                              count_text(mesh.size(), "rank"), " for ", count_text(data, "copy", "copies"),
                              " of the model; expected 2 ranks or more per copy"));
  return mesh;
}

/// What of a part its copies keep in slices, as stages of ZeRO: 0, 1 or 2.
int zero_of(const Spec& spec, const Mesh& mesh) {
  if (spec.name() == "mp") return 0;
  const int zero = spec.get("zero", 0);
  if (zero < 0 || zero > 2)
    throw config_error(concat(flag(spec), ": zero is ", zero, "; expected 0, 1 or 2",
                              zero == 3 ? ": every micro-batch would gather the parameters again" : ""));
  if (zero > 0 && mesh.data == 1)
    throw config_error(concat(flag(spec), ": zero is ", zero,
                              " with one copy of the model; expected data=2 or more, of which each keeps a slice"));
  return zero;
}

Balance balance_of(const Spec& spec) {
  if (spec.has("balance") && spec.has("cut"))
    throw config_error(concat(flag(spec), ": balance is ", spec.get("balance", ""), " with cut ", spec.get("cut", ""),
                              "; expected one of the two"));
  return detail::balance_named(flag(spec), spec.get("balance", "parameters"));
}

/// One micro-batch is the batch.
bool defers_batch_norm(const Spec& spec, int shards) {
  return spec.name() != "mp" && detail::defers_batch_norm(spec, shards);
}

Mesh pipeline_mesh(const Spec& spec, const MeshRequest& request) {
  balance_of(spec);  // throws
  Mesh mesh = grid_of(spec, request);
  mesh.shards = request.shards;
  mesh.gpus = detail::gpu_indices(devices_of_ranks(spec, request));
  if (zero_of(spec, mesh) > 0) detail::check_takes_slices(spec, request.optimizer, request.clip);
  if (zero_of(spec, mesh) > 0 && request.shards > 0 && !request.optimizer.empty() &&
      !OptimizerRegistry::entry(parse_spec("optimizer", request.optimizer).name()).traits.takes_pieces)
    throw config_error(concat(flag(spec), ": zero with --exact ", request.shards, " and --optimizer ",
                              request.optimizer, ", which gives pieces of parameters other bits; expected no zero, or ",
                              "another optimizer"));
  defers_batch_norm(spec, request.shards);  // throws
  const SchedulePlan plan = plan_of(spec, mesh);
  detail::check_messages(spec, plan);
  detail::check_divides(spec, count_text(plan.micro_batches, "micro-batch", "micro-batches"), "copies of the model",
                        {.batch_size = request.batch_size,
                         .copies = mesh.data,
                         .count = plan.micro_batches,
                         .step = std::max(detail::micro_batch_step(spec, mesh.pipe), 1)});
  return mesh;
}

std::vector<BlockRange> ranges_of(const Spec& spec, const Model& model, const Mesh& mesh) {
  const auto cuts = cuts_of(spec);
  if (!cuts.empty()) return detail::cut_at(model, flag(spec), cuts);
  const auto blocks = model.blocks().size();
  const PipelineShape shape = detail::shape_of(spec);
  const auto parts = static_cast<size_t>(shape.parts > 0 ? shape.parts : mesh.pipe * shape.interleave);
  if (parts > blocks)
    throw config_error(concat(flag(spec), ": ", count_text(parts, "stage"), " of a model of ",
                              count_text(blocks, "block"), "; expected one block or more for each"));
  return detail::balanced(blocks, parts, detail::part_parameters(model));
}

MeasuredParts parts_of(const Spec& spec, const StrategyContext& context, const Mesh& mesh, const SchedulePlan& plan,
                       const ShardedKinds& sharded) {
  const Balance balance = balance_of(spec);
  if (balance == Balance::kParameters || mesh.pipe == 1) return {ranges_of(spec, context.model, mesh), {}};
  std::vector<int> alive;  // of each part: its share of what is alive at its rank
  const auto schedules = detail::schedules_of(plan);
  const Placement placement = detail::placement_of(plan);
  for (int part = 0; part < placement.part_count(); ++part) {
    const int rank = placement.rank_of(part), chunks = static_cast<int>(placement.parts_of(rank).size());
    alive.push_back((detail::most_alive(schedules[static_cast<size_t>(rank)]) + chunks - 1) / chunks);
  }
  return detail::measured_parts(context, balance,
                                {.alive = alive,
                                 .micro_batches = int64_t{mesh.data} * plan.micro_batches,
                                 .sharded = sharded,
                                 .copies = mesh.data});
}

/// "stage 0: conv1..conv2 (2,572 parameters, 12 ms), ...".
std::string parts_text(const Model& model, const MeasuredParts& all, const SchedulePlan& plan) {
  const auto parameters = detail::part_parameters(model);
  const Placement placement = detail::placement_of(plan);
  std::vector<std::string> parts;
  for (size_t part = 0; part < all.ranges.size(); ++part) {
    const auto range = all.ranges[part];
    parts.push_back(concat(
        "stage ", part, plan.interleave > 1 ? concat(" at rank ", placement.rank_of(static_cast<int>(part))) : "", ": ",
        blocks_text(model, range.first, range.end), " (", grouped(static_cast<uint64_t>(parameters(part, range))),
        " parameters", all.costs.empty() ? "" : ", " + all.costs[part], ")"));
  }
  return join(parts);
}

/// "as 2 data x 2 pipe, 1f1b, 4 micro-batches, bubble 20 %; stage 0: conv1..conv2 (2,572 parameters), ...".
std::string text_of(const Spec& spec, const Mesh& mesh, const SchedulePlan& plan, double bubble, const Model& model,
                    const MeasuredParts& parts) {
  const std::string recompute = spec.name() == "mp" ? "never" : spec.get("recompute", "never");
  const int zero = zero_of(spec, mesh);
  return concat("as ", mesh.data, " data x ", mesh.pipe, " pipe, ", plan.takes_turns ? "in turn" : plan.name, ", ",
                count_text(plan.micro_batches, "micro-batch", "micro-batches"),
                recompute == "never" ? "" : ", recompute " + recompute, zero == 0 ? "" : concat(", zero ", zero),
                ", bubble ", percent_text(bubble), "; ", parts_text(model, parts, plan));
}

EquivalenceGuarantee pipeline_promise(const Spec& spec, const Mesh& mesh) {
  return {.sees_whole_batches = mesh.data == 1 && plan_of(spec, mesh).micro_batches == 1};
}

std::unique_ptr<Strategy> make_pipeline(const Spec& spec, const StrategyContext& context) {
  const Mesh mesh = pipeline_mesh(spec, {.ranks = context.comm.world_size(), .shards = context.shards});
  const SchedulePlan plan = plan_of(spec, mesh);
  const int zero = zero_of(spec, mesh);
  detail::StepConfig config{.mesh = mesh,
                            .placement = detail::placement_of(plan),
                            .micro_batches = plan.micro_batches,
                            .micro_batch_step = detail::micro_batch_step(spec, mesh.pipe),
                            .keeps_gradients = detail::is_schedule_file(plan.name),
                            .defers_batch_norm = defers_batch_norm(spec, mesh.shards)};
  if (mesh.data > 1) config.sync = detail::make_bucket_sync;
  if (mesh.shards > 0) config.sync = detail::make_tree_sync;
  if (zero == 1) detail::shard_optimizer_state(config);
  if (zero == 2) detail::shard_gradients(config);
  const MeasuredParts parts = parts_of(spec, context, mesh, plan, config.sharded);
  config.ranges = parts.ranges;
  const auto schedules = detail::schedules_of(plan);
  config.schedule = schedules[static_cast<size_t>(mesh.pipe_rank(context.comm.rank()))];
  config.bubble = detail::simulate(schedules, config.placement).bubble();
  config.text = text_of(spec, mesh, plan, config.bubble, context.model, parts);
  return std::make_unique<detail::Engine>(context, config);
}

std::string drawing_of(const Spec& spec, const Mesh& mesh) {
  const SchedulePlan plan = plan_of(spec, mesh);
  return concat(plan.name, " of ", count_text(plan.micro_batches, "micro-batch", "micro-batches"), " over ",
                count_text(mesh.pipe, "rank"),
                mesh.data > 1 ? concat(", the same in each of ", mesh.data, " copies of the model") : "", "\n",
                detail::drawing_of(plan));
}

std::string csv_of_schedules(const Spec& spec, const Mesh& mesh) {
  const SchedulePlan plan = plan_of(spec, mesh);
  return detail::csv_of({detail::placement_of(plan), detail::schedules_of(plan), plan.micro_batches});
}

/// A file may have another name at each rank; what counts is what it says.
std::string identity_of_mode(const Spec& spec) {
  const std::string name = spec.get("schedule", "");
  if (!detail::is_schedule_file(name)) return "";
  const std::string csv = detail::csv_of(detail::read_schedule_file(name));
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", crc32c({reinterpret_cast<const uint8_t*>(csv.data()), csv.size()}));
  return concat(spec.without("schedule").text(), " with a schedule of checksum ", digits);
}

void check_model(const Spec& spec, const Model& model, const Mesh& mesh) {
  ranges_of(spec, model, mesh);  // throws
  if (spec.name() != "mp") detail::check_deferred(spec, model);
}

int micro_batches_of(const Spec& spec, const Mesh& mesh) { return plan_of(spec, mesh).micro_batches; }

bool holds_part(const Spec&, const Mesh& mesh) { return mesh.pipe > 1; }

const Registered<StrategyKind> kPipeline{
    "pipeline",
    {"micro-batches", "schedule", "interleave", "recompute", "cut", "balance", "data", "zero", "deferred-bn",
     "devices"},
    "the model's blocks are spread over ranks, and micro-batches (default 4) go through them by schedule (default "
    "1f1b; or gpipe, zero-bubble, zb-v, dualpipe-v, interleaved with interleave=2 model chunks per rank, or FILE.csv "
    "in PyTorch's format); cut=layer2:layer4 says "
    "where stages begin, otherwise they are cut so that their parameters are balanced, or with balance=time or memory "
    "what is measured on some micro-batches; recompute=except-last or always (default never) keeps less of a forward "
    "and runs "
    "it again; data (default 1) copies of it train together, of which with zero=1 each keeps the optimiser's state of "
    "a slice alone, with zero=2 also the gradients; with deferred-bn=true BatchNorm's running statistics are those of "
    "the whole batch, once per step; devices=0:2 are the GPUs of a machine's ranks, in their order "
    "(default: rank i takes GPU i), devices=cpu:3 are three ranks on the CPU",
    make_pipeline,
    {.mesh = pipeline_mesh,
     .check_model = check_model,
     .draw = drawing_of,
     .csv = csv_of_schedules,
     .identity = identity_of_mode,
     .holds_part = holds_part,
     .promise = pipeline_promise,
     .examples = {"pipeline(micro-batches=1)", "pipeline(schedule=gpipe)", "pipeline(schedule=interleaved)",
                  "pipeline(schedule=zero-bubble)", "pipeline(schedule=zb-v)", "pipeline(schedule=dualpipe-v)",
                  "pipeline(recompute=always)", "pipeline(data=2,micro-batches=3)", "pipeline(data=2,zero=1)",
                  "pipeline(data=2,schedule=zero-bubble,zero=2)"},
     .exact = StrategyKind::Exact::kAlways,
     .keeps_average = true,
     .micro_batches = micro_batches_of}};

const Registered<StrategyKind> kModelParallel{
    "mp",
    {"cut", "balance", "devices"},
    "the model's blocks are spread over ranks, one of which works at a time; cut=layer2 says where a stage begins, "
    "otherwise they are balanced as in pipeline; devices as there",
    make_pipeline,
    {.mesh = pipeline_mesh,
     .check_model = check_model,
     .draw = drawing_of,
     .csv = csv_of_schedules,
     .holds_part = holds_part,
     .promise = pipeline_promise,
     .exact = StrategyKind::Exact::kAlways,
     .keeps_average = true,
     .micro_batches = micro_batches_of}};

}  // namespace
}  // namespace penstock
