// pipeline and mp: the stages of the model spread over ranks. A batch goes through them in micro-batches, so that
// several ranks work at once (Huang et al. 2019, "GPipe"); mp sends it through whole, so that one works at a time.
#include "core/number_text.h"
#include "core/text.h"
#include "train/models/layers.h"
#include "train/models/model.h"
#include "train/strategies/engine.h"
#include "train/strategies/stage_costs.h"

namespace penstock {
namespace {

using detail::Balance, detail::MeasuredParts, detail::StageRange;

std::vector<std::string> cuts_of(const Spec& spec) {
  const std::string text = spec.get("cut", "");
  return text.empty() ? std::vector<std::string>() : split(text, ':');
}

std::string flag(const Spec& spec) { return concat("--mode ", spec.name()); }

constexpr int kMost = 65'536;  // copies, and micro-batches: products with the parts of a model stay in an int

int at_least_one(const Spec& spec, const char* key, int fallback) {
  const int value = spec.get(key, fallback);
  if (value < 1 || value > kMost)
    throw config_error(concat(flag(spec), ": ", key, " is ", value, "; expected 1 to ", kMost));
  return value;
}

/// The numbers next to `count` that divide `rows`: "4 or 8".
std::string divisors_text(int64_t rows, int64_t count) {
  int64_t below = 1, above = rows;
  for (int64_t small = 1; small * small <= rows; ++small) {
    if (rows % small != 0) continue;
    for (const int64_t divisor : {small, rows / small}) {
      if (divisor <= count) below = std::max(below, divisor);
      if (divisor >= count) above = std::min(above, divisor);
    }
  }
  return above > below ? concat(below, " or ", above) : std::to_string(below);
}

Mesh grid_of(const Spec& spec, const MeshRequest& request) {
  const int data = spec.name() == "mp" ? 1 : at_least_one(spec, "data", 1);
  const auto parts = static_cast<int>(cuts_of(spec).size()) + 1;
  int ranks = request.ranks;
  if (ranks == 0) ranks = parts > 1 ? parts * data : std::max(request.default_ranks, 2 * data);
  if (ranks % data != 0)
    throw config_error(concat(flag(spec), ": data is ", data, " with ", count_text(ranks, "rank"),
                              "; expected a number that divides them"));
  if (parts > 1 && parts * data != ranks)
    throw config_error(concat(flag(spec), ": ", count_text(parts - 1, "cut"), " with ", count_text(ranks, "rank"),
                              "; expected ", parts * data, " ranks, one for each part"));
  return {.data = data, .pipe = ranks / data};
}

int micro_batches_of(const Spec& spec, const Mesh& mesh) {
  if (spec.name() == "mp") return 1;
  return at_least_one(spec, "micro-batches", mesh.pipe == 1 ? 1 : 4);
}

Balance balance_of(const Spec& spec) {
  if (spec.has("balance") && spec.has("cut"))
    throw config_error(concat(flag(spec), ": balance is ", spec.get("balance", ""), " with cut ", spec.get("cut", ""),
                              "; expected one of the two"));
  return detail::balance_named(flag(spec), spec.get("balance", "parameters"));
}

Mesh mesh_for(const Spec& spec, const MeshRequest& request) {
  balance_of(spec);  // throws
  const Mesh mesh = grid_of(spec, request);
  const int micro_batches = micro_batches_of(spec, mesh);
  if (spec.name() != "mp")
    detail::schedule_named(spec.get("schedule", "1f1b"), /*stage=*/0, mesh.pipe, micro_batches);  // throws
  const int64_t rows = request.batch_size / mesh.data;
  if (request.batch_size > 0 && (request.batch_size % mesh.data != 0 || rows % micro_batches != 0))
    throw config_error(concat(flag(spec), ": ", count_text(micro_batches, "micro-batch", "micro-batches"), " for ",
                              "--batch-size ", request.batch_size,
                              mesh.data > 1 ? concat(" over ", mesh.data, " copies of the model") : "",
                              "; expected micro-batches of equal size, as ",
                              request.batch_size % mesh.data == 0 ? divisors_text(rows, micro_batches)
                                                                  : concat("a batch that ", mesh.data, " divides")));
  return mesh;
}

std::vector<StageRange> ranges_of(const Spec& spec, const Model& model, const Mesh& mesh) {
  const auto cuts = cuts_of(spec);
  if (!cuts.empty()) return detail::cut_at(model, flag(spec), cuts);
  const auto stages = model.stages().size();
  if (static_cast<size_t>(mesh.pipe) > stages)
    throw config_error(concat(flag(spec), ": ", count_text(mesh.pipe, "part"), " of a model of ",
                              count_text(stages, "stage"), "; expected one stage or more for each"));
  return detail::balanced(stages, static_cast<size_t>(mesh.pipe), detail::part_parameters(model));
}

MeasuredParts parts_of(const Spec& spec, const StrategyContext& context, const Mesh& mesh, const std::string& schedule,
                       int micro_batches) {
  const Balance balance = balance_of(spec);
  if (balance == Balance::kParameters || mesh.pipe == 1) return {ranges_of(spec, context.model, mesh), {}};
  std::vector<int> alive;
  for (int part = 0; part < mesh.pipe; ++part)
    alive.push_back(detail::most_alive(detail::schedule_named(schedule, part, mesh.pipe, micro_batches)));
  return detail::measured_parts(context, balance, int64_t{mesh.data} * micro_batches, alive);
}

/// Each rank waits for P - 1 of M + P - 1 micro-batch times (Huang et al. 2019, sec. 2.3).
double bubble_of(const Mesh& mesh, int micro_batches) { return (mesh.pipe - 1.0) / (micro_batches + mesh.pipe - 1); }

/// "as 2 data x 2 pipe, 1f1b, 4 micro-batches, bubble 20 %; part 0: conv1..conv2 (2,572 parameters), ...".
std::string text_of(const Model& model, const Mesh& mesh, const std::string& schedule, int micro_batches,
                    const MeasuredParts& all) {
  const auto parameters = detail::part_parameters(model);
  std::vector<std::string> parts;
  for (size_t part = 0; part < all.ranges.size(); ++part) {
    const auto range = all.ranges[part];
    parts.push_back(concat("part ", part, ": ", stages_text(model, range.first, range.end), " (",
                           grouped(static_cast<uint64_t>(parameters(part, range))), " parameters",
                           all.costs.empty() ? "" : ", " + all.costs[part], ")"));
  }
  return concat("as ", mesh.data, " data x ", mesh.pipe, " pipe, ", schedule, ", ",
                count_text(micro_batches, "micro-batch", "micro-batches"), ", bubble ",
                percent_text(bubble_of(mesh, micro_batches)), "; ", join(parts));
}

std::unique_ptr<Strategy> make_pipeline(const Spec& spec, const StrategyContext& context) {
  const int ranks = context.comm.world_size();
  const Mesh mesh = mesh_for(spec, {.ranks = ranks});
  const std::string schedule = spec.name() == "mp" ? "gpipe" : spec.get("schedule", "1f1b");
  const int micro_batches = micro_batches_of(spec, mesh);
  const MeasuredParts parts = parts_of(spec, context, mesh, schedule, micro_batches);
  detail::Choices choices{.mesh = mesh, .ranges = parts.ranges, .micro_batches = micro_batches};
  choices.schedule =
      detail::schedule_named(schedule, mesh.pipe_rank(context.comm.rank()), mesh.pipe, choices.micro_batches);
  choices.text = text_of(context.model, mesh, schedule, micro_batches, parts);
  choices.bubble = bubble_of(mesh, micro_batches);
  if (mesh.data > 1) choices.sync = detail::make_bucket_sync;
  return std::make_unique<detail::Engine>(context, choices);
}

const Registered<StrategyKind> kPipeline{
    "pipeline",
    {"micro-batches", "schedule", "cut", "balance", "data"},
    "the model's stages are spread over ranks, and micro-batches (default 4) go through them by schedule (default "
    "1f1b; or gpipe); cut=layer2:layer4 says where parts begin, otherwise they are cut so that their parameters are "
    "balanced, or with balance=time or memory what is measured on three micro-batches; data (default 1) copies of it "
    "train together",
    make_pipeline,
    {.mesh = mesh_for, .check_model = ranges_of}};

const Registered<StrategyKind> kModelParallel{
    "mp",
    {"cut", "balance"},
    "the model's stages are spread over ranks, one of which works at a time; cut=layer2 says where a part begins, "
    "otherwise they are balanced as in pipeline",
    make_pipeline,
    {.mesh = mesh_for, .check_model = ranges_of}};

}  // namespace
}  // namespace penstock
