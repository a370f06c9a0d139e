// muon: steps whose matrices have singular values near 1, for the weights of hidden layers.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "train/optimizers/optimizer.h"

namespace penstock {
namespace {

/// The coefficients of Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks". They make the
/// slope at 0 as large as possible: after 5 steps singular values lie between about 0.7 and 1.2.
const std::vector<double> kJordan{3.4445, -4.7750, 2.0315};

struct MuonOptions {
  double momentum, sgd_momentum;
  int steps;
  std::vector<double> coefficients;  // three
  bool is_nesterov, is_for_filters_alone, normalizes;
};

/// U V^T of X = U S V^T, roughly: `steps` times X = a X + b (X X^T) X + c (X X^T)^2 X, from X / |X|. Deviation: it is
/// computed in the dtype of the parameters, in the source in bfloat16.
torch::Tensor orthogonalised(const torch::Tensor& matrix, const MuonOptions& options) {
  constexpr double kEps = 1e-7;
  const double a = options.coefficients[0], b = options.coefficients[1], c = options.coefficients[2];
  const bool is_tall = matrix.size(0) > matrix.size(1);
  auto x = is_tall ? matrix.t() : matrix;
  x = x / (matrix.norm() + kEps);
  for (int step = 0; step < options.steps; ++step) {
    const auto square = x.mm(x.t());
    x = at::addmm(x, at::addmm(square, square, square, /*beta=*/b, /*alpha=*/c), x, /*beta=*/a);
  }
  return is_tall ? x.t() : x;
}

/// The weight of a convolution or a linear layer before the head, as a matrix with a row per output, changes by
///
///     v  = momentum * v + g
///     u  = g + momentum * v                                                        (without nesterov: v)
///     p *= 1 - learning_rate * weight_decay                                        (normalize: sqrt(rows) / |p|)
///     p -= learning_rate * sqrt(max(1, rows / columns)) * orthogonalised(u)        (normalize: without the root)
///
/// normalize=true is as in the source's program for CIFAR-10, airbench94_muon. All others (the head, class tokens,
/// positions, layer_scale, biases and norms), and with layers=conv those of two dimensions, change as with --optimizer
/// sgd, of the momentum `sgd-momentum`.
class Muon final : public Optimizer {
 public:
  Muon(const MuonOptions& options, const OptimizerContext& context) : Optimizer(context, {"momentum"}), own_(options) {}

 private:
  void update() override {
    for (const auto& group : groups()) {
      std::vector<torch::Tensor> others, velocities;
      for (size_t i = 0; i < group.parameters.size(); ++i) {
        const auto& parameter = group.parameters[i];
        const auto& velocity = group.slots[0][i];
        if (!group.are_vectors && is_matrix(parameter)) {
          change(parameter, velocity, learning_rate(group), group.weight_decay);
        } else {
          others.push_back(parameter);
          velocities.push_back(velocity);
        }
      }
      if (others.empty()) continue;
      at::_fused_sgd_(others, gradients_of(others), velocities, group.weight_decay, own_.sgd_momentum,
                      learning_rate(group), /*dampening=*/0, own_.is_nesterov, /*maximize=*/false,
                      /*is_first_step=*/false);
    }
  }

  bool is_matrix(const torch::Tensor& parameter) const {
    return parameter.dim() >= (own_.is_for_filters_alone ? 3 : 2);
  }

  void change(const torch::Tensor& parameter, const torch::Tensor& velocity, double rate, double weight_decay) const {
    const auto& gradient = parameter.grad();
    velocity.mul_(own_.momentum).add_(gradient);
    const auto direction = own_.is_nesterov ? gradient.add(velocity, own_.momentum) : velocity;
    const auto matrix = direction.flatten(1);
    const auto step = orthogonalised(matrix, own_).reshape_as(parameter);
    const auto rows = static_cast<double>(matrix.size(0)), columns = static_cast<double>(matrix.size(1));
    if (own_.normalizes) {
      parameter.mul_(std::sqrt(rows) / parameter.norm());
      parameter.sub_(step, rate);
    } else {
      parameter.mul_(1 - rate * weight_decay);
      parameter.sub_(step, rate * std::sqrt(std::max(1.0, rows / columns)));
    }
  }

  MuonOptions own_;
};

MuonOptions read_options(const Spec& spec) {
  const std::string layers = spec.get("layers", "all");
  const MuonOptions options{.momentum = spec.get("momentum", 0.95),
                            .sgd_momentum = spec.get("sgd-momentum", 0.9),
                            .steps = spec.get("steps", 5),
                            .coefficients = spec.get("coefficients", kJordan),
                            .is_nesterov = spec.get("nesterov", true),
                            .is_for_filters_alone = layers == "conv",
                            .normalizes = spec.get("normalize", false)};
  const auto refuse = [](const char* key, const auto& value, const char* expected) {
    throw config_error(concat("--optimizer muon: ", key, " is ", value, "; expected ", expected));
  };
  for (const auto& [key, value] : {std::pair{"momentum", options.momentum}, {"sgd-momentum", options.sgd_momentum}})
    if (!(value > 0 && value < 1)) refuse(key, value, "more than 0 and less than 1");
  if (options.steps < 1 || options.steps > 100) refuse("steps", options.steps, "1 to 100");
  if (options.coefficients.size() != 3)
    refuse("coefficients", spec.get("coefficients", ""), "three numbers, as 3.4445:-4.775:2.0315");
  if (layers != "all" && layers != "conv") refuse("layers", in_quotes(layers), "all or conv");
  return options;
}

const Registered<OptimizerKind> kMuon{
    "muon",
    {"momentum", "sgd-momentum", "steps", "coefficients", "nesterov", "layers", "normalize"},
    "weights of convolutions and linear layers before the head change by orthogonal matrices, the other parameters by "
    "sgd (Jordan et al. 2024): "
    "momentum=0.95, sgd-momentum=0.9, steps=5 of Newton and Schulz, nesterov=true; layers=all, or conv for filters "
    "alone; normalize=false: the norm of a filter is held; "
    "coefficients=3.4445:-4.775:2.0315 of Newton and Schulz",
    [](const Spec& spec, const OptimizerContext& context) {
      return std::make_unique<Muon>(read_options(spec), context);
    },
    {.learning_rate = 0.02, .steps_in_parts = true, .needs_whole_tensors = true}};

}  // namespace
}  // namespace penstock
