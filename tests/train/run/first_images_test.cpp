// First images: how many, in which batches, and which.
#include "train/run/first_images.h"

#include <gtest/gtest.h>

#include "loader/pack/pack.h"
#include "tests/support/testing.h"
#include "train/run/open_run.h"
#include "train/tensor/batch_tensors.h"

namespace penstock {
namespace {

/// The set-up of a run with 600 pictures of 16 x 16.
Setup setup_with_seed(uint64_t seed) {
  static const TemporaryFolder folder("first-images");
  static const bool is_packed = [] {
    pack({.source = "digits(count=600,size=16)", .input = {}, .split = "train", .output = folder.path()});
    return true;
  }();
  TrainOptions options;
  options.data = is_packed ? folder.path().string() : "";
  options.arch = "mlp";
  options.out = "/nowhere";
  options.device = "cpu";
  options.seed = seed;
  return set_up(options, [](const std::string&) {});
}

std::vector<torch::Tensor> batches_of(const Setup& setup, int64_t count) {
  FirstImages images(setup, count);
  std::vector<torch::Tensor> batches;
  for (auto some = images.next(); some.defined(); some = images.next()) batches.push_back(some.clone());
  return batches;
}

std::vector<int64_t> rows_of(const std::vector<torch::Tensor>& batches) {
  std::vector<int64_t> rows;
  for (const auto& batch : batches) rows.push_back(batch.size(0));
  return rows;
}

/// The first 256 pictures of an order.
torch::Tensor loaded(const Setup& setup, Shuffle shuffle, uint64_t seed) {
  Loader loader(setup.data.train, *setup.eval_pipeline, {.batch_size = 256, .shuffle = shuffle, .seed = seed});
  loader.start_epoch(0);
  auto batch = loader.next();
  return view_tensors(*batch).images.clone();
}

TEST(FirstImagesTest, BatchesAreSmallAndAddUpToTheCountOrTheData) {
  const auto setup = setup_with_seed(0);
  EXPECT_EQ(rows_of(batches_of(setup, 300)), (std::vector<int64_t>{256, 44}));
  EXPECT_EQ(rows_of(batches_of(setup, 5000)), (std::vector<int64_t>{256, 256, 88}));
  EXPECT_EQ(batches_of(setup, 5)[0].sizes(), torch::IntArrayRef({5, 1, 16, 16}));
}

/// By their indices the first of a folder with pictures would be of one class.
TEST(FirstImagesTest, TheyAreTheFirstThatTheSeedPutsThere) {
  const auto setup = setup_with_seed(3);
  const auto first = batches_of(setup, 256)[0];
  EXPECT_TRUE(first.equal(loaded(setup, Shuffle::kGlobal, 3)));
  EXPECT_FALSE(first.equal(loaded(setup, Shuffle::kGlobal, 4)));
  EXPECT_FALSE(first.equal(loaded(setup, Shuffle::kNone, 3)));
}

}  // namespace
}  // namespace penstock
