// pipeline and mp: the stages of the model spread over ranks. A batch goes through them in micro-batches, so that
// several ranks work at once (Huang et al. 2019, "GPipe"); mp sends it through whole, so that one works at a time.
#include <algorithm>

#include "core/bytes.h"
#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/shards/shard.h"
#include "train/comm/comm.h"
#include "train/parallel/engine/make_by_plan.h"
#include "train/parallel/modes/devices.h"
#include "train/parallel/modes/mode_keys.h"
#include "train/parallel/pipeline/block_costs.h"
#include "train/parallel/pipeline/rank_schedules.h"
#include "train/parallel/pipeline/schedule_file.h"

namespace penstock::detail {
namespace {

/// What is known of a schedule before ranks are.
struct ScheduleKeys {
  std::string name;                          // of ScheduleRegistry, or the path of a file
  std::optional<PlacedSchedules> file = {};  // what it has
  int interleave = 1;                        // the most parts of a rank
};

std::string schedule_name(const Spec& spec) { return spec.name() == "mp" ? "gpipe" : spec.get("schedule", "1f1b"); }

/// "schedule=interleaved": those that take any number of parts per rank.
std::string chunked_schedules() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : ScheduleRegistry::entries())
    if (entry.traits.chunks > 1 && !entry.traits.is_v) names.push_back("schedule=" + name);
  return join(names, " or ");
}

ScheduleKeys keys_of_file(const Spec& spec, const std::string& path) {
  if (spec.has("interleave"))
    throw config_error(concat(flag(spec), ": interleave with schedule ", path, "; expected it with ",
                              chunked_schedules(), " alone, as the file says what each rank holds"));
  ScheduleKeys keys{.name = path, .file = read_schedule_file(path)};
  const auto& placement = keys.file->placement;
  for (int rank = 0; rank < placement.rank_count(); ++rank)
    keys.interleave = std::max(keys.interleave, static_cast<int>(placement.parts_of(rank).size()));
  return keys;
}

void check_file(const Spec& spec, const PlacedSchedules& file, const StepPlan& plan) {
  const auto& mesh = plan.mesh;
  const std::string beside =
      concat(flag(spec), ": schedule ", plan.schedule.name, " has ", count_text(file.ranks.size(), "rank"), " and ",
             count_text(file.micro_batches, "micro-batch", "micro-batches"));
  if (mesh.pipe != file.placement.rank_count())
    throw config_error(
        concat(beside, ", with ", count_text(mesh.size(), "rank"), "; expected ", file.ranks.size() * mesh.data));
  if (plan.schedule.micro_batches != file.micro_batches)
    throw config_error(mesh.micro_shards > 0 ? concat(beside, ", with --exact ", mesh.micro_shards,
                                                      "; expected --exact ", file.micro_batches * mesh.data)
                                             : concat(beside, ", and micro-batches is ", plan.schedule.micro_batches,
                                                      "; expected no micro-batches"));
}

/// Throws config_error for a schedule that does not exist, and for keys that do not fit it.
ScheduleKeys schedule_keys(const Spec& spec) {
  const std::string name = schedule_name(spec);
  if (is_schedule_file(name)) return keys_of_file(spec, name);
  const auto& traits = schedule_traits(name);
  if (traits.chunks == 1) {
    if (spec.name() != "mp" && spec.has("interleave"))
      throw config_error(concat(flag(spec), ": interleave with schedule ", name, "; expected it with ",
                                chunked_schedules(), " alone"));
    return {.name = name};
  }
  const int interleave = at_least_one(spec, "interleave", traits.chunks);
  if (traits.is_v && interleave != traits.chunks)
    throw config_error(concat(flag(spec), ": interleave is ", interleave, " with schedule ", name, "; expected ",
                              traits.chunks, ", or no interleave"));
  if (interleave == 1)
    throw config_error(concat(flag(spec), ": interleave is 1; expected 2 or more, or schedule=1f1b"));
  return {.name = name, .interleave = interleave};
}

