// ModelFacts: what a plan may know of a model without its weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

class Model;

namespace detail {

struct ParameterFacts {
  size_t block = 0;
  int64_t bytes = 0;
  bool is_trained = true;
  std::vector<int64_t> sizes = {};

  int64_t count() const;  ///< Numbers.
};

struct ModelFacts {
  std::vector<std::string> blocks = {};         ///< Their names.
  std::vector<ParameterFacts> parameters = {};  ///< In the order of the model.
  std::vector<int> batch_norms = {};            ///< One entry per block: its BatchNorm layers; empty: there is none.
  /// BatchNorm layers of LibTorch, which move their running statistics themselves and see no other rank.
  std::vector<std::string> foreign_norms = {};
};

ModelFacts facts_of(const Model& model);

}  // namespace detail
}  // namespace penstock
