// A plug-in with the model `faulty`, which fails on rank 1.
#include <torch/nn/modules/linear.h>

#include <cstdlib>
#include <new>

#include "train/nn/model.h"
#include "train/plugin.h"

PENSTOCK_TRAIN_PLUGIN();

namespace {

using penstock::Model, penstock::ModelShape, penstock::Spec;

class Faulty final : public Model {
 public:
  Faulty(const ModelShape& shape, const std::string& fault) {
    torch::nn::Linear fc = register_module("fc", torch::nn::Linear(shape.channels, shape.classes));
    const char* const rank = std::getenv("RANK");
    const bool fails = rank != nullptr && std::string(rank) == "1";
    add_block("head", {"fc"}, [fc, fails, fault](const torch::Tensor& x) mutable {
      if (fails && fault == "memory") throw std::bad_alloc();
      return fc(x.mean({2, 3}).narrow(1, 0, fails ? 0 : x.size(1)));  // no columns: LibTorch refuses the product
    });
  }
};

const penstock::Registered<penstock::ModelKind> kFaulty{
    "faulty", {"fault"}, "fails on rank 1: fault=memory or shape", [](const Spec& spec, const ModelShape& shape) {
      return std::make_unique<Faulty>(shape, spec.get("fault", "memory"));
    }};

}  // namespace
