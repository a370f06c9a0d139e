// Recipes: their flags.
#include "train/recipes.h"

#include <map>

#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

/// airbench94_muon of Jordan 2024 (arXiv:2404.00498): 94.01 % in the mean of 200 runs there, in the canonical CIFAR-10.
/// Its rates are 0.24 for filters, 0.053 for biases and 0.67 for the head, and its weight decay 2e-6 x 2000, divided by
/// the rate; docs/RECIPES.md has the sources and the deviations.
const std::map<std::string, std::vector<std::string>>& all_recipes() {
  static const std::map<std::string, std::vector<std::string>> recipes{
      {"cifar10-94",
       {"--arch",
        "airbench",
        "--epochs",
        "8",
        "--batch-size",
        "2000",
        "--tail",
        "drop",
        "--augment",
        "alternating-flip,crop(pad=2,fill=121)",
        "--label-smoothing",
        "0.2",
        "--optimizer",
        "muon(momentum=0.6,sgd-momentum=0.85,steps=3,layers=conv,normalize=true)",
        "--lr",
        "0.24",
        "--schedule",
        "triangular(peak=0,end=0)",
        "--layer-lr",
        "head=2.7916667",
        "--weight-decay",
        "0.0059701",
        "--bias-lr",
        "0.2208333",
        "--bias-decay",
        "0.0754717",
        "--tta",
        "flip-translate",
        "--eval-at-end"}}};
  return recipes;
}

}  // namespace

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const auto& [name, flags] : all_recipes()) names.push_back(name);
  return names;
}

std::vector<std::string> recipe_flags(const std::string& name) {
  if (name.empty()) return {};
  const auto found = all_recipes().find(name);
  if (found == all_recipes().end())
    throw config_error(concat("--recipe: ", unknown_name("recipe", name, recipe_names())));
  return found->second;
}

std::string recipe_text(const std::string& name) {
  std::vector<std::string> words;
  for (const auto& word : recipe_flags(name))
    words.push_back(word.find('(') == std::string::npos ? word : concat("'", word, "'"));
  return join(words, " ");
}

}  // namespace penstock