/// The schedule of a plan that has its mesh, and the operations of a file. Throws config_error for keys that do not fit
/// the mesh.
void add_schedule(const Spec& spec, const ScheduleKeys& keys, StepPlan& plan) {
  const Mesh& mesh = plan.mesh;
  SchedulePlan& schedule = plan.schedule;
  schedule = {.name = keys.name, .ranks = mesh.pipe, .interleave = keys.interleave};
  plan.operations = keys.file;
  const bool is_mp = spec.name() == "mp";
  if (mesh.micro_shards > 0) {
    schedule.takes_turns = is_mp;
    schedule.micro_batches =
        micro_batches_of_shards(spec, is_mp ? nullptr : "micro-batches", mesh.micro_shards, mesh.data, "copies");
  }
  if (is_mp) return;
  const ScheduleTraits traits = keys.file ? ScheduleTraits() : schedule_traits(keys.name);
  const int step = !keys.file && keys.interleave > 1 && !traits.is_v ? mesh.pipe : 1;
  const int least = traits.least_per_rank * mesh.pipe;
  const int usual =
      keys.file ? keys.file->micro_batches : std::max(mesh.pipe == 1 ? 1 : (3 + step) / step * step, least);
  if (mesh.micro_shards == 0) schedule.micro_batches = at_least_one(spec, "micro-batches", usual);
  schedule.recompute = recompute_named(spec.get("recompute", "never"));
  if (keys.file) check_file(spec, *keys.file, plan);
  if (schedule.micro_batches % step != 0 || schedule.micro_batches < least)
    throw config_error(concat(
        flag(spec), ": ", count_text(schedule.micro_batches, "micro-batch", "micro-batches"),
        " with schedule=", schedule.name, " over ", schedule.ranks, " ranks; expected ",
        least > 0 ? concat(least, " or more")
                  : concat("a multiple of ", step, ", such as ", std::max(1, schedule.micro_batches / step) * step)));
}

/// Throws config_error if a step would have more messages than there are tags; see StageLink::activation_tag().
void check_messages(const Spec& spec, const StepPlan& plan) {
  constexpr int64_t kMost = kTagLimit / 4;
  const int64_t parts = plan.stage_count(), micro_batches = plan.schedule.micro_batches;
  if (parts * micro_batches > kMost)
    throw config_error(concat(flag(spec), ": ", micro_batches, " micro-batches through ", parts, " stages; expected ",
                              kMost / parts, " micro-batches or fewer"));
}

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
Mesh grid_of_file(const Spec& spec, int ranks, int data, int parts, const Placement& placement) {
  if (parts > 1 && parts != placement.part_count())
    throw config_error(concat(flag(spec), ": ", count_text(parts - 1, "cut"), " with schedule ",
                              spec.get("schedule", ""), ", which has ", count_text(placement.part_count(), "stage"),
                              "; expected ", count_text(placement.part_count() - 1, "cut")));
  if (ranks > 0 && ranks != placement.rank_count() * data)
    throw config_error(concat(flag(spec), ": schedule ", spec.get("schedule", ""), " has ",
                              count_text(placement.rank_count(), "row"), ", one per rank",
                              data > 1 ? concat(" of each of ", data, " copies of the model") : "", ", with ",
                              count_text(ranks, "rank"), "; expected ", placement.rank_count() * data));
  return {.data = data, .pipe = placement.rank_count()};
}

/// One per rank of a machine; empty: the ranks choose by their local rank.
std::vector<int> devices_of_ranks(const Spec& spec, const MeshRequest& request) {
  if (!spec.has("devices")) return {};
  auto devices = devices_of(spec, "ranks", request.gpus);
  if (request.local_ranks > 0 && static_cast<size_t>(request.local_ranks) != devices.size())
    throw config_error(concat(flag(spec), ": devices is ", spec.get("devices", ""), " with ",
                              count_text(request.local_ranks, "rank"), " on this machine; expected ",
                              count_text(devices.size(), "rank"), ", one for each device"));
  return devices;
}

/// 0: as many as the parts that cuts make, or as a file says.
int rank_count(const Spec& spec, const MeshRequest& request, int data, const ScheduleKeys& keys) {
  if (request.ranks > 0) return request.ranks;
  if (spec.has("devices")) return static_cast<int>(devices_of_ranks(spec, request).size());
  return cuts_of(spec).empty() && !keys.file ? std::max(request.default_ranks / data, 2) * data : 0;
}

