// pipeline and mp: the stages of the model spread over ranks. A batch goes through them in micro-batches, so that
// several ranks work at once (Huang et al. 2019, "GPipe"); mp sends it through whole, so that one works at a time.
#include "core/number_text.h"
#include "core/text.h"
#include "train/nn/model.h"
#include "train/nn/module_names.h"
#include "train/parallel/engine/engine.h"
#include "train/parallel/exact/tree_sync.h"
#include "train/parallel/modes/devices.h"
#include "train/parallel/modes/mode_keys.h"
#include "train/parallel/modes/sharding_config.h"
#include "train/parallel/pipeline/block_costs.h"
#include "train/parallel/pipeline/timeline.h"
#include "train/parallel/sync/bucket_sync.h"

namespace penstock {
namespace {

using detail::at_least_one, detail::flag;
using detail::Balance, detail::MeasuredParts, detail::SchedulePlan, detail::ShardedKinds, detail::BlockRange;

std::vector<std::string> cuts_of(const Spec& spec) {
  const std::string text = spec.get("cut", "");
  return text.empty() ? std::vector<std::string>() : split(text, ':');
}

std::string schedule_name(const Spec& spec) { return spec.name() == "mp" ? "gpipe" : spec.get("schedule", "1f1b"); }

/// "schedule=interleaved": those that give a rank several parts of the model.
std::string chunked_schedules() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : ScheduleRegistry::entries())
    if (entry.traits.chunks > 1) names.push_back("schedule=" + name);
  return join(names, " or ");
}

