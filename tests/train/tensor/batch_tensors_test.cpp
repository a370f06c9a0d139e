// A batch as tensors: in place, for every layout; and the batch lives as long as its tensors.
#include "train/tensor/batch_tensors.h"

#include <gtest/gtest.h>

#include "tests/train/small_dataset.h"

namespace penstock {
namespace {

Loader make_loader(Layout layout = Layout::kF32Nchw, const std::string& augment = "normalize") {
  return {small_dataset(), Pipeline(augment, small_dataset()->manifest().statistics),
          LoaderOptions{.workers = 1, .prefetch = 1, .batch_size = 100, .layout = layout}};
}

TEST(BatchTensorsTest, TheyAreTheSlotItself) {
  auto loader = make_loader(Layout::kF32Nchw, "mixup,normalize");
  loader.start_epoch(0, 1);  // the last one: 30 samples and 70 rows of padding
  auto batch = loader.next();
  const auto tensors = view_tensors(*batch);
  EXPECT_EQ(tensors.images.sizes(), (at::IntArrayRef{100, 1, 20, 20}));
  EXPECT_EQ(tensors.images.const_data_ptr(), batch->pixels().data());
  EXPECT_EQ(tensors.labels.const_data_ptr<int64_t>(), batch->labels().data());
  EXPECT_EQ(tensors.ids[0].item<int64_t>(), static_cast<int64_t>(batch->ids()[0]));
  EXPECT_EQ(tensors.ids[99].item<int64_t>(), -1);
  EXPECT_EQ(tensors.weights.sum().item<double>(), 30);
  EXPECT_EQ(tensors.second_labels.const_data_ptr<int64_t>(), batch->second_labels().data());
  EXPECT_EQ(tensors.mix_weights.const_data_ptr<float>(), batch->mix_weights().data());
  tensors.images.fill_(7);
  EXPECT_EQ(reinterpret_cast<const float*>(batch->pixels().data())[0], 7);
}

TEST(BatchTensorsTest, EveryLayoutHasItsShapeAndItsNumbers) {
  const std::vector<std::pair<Layout, at::ScalarType>> layouts{
      {Layout::kF32Nchw, at::kFloat}, {Layout::kF16Nchw, at::kHalf}, {Layout::kBf16Nchw, at::kBFloat16},
      {Layout::kF32Nhwc, at::kFloat}, {Layout::kF16Nhwc, at::kHalf}, {Layout::kBf16Nhwc, at::kBFloat16}};
  auto reference = make_loader();
  reference.start_epoch(0);
  auto expected = reference.next();
  const auto images = view_tensors(*expected).images;
  for (const auto& [layout, dtype] : layouts) {
    auto loader = make_loader(layout);
    loader.start_epoch(0);
    auto batch = loader.next();
    const auto tensors = view_tensors(*batch);
    EXPECT_EQ(tensors.images.scalar_type(), dtype) << layout_name(layout);
    EXPECT_EQ(tensors.images.nbytes(), batch->pixels().size()) << layout_name(layout);
    EXPECT_FALSE(tensors.second_labels.defined());
    const auto planar = is_planar(layout) ? tensors.images : tensors.images.permute({0, 3, 1, 2});
    EXPECT_TRUE(planar.to(at::kFloat).allclose(images, 1e-2, 1e-2)) << layout_name(layout);
  }
  auto loader = make_loader(Layout::kU8Nhwc);
  loader.start_epoch(0);
  auto batch = loader.next();
  EXPECT_EQ(view_tensors(*batch).images.sizes(), (at::IntArrayRef{100, 20, 20, 1}));
  EXPECT_EQ(view_tensors(*batch).images.scalar_type(), at::kByte);
}

/// With prefetch 1 there are three slots. The two batches after this one use the other slots, and the third batch waits
/// for this one.
TEST(BatchTensorsTest, TakenTensorsKeepTheirBatch) {
  Loader loader(small_dataset(), Pipeline("normalize", small_dataset()->manifest().statistics),
                LoaderOptions{.workers = 1, .prefetch = 1, .batch_size = 30});
  loader.start_epoch(0);
  auto images = take_tensors(std::move(*loader.next())).images;  // the tensors of labels and weights end here
  auto row = images[3];
  const auto copy = row.clone();
  const void* const slot = images.const_data_ptr();
  images.reset();  // the row is a view of the same memory
  for (int i = 0; i < 2; ++i) EXPECT_NE(static_cast<const void*>(loader.next()->pixels().data()), slot);
  EXPECT_TRUE(row.equal(copy));
  row.reset();
  EXPECT_EQ(static_cast<const void*>(loader.next()->pixels().data()), slot);
}

}  // namespace
}  // namespace penstock
