// decode_picture() gives what a loader without transforms gives.
#include "loader/look/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/loader/loader_test_data.h"

namespace penstock {
namespace {

using testing_data::TestData;

TEST(PictureTest, IsTheRowOfALoaderWithoutTransforms) {
  for (const int channels : {1, 3}) {
    const TestData data({5, 4}, {{7, 11, channels}});
    const auto dataset = Dataset::open(data.folder());
    Loader loader(dataset, Pipeline("", dataset->manifest().statistics),
                  {.batch_size = 1, .shuffle = Shuffle::kNone, .layout = Layout::kU8Nhwc});
    loader.start_epoch(0);
    for (uint64_t i = 0; i < dataset->size(); ++i) {
      const auto batch = loader.next();
      const DecodedPicture picture = decode_picture(*dataset, i);
      EXPECT_EQ(picture.extent, batch->extent());
      const auto* const row = reinterpret_cast<const uint8_t*>(batch->pixels().data());
      EXPECT_EQ(picture.pixels, std::vector<uint8_t>(row, row + batch->pixels().size())) << i;
    }
  }
}

TEST(PictureTest, ASampleThatCannotBeDecodedIsNamed) {
  const TestData data({5}, {{12, 12, 1}, {12, 13, 1}}, 3);
  const auto dataset = Dataset::open(data.folder());
  EXPECT_EQ(decode_picture(*dataset, 1).extent, (Extent{12, 13, 1}));
  try {
    decode_picture(*dataset, 3);
    FAIL() << "decoded";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(error.what(), testing::HasSubstr("shard-0.safetensors: sample 3 (id 1003) at byte "));
  }
}

}  // namespace
}  // namespace penstock