Mesh grid_of(const Spec& spec, const MeshRequest& request, const ScheduleKeys& keys, int data) {
  const auto parts = static_cast<int>(cuts_of(spec).size()) + 1;
  const int ranks = rank_count(spec, request, data, keys);
  if (ranks % data != 0)
    throw config_error(concat(flag(spec), ": data is ", data, " with ", count_text(ranks, "rank"),
                              "; expected ranks = data x stages, as ", data, " x ", ranks / data + 1, " = ",
                              data * (ranks / data + 1)));
  if (keys.file) return grid_of_file(spec, ranks, data, parts, keys.file->placement);
  const Mesh mesh =
      parts > 1 ? grid_of_cuts(spec, ranks, data, parts, keys.interleave) : Mesh{.data = data, .pipe = ranks / data};
  if (keys.interleave > 1 && mesh.pipe == 1)
    throw config_error(concat(flag(spec), ": schedule=", keys.name, " with ", count_text(mesh.size(), "rank"), " for ",
                              count_text(data, "copy", "copies"), " of the model; expected 2 ranks or more per copy"));
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
  return balance_named(flag(spec), spec.get("balance", "parameters"));
}

/// Throws config_error for an optimiser or a clipping that needs more than slices of parameters.
void check_slices(const Spec& spec, const MeshRequest& request) {
  check_takes_slices(spec, request);
  if (request.micro_shards > 0 && request.optimizer &&
      !OptimizerRegistry::entry(request.optimizer->name()).traits.takes_pieces)
    throw config_error(concat(flag(spec), ": zero with --exact ", request.micro_shards, " and --optimizer ",
                              request.optimizer->text(),
                              ", which gives pieces of parameters other bits; expected no zero, or another optimizer"));
}

StepPlan pipeline_plan(const Spec& spec, const MeshRequest& request) {
  StepPlan plan{.cuts = cuts_of(spec), .balance = balance_of(spec), .is_complete = true};
  const bool is_mp = spec.name() == "mp";
  const int data = is_mp ? 1 : at_least_one(spec, "data", 1);
  const ScheduleKeys keys = schedule_keys(spec);
  plan.mesh = grid_of(spec, request, keys, data);
  plan.mesh.micro_shards = request.micro_shards;
  for (const int gpu : devices_of_ranks(spec, request))
    if (gpu >= 0) plan.mesh.gpus.push_back(gpu);
  plan.sharded = ShardedKinds::of_stage(zero_of(spec, plan.mesh));
  if (plan.sharded.optimizer) check_slices(spec, request);
  plan.defers_batch_norm = !is_mp && defers_batch_norm(spec, request.micro_shards);
  plan.sums_gradients = data > 1;
  add_schedule(spec, keys, plan);
  check_messages(spec, plan);
  check_divides(spec, count_text(plan.schedule.micro_batches, "micro-batch", "micro-batches"), "copies of the model",
                {.batch_size = request.batch_size,
                 .copies = data,
                 .count = plan.schedule.micro_batches,
                 .step = std::max(micro_batch_step(plan), 1)});
  return plan;
}

/// A file may have another name at each rank; what counts is what it says.
std::string identity_of_mode(const Spec& spec) {
  const std::string name = spec.get("schedule", "");
  if (!is_schedule_file(name)) return "";
  const std::string csv = csv_of(read_schedule_file(name));
  const uint32_t sum = crc32c(as_bytes(csv));
  return concat(spec.without("schedule").text(), " with a schedule of checksum ", printed("%08x", sum));
}

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
    make_by_plan,
    {.plan = pipeline_plan,
     .identity = identity_of_mode,
     .examples = {"pipeline(micro-batches=1)", "pipeline(schedule=gpipe)", "pipeline(schedule=interleaved)",
                  "pipeline(schedule=zero-bubble)", "pipeline(schedule=zb-v)", "pipeline(schedule=dualpipe-v)",
                  "pipeline(recompute=always)", "pipeline(data=2,micro-batches=3)", "pipeline(data=2,zero=1)",
                  "pipeline(data=2,schedule=zero-bubble,zero=2)"},
     .exact = StrategyKind::Exact::kAlways,
     .keeps_average = true}};

const Registered<StrategyKind> kModelParallel{
    "mp",
    {"cut", "balance", "devices"},
    "the model's blocks are spread over ranks, one of which works at a time; cut=layer2 says where a stage begins, "
    "otherwise they are balanced as in pipeline; devices as there",
    make_by_plan,
    {.plan = pipeline_plan, .exact = StrategyKind::Exact::kAlways, .keeps_average = true}};

}  // namespace
}  // namespace penstock::detail
