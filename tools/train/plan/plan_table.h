// Plan table: the predictions as lines for people and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/parallel/plan/prediction.h"

namespace penstock {

/// One mode over some ranks.
struct PlanRow {
  std::string mode;
  int ranks = 1;
  int threads = 1, workers = 0;
  std::optional<detail::Prediction> prediction = {};  ///< None: nothing is known of the mode.
  bool fits = true;
};

/// The bytes of the rank that takes most. Requires a prediction.
double fullest_rank_bytes(const detail::Prediction& prediction);

/// Markdown, fastest first.
std::string plan_table(const std::vector<PlanRow>& rows, int64_t batch_size, bool has_limit);
std::string plan_json(const std::vector<PlanRow>& rows, const std::string& setting);

/// "0.123 s"; "12.3 ms" below 0.1 s.
std::string step_text(double seconds);

}  // namespace penstock
