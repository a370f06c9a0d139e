// An epoch of a shard that is cut while it is read: its errors come once, and it ends.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "tests/loader/loader_test_data.h"

namespace penstock {
namespace {

using testing_data::pipeline_for;
using testing_data::TestData;

/// As a loop that skips errors takes them. The cut is in the last page, so that no read notices it.
TEST(CutEpochTest, EndsAlsoForALoopThatGoesOnAfterErrors) {
  for (const int workers : {0, 2}) {
    const TestData data({20});
    const auto shard = data.folder() / "train" / "shard-0.safetensors";
    const auto dataset = data.open();
    Loader loader(dataset, pipeline_for(*dataset, ""), {.workers = workers, .batch_size = 5});
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      loader.start_epoch(epoch);
      if (epoch == 1) std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1);
      int batch_count = 0, error_count = 0;
      for (bool has_ended = false; !has_ended && error_count < 10;) {
        try {
          has_ended = !loader.next();
          batch_count += has_ended ? 0 : 1;
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kIo);
          ++error_count;
        }
      }
      EXPECT_EQ(batch_count, loader.batches_per_epoch());
      EXPECT_EQ(error_count, epoch == 0 ? 0 : 1);
      EXPECT_FALSE(loader.next());
    }
  }
}

}  // namespace
}  // namespace penstock
