// Losses of fields: values by hand, what the data must have, and that every mode trains with the targets of its rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/text.h"
#include "tests/support/testing.h"
#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/losses/loss.h"
#include "train/verify/matrix.h"

namespace penstock {
namespace {

using testing::HasSubstr;

/// A data set with the fields `age` (a number), `place` (four of them), `kinds` (labels with names), `tags` (labels),
/// `name` (text) and no classes.
Manifest data_with_fields() {
  Manifest manifest;
  manifest.fields = {
      {.name = "age"},
      {.name = "kinds",
       .kind = FieldKind::kLabels,
       .dtype = Dtype::kI64,
       .shape = {FieldType::kVariable},
       .names = {"cat", "dog"}},
      {.name = "name", .kind = FieldKind::kText, .dtype = Dtype::kU8, .shape = {FieldType::kVariable}},
      {.name = "place", .shape = {4}},
      {.name = "tags", .kind = FieldKind::kLabels, .dtype = Dtype::kI64, .shape = {FieldType::kVariable}}};
  return manifest;
}

/// Two rows with these targets.
DeviceBatch with_targets(const torch::Tensor& targets) {
  DeviceBatch batch;
  batch.labels = torch::tensor({1, 0}, torch::kInt64);
  batch.weights = torch::ones({2});
  batch.rows = batch.count = 2;
  if (targets.defined()) batch.columns[kTargetColumn] = targets;
  return batch;
}

std::vector<double> losses(const std::string& text, const torch::Tensor& outputs, const torch::Tensor& targets) {
  const Manifest data = data_with_fields();
  const auto loss = make_loss(text, {.data = &data});
  const auto values = loss->of_rows(outputs, with_targets(targets)).contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

void expect_near(const std::vector<double>& values, const std::vector<double>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-12) << i;
}

TEST(FieldLossTest, ValuesAreThoseOfTheirDefinitions) {
  const auto one = torch::tensor({{3.0}, {-0.25}}, torch::kFloat64);
  const auto of_one = torch::tensor({1.0F, 0.25F});  // a number per row has no second dimension
  expect_near(losses("mse(target=age)", one, of_one), {4, 0.25});
  expect_near(losses("l1(target=age)", one, of_one), {2, 0.5});
  expect_near(losses("smooth-l1(target=age)", one, of_one), {1.5, 0.125});
  expect_near(losses("smooth-l1(target=age,beta=0.25)", one, of_one), {1.875, 0.375});
  const auto four = torch::tensor({{1.0, 2.0, 3.0, 4.0}, {0.0, 0.0, 0.0, 0.0}}, torch::kFloat64);
  const auto of_four = torch::tensor({{1, 0, 3, 0}, {1, 1, 1, 1}}, torch::kInt32);
  expect_near(losses("mse(target=place)", four, of_four), {5, 1});
  expect_near(losses("l1(target=place)", four, of_four), {1.5, 1});
  // log(1 + e^-x) for a yes and log(1 + e^x) for a no, meaned.
  const auto yes = [](double x) { return std::log1p(std::exp(-x)); };
  const auto tags = torch::tensor({{1.0F, 0.0F}, {1.0F, 1.0F}});
  expect_near(losses("bce(target=tags,classes=2)", torch::tensor({{2.0, -1.0}, {0.0, 3.0}}, torch::kFloat64), tags),
              {(yes(2) + yes(1)) / 2, (std::log(2) + yes(3)) / 2});
}

TEST(FieldLossTest, WithoutATargetTheClassIsOneAndTheOthersAreZero) {
  const auto outputs = torch::tensor({{0.5, 1.0, 0.0}, {0.0, 0.0, 2.0}}, torch::kFloat64);  // of the classes 1 and 0
  expect_near(losses("mse", outputs, {}), {0.25 / 3, 5.0 / 3});
  expect_near(losses("l1", outputs, {}), {0.5 / 3, 1});
  const auto yes = [](double x) { return std::log1p(std::exp(-x)); };
  expect_near(losses("bce", outputs, {}), {(yes(-0.5) + yes(1) + yes(0)) / 3, (yes(0) + yes(0) + yes(-2)) / 3});
  EXPECT_EQ(make_loss("mse")->metric(3)->names().front(), "accuracy");
  EXPECT_EQ(make_loss("bce")->metric(3)->names().front(), "accuracy");
}

TEST(FieldLossTest, AFieldSaysWhichColumnAndHowManyOutputsThereAre) {
  const Manifest data = data_with_fields();
  const auto target = [&](const std::string& text) { return make_loss(text, {.data = &data})->target(); };
  EXPECT_EQ(target("mse(target=age)").columns, "field(name=age,column=target)");
  EXPECT_EQ(target("mse(target=age)").outputs, 1);
  EXPECT_EQ(target("smooth-l1(target=place)").outputs, 4);
  EXPECT_EQ(target("bce(target=place)").columns, "field(name=place,column=target,range=0:1)");
  EXPECT_EQ(target("bce(target=tags,classes=7)").columns, "field(name=tags,column=target,as=multi-hot,classes=7)");
  EXPECT_EQ(target("bce(target=tags,classes=7)").outputs, 7);
  EXPECT_EQ(target("bce(target=place)").outputs, 4);
  EXPECT_EQ(target("bce(target=kinds)").columns, "field(name=kinds,column=target,as=multi-hot,classes=2)");
  EXPECT_EQ(target("bce(target=kinds)").names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(target("bce(target=kinds,classes=3)").outputs, 3);
  EXPECT_TRUE(target("bce").is_class());
  const auto refusal = [&](const std::string& text) { return message_of(ErrorKind::kConfig, [&] { target(text); }); };
  EXPECT_EQ(
      refusal("mse(target=agee)"),
      "--loss mse(target=agee): unknown field \"agee\"; did you mean \"age\"? known: age, kinds, name, place, tags");
  EXPECT_THAT(refusal("mse(target=tags)"),
              HasSubstr("is of kind labels and of any length; expected numbers of a fixed"));
  EXPECT_THAT(refusal("bce(target=tags)"), HasSubstr("field tags has labels without names; expected classes="));
  EXPECT_THAT(refusal("bce(target=name)"), HasSubstr("is of kind text and of any length"));
  EXPECT_THAT(refusal("bce(classes=3)"), HasSubstr("classes is 3; expected target=FIELD"));
  EXPECT_THAT(refusal("smooth-l1(target=age,beta=0)"), HasSubstr("beta is 0; expected more than 0"));
  EXPECT_THAT(message_of(ErrorKind::kBug,
                         [&] {
                           losses("mse(target=age)", torch::zeros({2, 1}), {});
                         }),
              HasSubstr("batches without it"));
}

TEST(ClassWeightsTest, ARowCountsAsMuchAsItsClass) {
  Manifest data;
  data.class_names = {"a", "b", "c"};
  data.class_counts = {6, 2, 0};
  data.sample_count = 8;
  const auto logits = torch::randn({2, 3}, torch::kFloat64);  // of the classes 1 and 0
  const auto plain = make_loss("cross-entropy")->of_rows(logits, with_targets({}));
  const auto weighted = [&](const std::string& weights) {
    return make_loss(concat("cross-entropy(weights=", weights, ")"), {.data = &data})
        ->of_rows(logits, with_targets({}));
  };
  EXPECT_TRUE(weighted("0.5:3:1").allclose(plain * torch::tensor({3.0, 0.5}, torch::kFloat64)));
  // 8 / (2 * 2) and 8 / (2 * 6): the 8 samples have the mean 1.
  EXPECT_TRUE(weighted("balanced").allclose(plain * torch::tensor({2.0, 2.0 / 3}, torch::kFloat64)));
  const auto refusal = [&](const std::string& weights) {
    return message_of(ErrorKind::kConfig, [&] { weighted(weights); });
  };
  EXPECT_THAT(refusal("1:2"), HasSubstr("2 weights; expected 3, one for each class"));
  EXPECT_THAT(refusal("1:-2:1"), HasSubstr("weights are 1:-2:1; expected balanced, or 0 or more"));
  EXPECT_THAT(refusal("0:0:0"), HasSubstr("not only 0"));
}

/// The loss of one step of `mode`, added over all ranks. The targets of a row are the first four pixels of its picture.
double loss_of_field_step(const std::string& mode, int ranks, const std::shared_ptr<const Loss>& loss) {
  const auto samples = random_samples(24, kSmallGrey, 1);
  double sum = 0;
  run_ranks(ranks, [&](Comm& comm) {
    StrategyHarness one(mode, make_small_lenet, comm, kSgd, torch::kFloat64, torch::kCPU, {}, 0, {.loss = loss});
    auto batch = one.part(samples, 24, 0);
    if (one.strategy->is_fed())
      batch.columns[kTargetColumn] = batch.images.flatten(1).narrow(1, 0, 4).to(torch::kFloat32);
    auto own = one.strategy->step(batch).loss.to(torch::kFloat64).clone();
    comm.all_reduce_sum(own)->wait();
    if (comm.rank() == 0) sum = own.item<double>();
  });
  return sum;
}

TEST(FieldLossTest, EveryModeTrainsWithTheTargetsOfItsRows) {
  const Manifest data = data_with_fields();
  const std::shared_ptr<const Loss> loss = make_loss("mse(target=place)", {.data = &data});
  const double expected = loss_of_field_step("single", 1, loss);
  std::set<std::string> modes;
  for (const auto& pair : matrix_of({.archs = {"lenet"}, .ranks = {2}, .hostings = {Hosting::kThreads}}).pairs) {
    if (pair.equivalence == Equivalence::kBitwise || !modes.insert(pair.mode).second) continue;
    EXPECT_NEAR(loss_of_field_step(pair.mode, pair.ranks, loss), expected, 1e-10) << pair.mode;
  }
  EXPECT_GT(modes.size(), StrategyRegistry::names().size());
}

}  // namespace
}  // namespace penstock
