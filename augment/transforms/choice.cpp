// choice: runs one of several lists of transforms, as torchvision's RandomChoice (0.26).
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "augment/transform.h"
#include "augment/transforms/arguments.h"
#include "augment/transforms/nested_list.h"

namespace penstock {
namespace {

class Choice final : public Transform {
 public:
  /// `bounds` are the sums of the probabilities up to each list, the last of which is 1.
  Choice(std::vector<detail::NestedList> lists, std::vector<double> bounds)
      : lists_(std::move(lists)), bounds_(std::move(bounds)) {}

  Effect effect() const override {
    const bool moves = std::any_of(lists_.begin(), lists_.end(), [](const auto& list) { return list.moves(); });
    return moves ? Effect::kGeometry : Effect::kColor;
  }
  int color_steps() const override {
    int most = 0;
    for (const auto& list : lists_) most = std::max(most, list.color_steps());
    return most;
  }
  void edit(Plan& plan, Rng& rng) const override {
    const auto found = std::upper_bound(bounds_.begin(), bounds_.end() - 1, rng.uniform());
    lists_[static_cast<size_t>(found - bounds_.begin())].edit(plan, rng);
  }

 private:
  std::vector<detail::NestedList> lists_;
  std::vector<double> bounds_;
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics& statistics) {
  const auto texts = split_outside_braces(spec.get("of", ""), '|');
  if (texts.size() < 2)
    throw config_error(concat(spec.where(), ": chooses of ", spec.has("of") ? 1 : 0,
                              " lists; expected of={NAME(...),...}|{...} with 2 or more"));
  std::vector<detail::NestedList> lists;
  for (const auto& text : texts) lists.emplace_back(spec, text, statistics);
  auto weights = spec.get("p", std::vector<double>(texts.size(), 1));
  if (std::isinf(std::accumulate(weights.begin(), weights.end(), 0.0)))  // great weights of which each is finite
    for (double& weight : weights) weight /= std::numeric_limits<double>::max();
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const bool are_weights = std::all_of(weights.begin(), weights.end(), [](double weight) { return weight >= 0; });
  if (weights.size() != texts.size() || !are_weights || !(sum > 0))
    throw config_error(concat(spec.where(), ": p is ", in_quotes(spec.get("p", "")), "; expected ", texts.size(),
                              " weights of 0 or more, one for each list, and one of them more than 0"));
  std::partial_sum(weights.begin(), weights.end(), weights.begin());
  for (double& bound : weights) bound /= sum;
  return std::make_unique<Choice>(std::move(lists), std::move(weights));
}

const Registered<TransformKind> kRegistered{
    "choice",
    {"of", "p"},
    "run one of the lists of={NAME(...),...}|{...}, {} being none, of transforms of geometry and colour that keep the "
    "size; p=a:b:... are their weights (alike)",
    make,
    {.test_spec = "choice(of={rotate(degrees=20)}|{solarize(p=1)}|{})"}};

}  // namespace
}  // namespace penstock
