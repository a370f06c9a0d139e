// Where a model is cut: by name, or so that its parts weigh about the same.
#include "train/parallel/strategy/stage_cuts.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"

namespace penstock::detail {

std::vector<BlockRange> cut_at(const std::vector<std::string>& blocks, const std::string& where,
                               const std::vector<std::string>& cuts) {
  const std::vector<std::string> names(blocks.begin() + 1, blocks.end());
  std::vector<BlockRange> ranges{{0, blocks.size()}};
  for (const auto& cut : cuts) {
    const auto found = std::find_if(blocks.begin() + 1, blocks.end(), [&](const std::string& block) {
      return block == cut || block.starts_with(cut + ".");
    });
    if (found == blocks.end()) throw config_error(concat(where, ": ", unknown_name("place to cut", cut, names)));
    const auto begin = static_cast<size_t>(found - blocks.begin());
    if (begin == ranges.back().first)
      throw config_error(concat(where, ": cut ", cut, " is given twice; expected it once"));
    if (begin < ranges.back().first)
      throw config_error(concat(where, ": cut ", cut, " comes after ", blocks[ranges.back().first],
                                "; expected cuts in the order of the model: ", join(names)));
    ranges.back().end = begin;
    ranges.push_back({begin, blocks.size()});
  }
  return ranges;
}

std::vector<BlockRange> balanced(size_t block_count, size_t part_count, const PartCost& cost) {
  // best[p][n]: the costliest part when the first n blocks make p parts; begin[p][n]: where the last of them begins.
  const auto infinity = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(part_count + 1, std::vector<double>(block_count + 1, infinity));
  std::vector<std::vector<size_t>> begin(part_count + 1, std::vector<size_t>(block_count + 1, 0));
  best[0][0] = 0;
  for (size_t part = 0; part < part_count; ++part)
    for (size_t end = part + 1; end <= block_count; ++end)
      for (size_t first = part; first < end; ++first) {
        const double costliest = std::max(best[part][first], cost(part, {first, end}));
        if (costliest >= best[part + 1][end]) continue;
        best[part + 1][end] = costliest;
        begin[part + 1][end] = first;
      }
  std::vector<BlockRange> ranges(part_count);
  size_t end = block_count;
  for (size_t parts = part_count; parts > 0; --parts) {
    ranges[parts - 1] = {begin[parts][end], end};
    end = begin[parts][end];
  }
  return ranges;
}

PartCost part_parameters(const ModelFacts& model) {
  std::vector<double> counts(model.blocks.size(), 0);
  for (const auto& parameter : model.parameters) counts[parameter.block] += static_cast<double>(parameter.count());
  return part_sum(counts);
}

PartCost part_sum(const std::vector<double>& values) {
  return [values](size_t, BlockRange blocks) {
    return std::accumulate(values.begin() + static_cast<std::ptrdiff_t>(blocks.first),
                           values.begin() + static_cast<std::ptrdiff_t>(blocks.end), 0.0);
  };
}

StepPlan fitted(StepPlan plan, const ModelFacts& model) {
  const std::string where = concat("--mode ", plan.mode);
  const auto parts = static_cast<size_t>(plan.stage_count());
  if (plan.has_stages() && plan.cuts.empty() && parts > model.blocks.size())
    throw config_error(concat(where, ": ", count_text(parts, "stage"), " of a model of ",
                              count_text(model.blocks.size(), "block"), "; expected one block or more for each"));
  if (plan.has_stages())
    plan.stages = plan.cuts.empty() ? balanced(model.blocks.size(), parts, part_parameters(model))
                                    : cut_at(model.blocks, where, plan.cuts);
  if (model.foreign_norms.empty()) return plan;
  const auto refuse = [&](const char* key, const char* piece) {
    throw config_error(concat(where, ": ", key, " is true, but ", model.foreign_norms.front(),
                              " is a BatchNorm of LibTorch, which sees one ", piece,
                              " alone; expected penstock::BatchNorm2d (train/nn/batch_norm.h)"));
  };
  if (plan.defers_batch_norm) refuse("deferred-bn", "micro-batch");
  if (plan.syncs_batch_norm) refuse("sync-bn", "rank");
  return plan;
}

}  // namespace penstock::detail
