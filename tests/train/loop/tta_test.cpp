// --tta: what each view shows, and the mean of their logits.
#include "train/loop/tta.h"

#include <gtest/gtest.h>

#include <array>
#include <mutex>

#include "tests/train/rank_threads.h"
#include "tests/train/strategy_batches.h"
#include "train/loop/evaluate.h"
#include "train/options/test_views.h"

namespace penstock {
namespace {

constexpr ModelShape kViewed{.channels = 1, .height = 12, .width = 12, .classes = 4};

std::unique_ptr<Model> make_viewed() {
  at::manual_seed(4);
  return ModelRegistry::make(parse_spec("arch", "lenet"), kViewed);
}

/// By a pixel. The row and the column that come in are those next to the border.
torch::Tensor moved_up_and_left(const torch::Tensor& images) {
  auto moved = images.clone();
  for (const auto& [row, from_row] : {std::pair{0, 1}, {11, 10}})
    for (const auto& [column, from_column] : {std::pair{0, 1}, {11, 10}}) {
      const int64_t rows = row == 0 ? 11 : 1, columns = column == 0 ? 11 : 1;
      moved.narrow(2, row, rows)
          .narrow(3, column, columns)
          .copy_(images.narrow(2, from_row, rows).narrow(3, from_column, columns));
    }
  return moved;
}

TEST(TestViewsTest, LogitsAreTheMeanOverThePictureItsMirrorImageAndItsNeighbours) {
  at::NoGradGuard no_grad;
  const auto comm = make_self_comm();
  StrategyHarness one("single", make_viewed(), *comm, {});
  const auto samples = random_samples(6, kViewed, 2);
  auto batch = one.part(samples, 6, 0);
  const auto logits = [&](const torch::Tensor& images) { return one.model->forward(images); };
  const auto both = [&](const torch::Tensor& images) { return 0.5 * logits(images) + 0.5 * logits(images.flip({3})); };
  const auto& images = samples.images;
  one.model->eval();
  EXPECT_TRUE(evaluate_views(*one.strategy, batch, TestViews::kNone).equal(logits(images)));
  EXPECT_TRUE(evaluate_views(*one.strategy, batch, TestViews::kFlip).allclose(both(images), 1e-12, 1e-14));
  const auto up = moved_up_and_left(images);
  const auto down = moved_up_and_left(images.flip({2, 3})).flip({2, 3});
  const auto expected = 0.5 * both(images) + 0.25 * both(up) + 0.25 * both(down);
  EXPECT_TRUE(evaluate_views(*one.strategy, batch, TestViews::kFlipTranslate).allclose(expected, 1e-12, 1e-14));
  EXPECT_TRUE(batch.images.equal(images));
}

TEST(TestViewsTest, APipelineSeesTheSameViews) {
  const auto samples = random_samples(6, kViewed, 2);
  std::array<torch::Tensor, 2> logits;
  for (const int ranks : {1, 2}) {
    run_ranks(ranks, [&](Comm& comm) {
      at::NoGradGuard no_grad;
      static std::mutex mutex;
      std::unique_ptr<Model> model;
      {
        const std::lock_guard lock(mutex);
        model = make_viewed();
      }
      StrategyHarness one(ranks == 1 ? "single" : "mp", std::move(model), comm, {});
      auto batch = one.part(samples, 6, 0);
      const auto own = evaluate_views(*one.strategy, batch, TestViews::kFlipTranslate);
      if (own.defined()) logits[static_cast<size_t>(ranks - 1)] = own;
      EXPECT_EQ(own.defined(), comm.rank() == ranks - 1);
      EXPECT_EQ(batch.images.defined(), comm.rank() == 0);
    });
  }
  EXPECT_TRUE(logits[0].allclose(logits[1], 1e-12, 1e-14));
}

TEST(EvalRowsTest, NoMoreThanThereAreSamplesAndFewOfLargePictures) {
  EXPECT_EQ(eval_rows(28 * 28, 10'000, 1), 256);
  EXPECT_EQ(eval_rows(64 * 64, 10'000, 2), 256);
  EXPECT_EQ(eval_rows(224 * 224, 10'000, 1), 20);
  EXPECT_EQ(eval_rows(28 * 28, 24, 1), 24);
  EXPECT_EQ(eval_rows(28 * 28, 25, 2), 13);
  EXPECT_EQ(eval_rows(4000 * 4000, 5, 1), 1);
  EXPECT_EQ(eval_rows(28 * 28, 0, 4), 1);
}

TEST(TestViewsTest, NamesAreRead) {
  EXPECT_EQ(parse_test_views("none"), TestViews::kNone);
  EXPECT_EQ(parse_test_views("flip"), TestViews::kFlip);
  EXPECT_EQ(parse_test_views("flip-translate"), TestViews::kFlipTranslate);
}

}  // namespace
}  // namespace penstock
