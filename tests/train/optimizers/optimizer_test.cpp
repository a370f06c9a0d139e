// Optimisers: equal to those of LibTorch and to their formulas; and the contract of every registered one.
#include <gmock/gmock.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <thread>

#include "core/error.h"
#include "core/text.h"
#include "tests/support/testing.h"
#include "tests/train/plain_optimizer.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using Tensors = std::vector<torch::Tensor>;

Tensors random_parameters() {
  at::manual_seed(1);
  return {torch::randn({7, 3}, torch::kFloat64), torch::zeros({5}, torch::kFloat64),
          torch::randn({4, 3, 2, 2}, torch::kFloat64)};
}

void set_random_gradients(const Tensors& parameters) {
  for (const auto& parameter : parameters) parameter.mutable_grad() = torch::randn_like(parameter);
}

Tensors gradients_of(const Tensors& parameters) {
  Tensors gradients;
  for (const auto& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

/// `rtol` 0: to the bit.
void expect_equal(const Tensors& mine, const Tensors& theirs, double rtol, const std::string& what) {
  for (size_t i = 0; i < mine.size(); ++i)
    EXPECT_TRUE(mine[i].allclose(theirs[i], rtol, /*atol=*/rtol * 1e-2)) << what << ", tensor " << i;
}

/// Six steps of an optimiser beside LibTorch's, with another learning rate from the fourth on.
template <class Reference, class Options>
void expect_steps_of(OptimizerOptions options, Options reference_options) {
  const std::string what =
      concat(options.spec, ", momentum ", options.momentum, ", weight decay ", options.weight_decay);
  options.learning_rate = 0.1;
  reference_options.lr(0.1);
  auto mine = random_parameters(), theirs = random_parameters();
  const auto optimizer = make_optimizer({mine, options});
  Reference reference(theirs, reference_options);
  for (int step = 1; step <= 6; ++step) {
    if (step == 4) {
      optimizer->set_learning_rate(0.01);
      static_cast<Options&>(reference.param_groups()[0].options()).lr(0.01);
    }
    set_random_gradients(mine);
    for (size_t i = 0; i < mine.size(); ++i) theirs[i].mutable_grad() = mine[i].grad().clone();
    optimizer->step();
    reference.step();
    expect_equal(mine, theirs, 1e-12, concat(what, ", step ", step));
  }
}

TEST(OptimizerTest, SgdIsThatOfTorch) {
  using torch::optim::SGD, torch::optim::SGDOptions;
  for (const double weight_decay : {0.0, 1e-2}) {
    for (const double momentum : {0.0, 0.9})
      expect_steps_of<SGD>({.momentum = momentum, .weight_decay = weight_decay},
                           SGDOptions(0).momentum(momentum).weight_decay(weight_decay));
    expect_steps_of<SGD>({.weight_decay = weight_decay, .spec = "sgd(nesterov=true)"},
                         SGDOptions(0).momentum(0.9).nesterov(true).weight_decay(weight_decay));
  }
}

TEST(OptimizerTest, AdamAndAdamwAreThoseOfTorch) {
  using torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamW, torch::optim::AdamWOptions;
  const std::string keys = "(beta1=0.8,beta2=0.95,eps=0.001)";
  for (const double decay : {0.0, 1e-2}) {
    expect_steps_of<Adam>({.weight_decay = decay, .spec = "adam"}, AdamOptions().weight_decay(decay));
    expect_steps_of<AdamW>({.weight_decay = decay, .spec = "adamw"}, AdamWOptions().weight_decay(decay));
    expect_steps_of<Adam>({.weight_decay = decay, .spec = "adam" + keys},
                          AdamOptions().betas({0.8, 0.95}).eps(1e-3).weight_decay(decay));
    expect_steps_of<AdamW>({.weight_decay = decay, .spec = "adamw" + keys},
                           AdamWOptions().betas({0.8, 0.95}).eps(1e-3).weight_decay(decay));
  }
}

/// The second parameter starts as 0, and the third gets no gradient at first: norms of 0.
TEST(OptimizerTest, EachIsItsFormula) {
  for (const std::string spec : {"adam", "adamw", "lamb"})
    for (const double decay : {0.0, 1e-2}) {
      const OptimizerOptions options{.learning_rate = 0.1, .weight_decay = decay, .spec = spec};
      const auto mine = random_parameters(), theirs = random_parameters();
      const auto optimizer = make_optimizer({mine, options});
      PlainOptimizer plain(options);
      for (int step = 1; step <= 6; ++step) {
        set_random_gradients(mine);
        if (step <= 2) mine[2].mutable_grad().zero_();
        optimizer->step();
        plain.step(theirs, gradients_of(mine));
        expect_equal(mine, theirs, 1e-12, concat(spec, ", weight decay ", decay, ", step ", step));
      }
    }
}

/// U V^T of U S V^T, as far as the iteration brings it: singular values between 0.68 and 1.14 where those of the matrix
/// are not below a hundredth of its norm.
TEST(OptimizerTest, MuonMovesMatricesByNearlyOrthogonalOnes) {
  for (const auto& [sizes, scale] : {std::pair{std::vector<int64_t>{6, 20}, 1.0}, {{20, 6}, std::sqrt(20.0 / 6)}}) {
    at::manual_seed(2);
    const Tensors mine{torch::randn(sizes, torch::kFloat64)};
    const auto before = mine[0].clone();
    const auto optimizer = make_optimizer({mine, {.learning_rate = 0.5, .weight_decay = 0.1, .spec = "muon"}});
    mine[0].mutable_grad() = torch::randn(sizes, torch::kFloat64);
    optimizer->step();
    const auto moved = ((1 - 0.5 * 0.1) * before - mine[0]) / (0.5 * scale);
    const auto [u, s, v] = at::linalg_svd(mine[0].grad(), /*full_matrices=*/false);
    const auto singular = at::linalg_svdvals(moved);
    EXPECT_GT(singular.min().item<double>(), 0.68);
    EXPECT_LT(singular.max().item<double>(), 1.14);
    const auto core = u.t().mm(moved).mm(v.t());  // diagonal, because the iteration keeps U and V
    EXPECT_LT((core - core.diag().diag()).abs().max().item<double>(), 1e-9);
  }
}

TEST(OptimizerTest, MuonChangesAsAVectorWhatItIsTold) {
  at::manual_seed(3);
  const Tensors mine{torch::randn({4, 6}, torch::kFloat64), torch::randn({4, 6}, torch::kFloat64)};
  const Tensors theirs{mine[0].clone()};
  const auto optimizer =
      make_optimizer({.parameters = mine, .options = {.learning_rate = 0.5, .spec = "muon"}, .are_vectors = {1, 0}});
  const auto sgd = make_optimizer({theirs, {.learning_rate = 0.5, .momentum = 0.9, .spec = "sgd(nesterov=true)"}});
  for (const auto& tensor : mine) tensor.mutable_grad() = torch::randn({4, 6}, torch::kFloat64);
  theirs[0].mutable_grad() = mine[0].grad().clone();
  const auto before = mine[1].clone();
  optimizer->step();
  sgd->step();
  expect_equal({mine[0]}, theirs, 1e-12, "the vector");
  EXPECT_GT(at::linalg_svdvals(before - mine[1]).min().item<double>(), 0.5 * 0.68);
}

/// Steps, with momentum, of a filter, a matrix and a bias beside the formulas of the class: as they are, with the norm
/// of the filter held, and with other coefficients as well.
TEST(OptimizerTest, MuonIsItsFormulaAndOthersChangeAsWithSgd) {
  for (const int kind : {0, 1, 2}) {
    const auto mine = random_parameters(), theirs = random_parameters();
    const char* const more[] = {"", ",normalize=true", ",normalize=true,coefficients=3.4576:-4.7391:2.0843"};
    const std::string spec = concat("muon(momentum=0.6,sgd-momentum=0.85,steps=3,layers=conv", more[kind], ")");
    const double ka = kind == 2 ? 3.4576 : 3.4445, kb = kind == 2 ? -4.7391 : -4.7750, kc = kind == 2 ? 2.0843 : 2.0315;
    const auto optimizer = make_optimizer({mine, {.learning_rate = 0.1, .weight_decay = 0.01, .spec = spec}});
    const auto sgd =
        make_optimizer({{theirs[0], theirs[1]},
                        {.learning_rate = 0.1, .momentum = 0.85, .weight_decay = 0.01, .spec = "sgd(nesterov=true)"}});
    auto velocity = torch::zeros_like(theirs[2]);
    for (int step = 1; step <= 4; ++step) {
      set_random_gradients(mine);
      for (size_t i = 0; i < mine.size(); ++i) theirs[i].mutable_grad() = mine[i].grad().clone();
      velocity = 0.6 * velocity + theirs[2].grad();
      auto x = (theirs[2].grad() + 0.6 * velocity).view({4, 12});
      x = x / (x.norm() + 1e-7);
      for (int i = 0; i < 3; ++i) {
        const auto a = x.mm(x.t());
        x = ka * x + (kb * a + kc * a.mm(a)).mm(x);
      }
      if (kind == 0) theirs[2].mul_(1 - 0.1 * 0.01);
      if (kind > 0) theirs[2].mul_(2 / theirs[2].norm().item<double>());
      theirs[2].sub_(0.1 * x.view({4, 3, 2, 2}));
      optimizer->step();
      sgd->step();
      expect_equal(mine, theirs, 1e-12, concat(spec, ", step ", step));
    }
  }
}

TEST(OptimizerTest, ValuesOutOfRangeAreRefused) {
  const auto message = [](const std::string& spec, double momentum) {
    return message_of(ErrorKind::kConfig,
                      [&] { make_optimizer({.parameters = {}, .options = {.momentum = momentum, .spec = spec}}); });
  };
  EXPECT_EQ(message("adamw(beta1=1)", 0.9), "--optimizer adamw: beta1 is 1; expected 0 or more and less than 1");
  EXPECT_EQ(message("lamb(beta2=-0.1)", 0.9), "--optimizer lamb: beta2 is -0.1; expected 0 or more and less than 1");
  EXPECT_EQ(message("adam(eps=-1)", 0.9), "--optimizer adam: eps is -1; expected 0 or more");
  EXPECT_EQ(message("muon(momentum=1)", 0.9), "--optimizer muon: momentum is 1; expected more than 0 and less than 1");
  EXPECT_EQ(message("muon(steps=0)", 0.9), "--optimizer muon: steps is 0; expected 1 to 100");
  EXPECT_EQ(message("muon(coefficients=1:2)", 0.9),
            "--optimizer muon: coefficients is 1:2; expected three numbers, as 3.4445:-4.775:2.0315");
  EXPECT_EQ(message("muon(layers=fc)", 0.9), "--optimizer muon: layers is \"fc\"; expected all or conv");
  EXPECT_EQ(message("sgd(nesterov=true)", 0),
            "--optimizer sgd: nesterov is true with --momentum 0; expected a momentum of more than 0");
}

class OptimizerContractTest : public testing::TestWithParam<std::string> {
 protected:
  static OptimizerContext context(const Tensors& parameters, const std::vector<double>& rate_factors = {}) {
    return {parameters, {.learning_rate = 0.1, .weight_decay = 1e-2, .spec = GetParam()}, rate_factors};
  }
};
INSTANTIATE_TEST_SUITE_P(Optimizers, OptimizerContractTest, testing::ValuesIn(OptimizerRegistry::names()),
                         [](const auto& info) { return info.param; });

TEST_P(OptimizerContractTest, GradientsStayAsTheyWere) {
  const auto parameters = random_parameters();
  const auto optimizer = make_optimizer(context(parameters));
  set_random_gradients(parameters);
  Tensors before;
  for (const auto& gradient : gradients_of(parameters)) before.push_back(gradient.clone());
  optimizer->step();
  expect_equal(gradients_of(parameters), before, 0, "gradients");
  for (size_t i = 0; i < parameters.size(); ++i) EXPECT_FALSE(parameters[i].equal(random_parameters()[i]));
}

/// Every optimiser that can update in parts is tried, those of plug-ins included.
TEST_P(OptimizerContractTest, PartsOnThreadsHaveTheBitsOfOneStep) {
  if (!OptimizerRegistry::entry(GetParam()).traits.steps_in_parts) return;
  const auto mine = random_parameters(), theirs = random_parameters();
  auto in_parts = context(mine);
  in_parts.parts = {1, 0, 1};
  in_parts.part_count = 3;  // one of them is empty, as it may be where replicas share the update
  const auto threaded = make_optimizer(in_parts), whole = make_optimizer(context(theirs));
  for (int step = 1; step <= 3; ++step) {
    set_random_gradients(mine);
    for (size_t i = 0; i < mine.size(); ++i) theirs[i].mutable_grad() = mine[i].grad().clone();
    threaded->step_on([](const std::function<void(size_t)>& body) {
      std::thread first([&] { body(0); }), second([&] { body(1); }), third([&] { body(2); });
      for (auto* thread : {&first, &second, &third}) thread->join();
    });
    whole->step();
    expect_equal(mine, theirs, 0, concat("step ", step));
  }
  EXPECT_EQ(threaded->state().step_count, whole->state().step_count);
}

TEST_P(OptimizerContractTest, ItGoesOnFromItsStateBitForBit) {
  const auto mine = random_parameters(), theirs = random_parameters();
  const auto whole = make_optimizer(context(mine)), resumed = make_optimizer(context(theirs));
  const auto step = [](const Tensors& parameters, Optimizer& optimizer, int seed) {
    at::manual_seed(static_cast<uint64_t>(seed));
    set_random_gradients(parameters);
    optimizer.step();
  };
  for (int i = 0; i < 3; ++i) step(mine, *whole, i);
  ASSERT_EQ(whole->state().slots.size(), resumed->state().slots.size());
  for (size_t i = 0; i < mine.size(); ++i) {
    theirs[i].copy_(mine[i]);
    for (size_t slot = 0; slot < whole->state().slots.size(); ++slot)
      resumed->state().slots[slot].tensors[i].copy_(whole->state().slots[slot].tensors[i]);
  }
  resumed->state().step_count = whole->state().step_count;
  for (int i = 3; i < 5; ++i) {
    step(mine, *whole, i);
    step(theirs, *resumed, i);
    expect_equal(mine, theirs, 0, concat("step ", i));
  }
}

TEST_P(OptimizerContractTest, ARateFactorScalesTheLearningRate) {
  const std::vector<double> factors{1, 0.5, 4};
  const auto scaled = random_parameters();
  const auto optimizer = make_optimizer(context(scaled, factors));
  set_random_gradients(scaled);
  optimizer->step();
  for (size_t i = 0; i < factors.size(); ++i) {
    const auto alone = random_parameters();
    const auto other = make_optimizer(context({alone[i]}));
    other->set_learning_rate(0.1 * factors[i]);
    alone[i].mutable_grad() = scaled[i].grad();
    other->step();
    expect_equal({scaled[i]}, {alone[i]}, 1e-12, concat("factor ", factors[i]));
  }
}

TEST_P(OptimizerContractTest, AWeightDecayIsThatOfItsTensor) {
  const std::vector<double> decays{1e-2, 0, 0.3};
  const auto mixed = random_parameters();
  auto of_mixed = context(mixed);
  of_mixed.weight_decays = decays;
  const auto optimizer = make_optimizer(of_mixed);
  set_random_gradients(mixed);
  optimizer->step();
  for (size_t i = 0; i < decays.size(); ++i) {
    const auto alone = random_parameters();
    auto of_one = context({alone[i]});
    of_one.options.weight_decay = decays[i];
    alone[i].mutable_grad() = mixed[i].grad();
    make_optimizer(of_one)->step();
    expect_equal({mixed[i]}, {alone[i]}, 1e-12, concat("weight decay ", decays[i]));
  }
}

/// Both pieces of every parameter at one rank, in an order that is not the parameters'.
TEST_P(OptimizerContractTest, PiecesAreChangedAsTheirWhole) {
  if (OptimizerRegistry::entry(GetParam()).traits.needs_whole_tensors) return;  // no mode gives it pieces
  const auto whole = random_parameters(), cut = random_parameters();
  Tensors pieces;
  for (const int half : {0, 1})
    for (const auto& parameter : cut) pieces.push_back(parameter.view(-1).tensor_split({2})[static_cast<size_t>(half)]);
  const auto expected = make_optimizer(context(whole));
  auto of_pieces = context(pieces);
  of_pieces.squared_norms = [](const std::vector<Tensors>& lists) {
    return squared_norms_of_whole(lists).view({2, 3, -1}).sum(0).repeat({2, 1});
  };
  const auto optimizer = make_optimizer(of_pieces);
  for (int step = 1; step <= 3; ++step) {
    set_random_gradients(whole);
    for (size_t i = 0; i < pieces.size(); ++i)
      pieces[i].mutable_grad() = whole[i % 3].grad().view(-1).tensor_split({2})[i / 3];
    expected->step();
    optimizer->step();
    expect_equal(cut, whole, 1e-12, concat("step ", step));
  }
}

/// A rank may have no piece of anything. Others may then wait for its sums.
TEST_P(OptimizerContractTest, NoParametersHaveNormsOfNothing) {
  const auto one = random_parameters();
  int count_with = 0, count_without = 0;
  const auto steps = [](OptimizerContext context, int& count) {
    context.squared_norms = [&](const std::vector<Tensors>& lists) {
      for (const auto& list : lists) EXPECT_EQ(list.size(), context.parameters.size());
      ++count;
      return squared_norms_of_whole(lists);
    };
    const auto optimizer = make_optimizer(context);
    set_random_gradients(context.parameters);
    optimizer->step();
  };
  steps(context(one), count_with);
  steps(context({}), count_without);
  EXPECT_EQ(count_with, count_without);
}

TEST_P(OptimizerContractTest, EveryRegisteredKeyIsReadAndNoOther) {
  const auto message = [](const std::string& key) {
    OptimizerContext none{.parameters = {}, .options = {}};
    none.options.spec = concat(GetParam(), "(", key, "=?)");
    return message_of(ErrorKind::kConfig, [&] { make_optimizer(none); });
  };
  for (const auto& key : OptimizerRegistry::entry(GetParam()).keys)
    EXPECT_THAT(message(key), HasSubstr(concat("optimizer ", GetParam(), ": ", key, " is \"?\"")));
  EXPECT_THAT(message("zzz"), HasSubstr("unknown key \"zzz\""));
}

}  // namespace
}  // namespace penstock