/// Parts per rank.
int interleave_of(const Spec& spec) {
  const int chunks = detail::schedule_traits(schedule_name(spec)).chunks;
  if (chunks == 1) {
    if (spec.name() != "mp" && spec.has("interleave"))
      throw config_error(concat(flag(spec), ": interleave with schedule ", schedule_name(spec), "; expected it with ",
                                chunked_schedules(), " alone"));
    return 1;
  }
  const int interleave = at_least_one(spec, "interleave", chunks);
  if (interleave == 1)
    throw config_error(concat(flag(spec), ": interleave is 1; expected 2 or more, or schedule=1f1b"));
  return interleave;
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

/// 0: as many as the parts that cuts make.
int rank_count(const Spec& spec, const MeshRequest& request, int data) {
  if (request.ranks > 0) return request.ranks;
  if (spec.has("devices")) return static_cast<int>(devices_of_ranks(spec, request).size());
  return cuts_of(spec).empty() ? std::max(request.default_ranks / data, 2) * data : 0;
}

Mesh grid_of(const Spec& spec, const MeshRequest& request) {
  const int data = spec.name() == "mp" ? 1 : at_least_one(spec, "data", 1);
  const auto parts = static_cast<int>(cuts_of(spec).size()) + 1;
  const int ranks = rank_count(spec, request, data);
  if (ranks % data != 0)
    throw config_error(concat(flag(spec), ": data is ", data, " with ", count_text(ranks, "rank"),
                              "; expected ranks = data x stages, as ", data, " x ", ranks / data + 1, " = ",
                              data * (ranks / data + 1)));
  const int interleave = interleave_of(spec);
  const Mesh mesh =
      parts > 1 ? grid_of_cuts(spec, ranks, data, parts, interleave) : Mesh{.data = data, .pipe = ranks / data};
  if (interleave > 1 && mesh.pipe == 1)
    throw config_error(concat(flag(spec), ": schedule=", schedule_name(spec), " with ", count_text(mesh.size(), "rank"),
                              " for ", count_text(data, "copy", "copies"),
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

/// Throws config_error for keys that do not fit the mesh.
SchedulePlan plan_of(const Spec& spec, const Mesh& mesh) {
  SchedulePlan plan{.name = schedule_name(spec), .ranks = mesh.pipe, .interleave = interleave_of(spec)};
  const int step = plan.interleave > 1 ? plan.ranks : 1;
  if (mesh.shards > 0) {
    plan.takes_turns = spec.name() == "mp";
    plan.micro_batches = detail::micro_batches_of_shards(spec, plan.takes_turns ? nullptr : "micro-batches",
                                                         mesh.shards, mesh.data, "copies");
  }
  if (spec.name() == "mp") return plan;
  if (mesh.shards == 0)
    plan.micro_batches = at_least_one(spec, "micro-batches", mesh.pipe == 1 ? 1 : (3 + step) / step * step);
  plan.recompute = detail::recompute_named(spec.get("recompute", "never"));
  if (plan.micro_batches % step != 0)
    throw config_error(concat(flag(spec), ": ", count_text(plan.micro_batches, "micro-batch", "micro-batches"),
                              " with schedule=", plan.name, " over ", plan.ranks,
                              " ranks; expected a multiple of these, as ",
                              std::max(1, plan.micro_batches / step) * step));
  return plan;
}

Balance balance_of(const Spec& spec) {
  if (spec.has("balance") && spec.has("cut"))
    throw config_error(concat(flag(spec), ": balance is ", spec.get("balance", ""), " with cut ", spec.get("cut", ""),
                              "; expected one of the two"));
  return detail::balance_named(flag(spec), spec.get("balance", "parameters"));
}

/// Throws config_error if a step would have more messages than there are tags; see StageLink::activation_tag().
void check_messages(const Spec& spec, const SchedulePlan& plan) {
  constexpr int64_t kMost = kTagLimit / 4;
  const int64_t parts = int64_t{plan.ranks} * plan.interleave;
  if (parts * plan.micro_batches > kMost)
    throw config_error(concat(flag(spec), ": ", plan.micro_batches, " micro-batches through ", parts,
                              " stages; expected ", kMost / parts, " micro-batches or fewer"));
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
  const SchedulePlan plan = plan_of(spec, mesh);
  check_messages(spec, plan);
  detail::check_divides(spec, count_text(plan.micro_batches, "micro-batch", "micro-batches"), "copies of the model",
                        {.batch_size = request.batch_size,
                         .copies = mesh.data,
                         .count = plan.micro_batches,
                         .step = plan.interleave > 1 ? plan.ranks : 1});
  return mesh;
}

std::vector<BlockRange> ranges_of(const Spec& spec, const Model& model, const Mesh& mesh) {
  const auto cuts = cuts_of(spec);
  if (!cuts.empty()) return detail::cut_at(model, flag(spec), cuts);
  const auto blocks = model.blocks().size();
  const auto parts = static_cast<size_t>(mesh.pipe) * static_cast<size_t>(interleave_of(spec));
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
  for (int part = 0; part < plan.ranks * plan.interleave; ++part)
    alive.push_back((detail::most_alive(schedules[static_cast<size_t>(part % plan.ranks)]) + plan.interleave - 1) /
                    plan.interleave);
  return detail::measured_parts(context, balance,
                                {.alive = alive,
                                 .micro_batches = int64_t{mesh.data} * plan.micro_batches,
                                 .sharded = sharded,
                                 .copies = mesh.data});
}

/// "stage 0: conv1..conv2 (2,572 parameters, 12 ms), ...".
std::string parts_text(const Model& model, const MeasuredParts& all, const SchedulePlan& plan) {
  const auto parameters = detail::part_parameters(model);
  std::vector<std::string> parts;
  for (size_t part = 0; part < all.ranges.size(); ++part) {
    const auto range = all.ranges[part];
    parts.push_back(concat("stage ", part, plan.interleave > 1 ? concat(" at rank ", part % plan.ranks) : "", ": ",
                           blocks_text(model, range.first, range.end), " (",
                           grouped(static_cast<uint64_t>(parameters(part, range))), " parameters",
                           all.costs.empty() ? "" : ", " + all.costs[part], ")"));
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
  detail::StepConfig config{.mesh = mesh, .micro_batches = plan.micro_batches};
  if (mesh.data > 1) config.sync = detail::make_bucket_sync;
  if (mesh.shards > 0) config.sync = detail::make_tree_sync;
  if (zero == 1) detail::shard_optimizer_state(config);
  if (zero == 2) detail::shard_gradients(config);
  const MeasuredParts parts = parts_of(spec, context, mesh, plan, config.sharded);
  config.ranges = parts.ranges;
  const auto schedules = detail::schedules_of(plan);
  config.schedule = schedules[static_cast<size_t>(mesh.pipe_rank(context.comm.rank()))];
  config.bubble = detail::simulate(schedules).bubble();
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

bool holds_part(const Spec&, const Mesh& mesh) { return mesh.pipe > 1; }

const Registered<StrategyKind> kPipeline{
    "pipeline",
    {"micro-batches", "schedule", "interleave", "recompute", "cut", "balance", "data", "zero", "devices"},
    "the model's blocks are spread over ranks, and micro-batches (default 4) go through them by schedule (default "
    "1f1b; or gpipe, zero-bubble, or interleaved with interleave=2 model chunks per rank); cut=layer2:layer4 says "
    "where stages begin, otherwise they are cut so that their parameters are balanced, or with balance=time or memory "
    "what is measured on some micro-batches; recompute=except-last or always (default never) keeps less of a forward "
    "and runs "
    "it again; data (default 1) copies of it train together, of which with zero=1 each keeps the optimiser's state of "
    "a slice alone, with zero=2 also the gradients; devices=0:2 are the GPUs of a machine's ranks, in their order "
    "(default: rank i takes GPU i), devices=cpu:3 are three ranks on the CPU",
    make_pipeline,
    {.mesh = pipeline_mesh,
     .check_model = ranges_of,
     .draw = drawing_of,
     .holds_part = holds_part,
     .promise = pipeline_promise,
     .examples = {"pipeline(micro-batches=1)", "pipeline(schedule=gpipe)", "pipeline(schedule=interleaved)",
                  "pipeline(schedule=zero-bubble)", "pipeline(recompute=always)", "pipeline(data=2,micro-batches=3)",
                  "pipeline(data=2,zero=1)", "pipeline(data=2,schedule=zero-bubble,zero=2)"},
     .exact = StrategyKind::Exact::kAlways,
     .keeps_average = true}};

const Registered<StrategyKind> kModelParallel{
    "mp",
    {"cut", "balance", "devices"},
    "the model's blocks are spread over ranks, one of which works at a time; cut=layer2 says where a stage begins, "
    "otherwise they are balanced as in pipeline; devices as there",
    make_pipeline,
    {.mesh = pipeline_mesh,
     .check_model = ranges_of,
     .draw = drawing_of,
     .holds_part = holds_part,
     .promise = pipeline_promise,
     .exact = StrategyKind::Exact::kAlways,
     .keeps_average = true}};

}  // namespace
}  // namespace penstock
