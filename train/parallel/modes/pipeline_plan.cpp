// Pipeline plan: names, files and numbers of micro-batches.
#include "train/parallel/modes/pipeline_plan.h"

#include <algorithm>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "train/comm/comm.h"
#include "train/parallel/modes/mode_keys.h"
#include "train/parallel/pipeline/rank_schedules.h"

namespace penstock::detail {
namespace {

std::string schedule_name(const Spec& spec) { return spec.name() == "mp" ? "gpipe" : spec.get("schedule", "1f1b"); }

/// "schedule=interleaved": those that take any number of parts per rank.
std::string chunked_schedules() {
  std::vector<std::string> names;
  for (const auto& [name, entry] : ScheduleRegistry::entries())
    if (entry.traits.chunks > 1 && !entry.traits.is_v) names.push_back("schedule=" + name);
  return join(names, " or ");
}

PipelineShape shape_of_file(const Spec& spec, const std::string& path) {
  if (spec.has("interleave"))
    throw config_error(concat(flag(spec), ": interleave with schedule ", path, "; expected it with ",
                              chunked_schedules(), " alone, as the file says what each rank holds"));
  const auto placement = read_schedule_file(path).placement;
  PipelineShape shape{.ranks = placement.rank_count(), .parts = placement.part_count()};
  for (int rank = 0; rank < shape.ranks; ++rank)
    shape.interleave = std::max(shape.interleave, static_cast<int>(placement.parts_of(rank).size()));
  return shape;
}

/// What the number of micro-batches must be a multiple of.
int step_of(const ScheduleTraits& traits, int interleave, int ranks) {
  return interleave > 1 && !traits.is_v ? ranks : 1;
}

void check_file(const Spec& spec, const Mesh& mesh, const SchedulePlan& plan) {
  const auto file = read_schedule_file(plan.name);
  const std::string beside =
      concat(flag(spec), ": schedule ", plan.name, " has ", count_text(file.ranks.size(), "rank"), " and ",
             count_text(file.micro_batches, "micro-batch", "micro-batches"));
  if (mesh.pipe != file.placement.rank_count())
    throw config_error(
        concat(beside, ", with ", count_text(mesh.size(), "rank"), "; expected ", file.ranks.size() * mesh.data));
  if (plan.micro_batches != file.micro_batches)
    throw config_error(
        mesh.shards > 0
            ? concat(beside, ", with --exact ", mesh.shards, "; expected --exact ", file.micro_batches * mesh.data)
            : concat(beside, ", and micro-batches is ", plan.micro_batches, "; expected no micro-batches"));
}

}  // namespace

PipelineShape shape_of(const Spec& spec) {
  const std::string name = schedule_name(spec);
  if (is_schedule_file(name)) return shape_of_file(spec, name);
  const auto& traits = schedule_traits(name);
  if (traits.chunks == 1) {
    if (spec.name() != "mp" && spec.has("interleave"))
      throw config_error(concat(flag(spec), ": interleave with schedule ", name, "; expected it with ",
                                chunked_schedules(), " alone"));
    return {};
  }
  const int interleave = at_least_one(spec, "interleave", traits.chunks);
  if (traits.is_v && interleave != traits.chunks)
    throw config_error(concat(flag(spec), ": interleave is ", interleave, " with schedule ", name, "; expected ",
                              traits.chunks, ", or no interleave"));
  if (interleave == 1)
    throw config_error(concat(flag(spec), ": interleave is 1; expected 2 or more, or schedule=1f1b"));
  return {.interleave = interleave};
}

SchedulePlan plan_of(const Spec& spec, const Mesh& mesh) {
  const bool is_file = is_schedule_file(schedule_name(spec));
  SchedulePlan plan{.name = schedule_name(spec), .ranks = mesh.pipe, .interleave = shape_of(spec).interleave};
  const ScheduleTraits traits = is_file ? ScheduleTraits() : schedule_traits(plan.name);
  const int step = step_of(traits, is_file ? 1 : plan.interleave, plan.ranks),
            least = traits.least_per_rank * plan.ranks;
  if (mesh.shards > 0) {
    plan.takes_turns = spec.name() == "mp";
    plan.micro_batches =
        micro_batches_of_shards(spec, plan.takes_turns ? nullptr : "micro-batches", mesh.shards, mesh.data, "copies");
  }
  if (spec.name() == "mp") return plan;
  const int usual = is_file ? read_schedule_file(plan.name).micro_batches
                            : std::max(mesh.pipe == 1 ? 1 : (3 + step) / step * step, least);
  if (mesh.shards == 0) plan.micro_batches = at_least_one(spec, "micro-batches", usual);
  plan.recompute = recompute_named(spec.get("recompute", "never"));
  if (is_file) check_file(spec, mesh, plan);
  if (plan.micro_batches % step != 0 || plan.micro_batches < least)
    throw config_error(concat(
        flag(spec), ": ", count_text(plan.micro_batches, "micro-batch", "micro-batches"), " with schedule=", plan.name,
        " over ", plan.ranks, " ranks; expected ",
        least > 0 ? concat(least, " or more")
                  : concat("a multiple of ", step, ", such as ", std::max(1, plan.micro_batches / step) * step)));
  return plan;
}

int micro_batch_step(const Spec& spec, int ranks) {
  const std::string name = schedule_name(spec);
  if (is_schedule_file(name)) return 0;
  const auto& traits = schedule_traits(name);
  return std::max(step_of(traits, shape_of(spec).interleave, ranks), traits.least_per_rank * ranks);
}

void check_messages(const Spec& spec, const SchedulePlan& plan) {
  constexpr int64_t kMost = kTagLimit / 4;
  const int64_t parts = is_schedule_file(plan.name) ? shape_of(spec).parts : int64_t{plan.ranks} * plan.interleave;
  if (parts * plan.micro_batches > kMost)
    throw config_error(concat(flag(spec), ": ", plan.micro_batches, " micro-batches through ", parts,
                              " stages; expected ", kMost / parts, " micro-batches or fewer"));
}

}  // namespace penstock::detail
