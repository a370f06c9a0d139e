// limit_parallel: sums over the steps of all ranks.
#include "train/limit_parallel.h"

#include <algorithm>

namespace penstock {

double bubble_share(const std::vector<StepTimes>& ranks) {
  double longest_wait = 0, bubble = 0, time = 0;
  for (const auto& rank : ranks) longest_wait = std::max(longest_wait, rank[Phase::kWait]);
  for (const auto& rank : ranks) {
    const double echo = std::min(longest_wait - rank[Phase::kWait], rank[Phase::kBubble]);
    bubble += rank[Phase::kBubble] - echo;
    time += rank.total() - rank[Phase::kWait] - echo;
  }
  return time > 0 ? bubble / time : 0;
}

}  // namespace penstock
