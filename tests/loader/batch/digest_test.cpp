// Digest: a sum over rows that does not depend on how they are divided into batches and ranks, but changes with every
// byte.
#include "loader/batch/digest.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/loader/loader_test_data.h"

namespace penstock {
namespace {

using testing_data::pipeline_for;
using testing_data::TestData;

Digest digest_of(const TestData& data, LoaderOptions options) {
  const auto dataset = data.open();
  Loader loader(dataset, pipeline_for(*dataset, ""), std::move(options));
  Digest digest;
  loader.start_epoch(0);
  testing_data::consume(loader, [&](const Batch& batch) { digest.add(batch); });
  return digest;
}

TEST(DigestTest, HexIsTheHighWordThenTheLow) {
  EXPECT_EQ(Digest().hex(), std::string(32, '0'));
  EXPECT_EQ(Digest(0x12, 0xab00000000000000).hex(), "ab000000000000000000000000000012");
}

TEST(DigestTest, AdditionCarries) {
  Digest sum(~uint64_t{0}, 5);
  sum.add(Digest(2, 1));
  EXPECT_EQ(sum, Digest(1, 7));
  sum.add(sum);
  EXPECT_EQ(sum, Digest(2, 14));
  Digest wraps(0, ~uint64_t{0});
  wraps.add(Digest(0, 1));
  EXPECT_EQ(wraps, Digest());
}

TEST(DigestTest, DoesNotDependOnHowTheEpochIsCut) {
  const TestData data({50});
  const auto expected = digest_of(data, {.batch_size = 50});
  for (const int64_t batch_size : {1, 7, 16, 64}) EXPECT_EQ(digest_of(data, {.batch_size = batch_size}), expected);
  for (const int ranks : {2, 3}) {
    Digest sum;
    for (int rank = ranks - 1; rank >= 0; --rank)
      sum.add(digest_of(data, {.batch_size = 7, .rank = rank, .world_size = ranks}));
    EXPECT_EQ(sum, expected);
  }
}

TEST(DigestTest, SeesEveryFieldOfARow) {
  std::vector<std::byte> pixels(300, std::byte{7});
  const auto row = [&](uint64_t position, uint64_t id, int64_t label, float weight) {
    Digest digest;
    digest.add(position, id, label, weight, pixels);
    return digest.hex();
  };
  std::set<std::string> digests{row(1, 2, 3, 1), row(2, 2, 3, 1), row(1, 1, 3, 1), row(1, 2, 4, 1), row(1, 2, 3, 0)};
  for (const size_t place : {0, 150, 299}) {
    pixels[place] ^= std::byte{0x80};
    digests.insert(row(1, 2, 3, 1));
  }
  const auto mixed_row = [&](int64_t second_label, float weight) {
    Digest digest;
    digest.add(1, 2, 3, 1, pixels, Digest::Mixed{second_label, weight});
    return digest.hex();
  };
  digests.insert({mixed_row(3, 1), mixed_row(4, 1), mixed_row(3, 0.5f)});
  EXPECT_EQ(digests.size(), 11u);
}

TEST(DigestTest, SeesTheOrderAndTheLayout) {
  const TestData data({50});
  const auto expected = digest_of(data, {.shuffle = Shuffle::kNone});
  EXPECT_NE(digest_of(data, {.shuffle = Shuffle::kGlobal}), expected);
  EXPECT_NE(digest_of(data, {.shuffle = Shuffle::kNone, .layout = Layout::kU8Nhwc}), expected);
}

}  // namespace
}  // namespace penstock
