// Partition: every sample exactly once, an equal number of steps at every rank, and the true counts.
#include "loader/order/partition.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "core/error.h"

namespace penstock {
namespace {

/// How often each position is delivered by all ranks together. Also checks what must hold at every step.
std::vector<int> deliveries(const std::vector<Partition>& ranks, uint64_t size) {
  std::vector<int> counts(size);
  for (int64_t batch = 0; batch < ranks[0].batch_count(); ++batch) {
    int64_t sum = 0;
    for (const auto& rank : ranks) {
      const auto rows = rank.rows(batch);
      EXPECT_LE(rows.count, rank.rows_per_rank());
      EXPECT_EQ(rows.global_count, ranks[0].rows(batch).global_count);
      for (int64_t row = 0; row < rows.count; ++row) ++counts.at(rows.first_position + static_cast<uint64_t>(row));
      sum += rows.count;
    }
    EXPECT_EQ(sum, ranks[0].rows(batch).global_count);
  }
  return counts;
}

/// The ranks of one world, and the samples of all of them in an epoch.
void check_deliveries(uint64_t size, int64_t batch_size, int world, Tail tail, ShortBatch short_batch) {
  SCOPED_TRACE(testing::Message() << size << " samples, batch " << batch_size << ", world " << world);
  std::vector<Partition> ranks;
  uint64_t samples = 0;
  for (int rank = 0; rank < world; ++rank) {
    ranks.emplace_back(size, batch_size, rank, world, tail, short_batch);
    ASSERT_EQ(ranks[rank].batch_count(), ranks[0].batch_count());
    ASSERT_EQ(ranks[rank].rows_per_rank(), ranks[0].rows_per_rank());
    samples += ranks[rank].sample_count();
  }
  const auto batch = static_cast<uint64_t>(batch_size);
  const uint64_t kept = tail == Tail::kPad ? size : size / batch * batch;
  const auto counts = deliveries(ranks, size);
  for (uint64_t position = 0; position < size; ++position) ASSERT_EQ(counts[position], position < kept ? 1 : 0);
  ASSERT_EQ(samples, kept);
}

TEST(PartitionTest, DeliversEverySampleOnceForEverySizeBatchAndWorld) {
  for (uint64_t size = 0; size <= 50; ++size)
    for (const int world : {1, 2, 3, 4, 7})
      for (const int64_t batch_size : {7, 8, 16, 49, 50, 64})
        for (const auto tail : {Tail::kPad, Tail::kDrop})
          for (const auto short_batch : {ShortBatch::kEvenly, ShortBatch::kInPlace})
            check_deliveries(size, batch_size, world, tail, short_batch);
}

TEST(PartitionTest, RanksDifferByOneRowAtMostAlsoInAShortBatch) {
  for (uint64_t size = 1; size <= 50; ++size) {
    for (const int world : {1, 2, 3, 4, 7}) {
      for (const int64_t batch_size : {7, 8, 16, 64}) {
        const Partition any(size, batch_size, 0, world, Tail::kPad);
        for (int64_t batch = 0; batch < any.batch_count(); ++batch) {
          const int64_t least = any.rows(batch).global_count / world;
          for (int rank = 0; rank < world; ++rank) {
            const auto rows = Partition(size, batch_size, rank, world, Tail::kPad).rows(batch);
            ASSERT_GE(rows.count, least);
            ASSERT_LE(rows.count, least + 1);
            ASSERT_EQ(rows.first_position, static_cast<uint64_t>(batch * batch_size + rows.first_row));
          }
        }
      }
    }
  }
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(Partition(160, 64, rank, 2, Tail::kPad).rows(2).count, 16);
}

TEST(PartitionTest, CutsAnUnevenBatchAsSaid) {
  // 10 rows are divided among 4 ranks: [0,2) [2,5) [5,7) [7,10). The second batch has 3 of the 13 samples.
  const int64_t first[] = {0, 2, 5, 7}, count[] = {2, 3, 2, 3};
  const int64_t even_first[] = {0, 0, 1, 2}, even_count[] = {0, 1, 1, 1}, in_place_count[] = {2, 1, 0, 0};
  for (int rank = 0; rank < 4; ++rank) {
    const Partition even(13, 10, rank, 4, Tail::kPad), in_place(13, 10, rank, 4, Tail::kPad, ShortBatch::kInPlace);
    for (const auto& partition : {even, in_place}) {
      EXPECT_EQ(partition.rows(0).first_position, static_cast<uint64_t>(first[rank]));
      EXPECT_EQ(partition.rows(0).count, count[rank]);
      EXPECT_EQ(partition.rows(1).global_count, 3);
    }
    EXPECT_EQ(even.rows(1).first_position, static_cast<uint64_t>(10 + even_first[rank]));
    EXPECT_EQ(even.rows(1).count, even_count[rank]);
    EXPECT_EQ(in_place.rows(1).first_position, static_cast<uint64_t>(10 + first[rank]));
    EXPECT_EQ(in_place.rows(1).count, in_place_count[rank]);
  }
}

TEST(PartitionTest, HasAsManyRowsAsABatchCanFill) {
  const auto rows = [](uint64_t size, int64_t batch_size, int world, Tail tail = Tail::kPad) {
    return Partition(size, batch_size, 0, world, tail).rows_per_rank();
  };
  EXPECT_EQ(rows(100, 10, 4), 3);
  EXPECT_EQ(rows(10, 10, 4), 3);
  EXPECT_EQ(rows(160, 100'000'000, 1), 160);
  EXPECT_EQ(rows(9, 100'000'000, 4), 3);
  EXPECT_EQ(rows(0, 64, 2), 1);
  EXPECT_EQ(Partition(9, 64, 0, 4, Tail::kPad, ShortBatch::kInPlace).rows_per_rank(), 16);
  EXPECT_EQ(Partition::rank_local({5, 2}, 100'000'000, 1, Tail::kPad).rows_per_rank(), 5);
  EXPECT_EQ(Partition::rank_local({50, 2}, 8, 1, Tail::kPad).rows_per_rank(), 4);
}

TEST(PartitionTest, RankLocalStepsAreEqualAlthoughShardsAreNot) {
  const std::vector<std::vector<uint64_t>> cases{{5}, {10, 10}, {7, 0, 12}, {1, 2, 3, 4}, {0, 0}, {100, 3}};
  for (const auto& sizes : cases) {
    for (const int64_t batch_size : {4, 5, 9, 30}) {
      for (const auto tail : {Tail::kPad, Tail::kDrop}) {
        std::vector<Partition> ranks;
        for (size_t rank = 0; rank < sizes.size(); ++rank)
          ranks.push_back(Partition::rank_local(sizes, batch_size, static_cast<int>(rank), tail));
        uint64_t samples = 0;
        for (const auto& rank : ranks) {
          ASSERT_EQ(rank.batch_count(), ranks[0].batch_count());
          uint64_t own = 0;
          for (int64_t batch = 0; batch < rank.batch_count(); ++batch)
            own += static_cast<uint64_t>(rank.rows(batch).count);
          ASSERT_EQ(rank.sample_count(), own);
          samples += own;
        }
        const auto size = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
        const auto counts = deliveries(ranks, size);
        for (const int count : counts) ASSERT_LE(count, 1);
        if (tail == Tail::kPad) {
          ASSERT_EQ(samples, size);
        }
      }
    }
  }
}

TEST(PartitionTest, RankLocalTakesTheMostOrTheLeastSteps) {
  // A batch of 4 gives 2 rows to each of 2 ranks. Rank 0 has samples for 3 steps (5 samples), rank 1 has one sample.
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(Partition::rank_local({5, 2}, 4, rank, Tail::kPad).batch_count(), 3);
    EXPECT_EQ(Partition::rank_local({5, 2}, 4, rank, Tail::kDrop).batch_count(), 1);
  }
  const auto padded = Partition::rank_local({5, 2}, 4, 1, Tail::kPad);
  EXPECT_EQ(padded.rows(0).first_position, 5U);
  EXPECT_EQ(padded.rows(0).global_count, 4);
  EXPECT_EQ(padded.rows(1).count, 0);
  EXPECT_EQ(padded.rows(2).global_count, 1);
}

TEST(PartitionTest, RefusesWhatCannotBe) {
  const auto message = [](int64_t batch_size, int rank, int world) -> std::string {
    try {
      Partition(10, batch_size, rank, world, Tail::kPad);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(4, 4, 4), "partition: rank is 4; expected 0 to 3");
  EXPECT_EQ(message(4, -1, 4), "partition: rank is -1; expected 0 to 3");
  EXPECT_EQ(message(4, 0, 0), "partition: world size is 0; expected 1 or more");
  EXPECT_EQ(message(3, 0, 4), "partition: batch size is 3; expected 4 or more, one sample for each rank");
}

}  // namespace
}  // namespace penstock
