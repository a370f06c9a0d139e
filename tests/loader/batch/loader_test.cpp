// Loader: what is in a batch, and which options are refused. tests/contract tests its contracts.
#include "loader/batch/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "augment/render.h"
#include "core/clock.h"
#include "core/error.h"
#include "tests/loader/jpeg_pictures.h"
#include "tests/loader/loader_test_data.h"
#include "tests/loader/storage_test_data.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

using testing_data::consume;
using testing_data::make_loader;
using testing_data::pipeline_for;
using testing_data::TestData;

TEST(LoaderTest, AnObserverSeesEveryRowMadeOnce) {
  const TestData data({40, 30});
  for (const int workers : {0, 1, 3}) {
    std::mutex mutex;
    std::map<int64_t, std::multiset<int64_t>> rows;  // one entry per batch
    std::vector<int64_t> end_ns(static_cast<size_t>(std::max(workers, 1)));
    const int64_t start_ns = now_ns();
    {
      auto loader = make_loader(
          data, {.workers = workers, .batch_size = 16, .epoch_count = 3, .on_chunk = [&](const ChunkTime& chunk) {
                   const std::lock_guard lock(mutex);
                   EXPECT_EQ(chunk.epoch, 2);
                   for (int64_t row = chunk.begin_row; row < chunk.end_row; ++row) rows[chunk.batch].insert(row);
                   int64_t& last_ns = end_ns.at(static_cast<size_t>(chunk.worker));
                   EXPECT_LE(std::max(start_ns, last_ns), chunk.begin_ns) << "a worker makes one chunk at a time";
                   EXPECT_LE(chunk.begin_ns, chunk.end_ns);
                   last_ns = chunk.end_ns;
                 }});
      loader.start_epoch(2);
      EXPECT_EQ(consume(loader), 5);
    }
    EXPECT_EQ(rows.size(), 5u);
    for (const auto& [batch, made] : rows) {
      EXPECT_EQ(made.size(), 16u) << "batch " << batch << ", padding included";
      EXPECT_EQ(std::set<int64_t>(made.begin(), made.end()).size(), 16u) << batch;
    }
  }
}

TEST(LoaderTest, RefusesOptionsBeforeAnyThreadStarts) {
  const TestData data({20});
  const auto message = [&](LoaderOptions options) {
    return message_of(ErrorKind::kConfig, [&] { make_loader(data, std::move(options)); });
  };
  EXPECT_EQ(message({.workers = -1}), "loader: workers is -1; expected 0 or more");
  EXPECT_EQ(message({.workers = 5000}), "loader: workers is 5000; expected 1024 or fewer");
  EXPECT_EQ(message({.prefetch = 0}), "loader: prefetch is 0; expected 1 or more");
  EXPECT_EQ(message({.batch_size = 0}), "loader: batch size is 0; expected 1 or more");
  EXPECT_EQ(message({.batch_size = 3, .world_size = 4}),
            "loader: batch size is 3; expected 4 or more, one sample for each rank");
  EXPECT_EQ(message({.rank = 2, .world_size = 2}), "loader: rank is 2; expected 0 to 1");
  EXPECT_EQ(message({.world_size = 0}), "loader: world size is 0; expected 1 or more");
  EXPECT_EQ(message({.epoch_count = -2}), "loader: epoch count is -2; expected -1 (no end) or more");
  EXPECT_EQ(
      message({.rank = 1, .world_size = 2, .shuffle = Shuffle::kRankLocal}),
      "loader: rank-local shuffling of 1 shards over 2 ranks; expected a shard or more for each rank: pack with more "
      "--shards, or shuffle globally");
}

TEST(LoaderTest, SaysHowMuchMemoryIsMissingForWhat) {
  const TestData data({20});
  int allocated = 0;
  const SlotAllocator allocator{
      .allocate = [&](size_t byte_count) { return ++allocated > 2 ? nullptr : std::aligned_alloc(64, byte_count); },
      .release = [](void* memory, size_t) { std::free(memory); }};
  EXPECT_EQ(message_of(ErrorKind::kDevice, [&] { make_loader(data, {.allocator = allocator}); }),
            "loader: no memory for batch 3 of 6, 12.1 KB each; expected a smaller batch size (--batch-size) or less "
            "--prefetch, or more memory");
}

TEST(LoaderTest, RefusesPlacesThatAreNotThere) {
  const TestData data({20});
  auto loader = make_loader(data, {.batch_size = 8});
  EXPECT_EQ(message_of(ErrorKind::kBug, [&] { loader.next(); }),
            "loader: next() in epoch -1; expected start_epoch() before it");
  EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { loader.start_epoch(-1); }),
            "loader: epoch is -1; expected 0 to 4294967295");
  EXPECT_EQ(message_of(ErrorKind::kConfig, [&] { loader.start_epoch(0, 4); }),
            "loader: first batch is 4; expected 0 to 3");
  loader.start_epoch(0, 3);
  EXPECT_FALSE(loader.next());
  EXPECT_FALSE(loader.next());
}

TEST(LoaderTest, RowsAreWhatPlanAndRenderMake) {
  const TestData data({37, 13}, {{12, 10, 3}});
  const char* const spec = "affine(degrees=30,translate=0.2,fill=9),flip(p=0.5),normalize";
  const auto dataset = data.open();
  const auto pipeline = pipeline_for(*dataset, spec);
  for (const auto layout : {Layout::kF32Nchw, Layout::kU8Nhwc}) {
    auto loader = make_loader(data, {.workers = 2, .batch_size = 16, .seed = 3, .layout = layout}, spec);
    EXPECT_EQ(loader.extent(), (Extent{12, 10, 3}));
    const size_t row_bytes = rendered_bytes(layout, loader.extent());
    std::vector<std::byte> expected(row_bytes);
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      loader.start_epoch(epoch);
      consume(loader, [&](const Batch& batch) {
        ASSERT_EQ(batch.pixels().size(), row_bytes * 16);
        for (size_t row = 0; row < static_cast<size_t>(batch.count()); ++row) {
          const uint64_t index = batch.ids()[row] - 1000;
          const Sample sample = dataset->at(index);
          const Plan plan = pipeline.plan(12, 10, 3, static_cast<uint32_t>(epoch), sample.id);
          render({sample.bytes.data(), 30, 12, 10, 3}, plan, pipeline.normalization(), layout, expected.data());
          ASSERT_EQ(std::memcmp(expected.data(), batch.pixels().data() + row * row_bytes, row_bytes), 0);
          ASSERT_EQ(batch.labels()[row], static_cast<int64_t>(index % 10));
        }
      });
    }
  }
}

TEST(LoaderTest, DecodesWhatThePlanLooksAtAlone) {
  const testing_data::TemporaryFolder folder;
  Rng rng(41, 0, 0, 0);
  auto file = testing_data::encode_jpeg({"444"}, 256, 256, 90, rng);
  file.resize(file.size() * 3 / 4);  // the rows of the crop, 96 to 160, are undamaged
  const Extent extent{256, 256, 3};
  ShardWriter writer(folder / "shard", std::nullopt);
  testing_data::add_sample(writer, 0, 0, extent, Encoding::kJpeg, file);
  Manifest manifest;
  manifest.split = "train", manifest.source = "test", manifest.channels = 3, manifest.statistics.channels = 3;
  manifest.class_names = {"a"}, manifest.class_counts = {1}, manifest.sample_count = 1;
  manifest.shards = {{.file = "shard", .sample_count = 1, .byte_count = writer.finish(), .xxh3 = std::string(32, '0')}};
  write_manifest(folder.path(), manifest);
  const auto dataset = Dataset::open(folder.path());
  const auto batches = [&](DecodePath path) {
    Loader loader(dataset, pipeline_for(*dataset, "center-crop(size=64)"), {.batch_size = 1, .decode = path});
    loader.start_epoch(0);
    return consume(loader);
  };
  EXPECT_EQ(batches(DecodePath::kAuto), 1);
  EXPECT_NE(message_of(ErrorKind::kCorrupt, [&] { batches(DecodePath::kFull); }).find("expected a whole picture"),
            std::string::npos);
}

TEST(LoaderTest, PaddingRowsAreEmptyAlthoughTheSlotWasUsedBefore) {
  const TestData data({20});
  for (const int workers : {0, 2}) {
    auto loader = make_loader(data, {.workers = workers, .prefetch = 1, .batch_size = 8});
    for (int64_t epoch = 0; epoch < 4; ++epoch) {
      loader.start_epoch(epoch);
      consume(loader, [&](const Batch& batch) {
        ASSERT_EQ(batch.count(), batch.index() == 2 ? 4 : 8);
        ASSERT_EQ(batch.global_count(), batch.count());
        ASSERT_EQ(batch.first_position(), static_cast<uint64_t>(batch.index() * 8));
        const size_t row_bytes = batch.pixels().size() / 8;
        for (auto row = static_cast<size_t>(batch.count()); row < 8; ++row) {
          ASSERT_EQ(batch.labels()[row], 0);
          ASSERT_EQ(batch.ids()[row], ~uint64_t{0});
          ASSERT_EQ(batch.weights()[row], 0);
          for (const std::byte byte : batch.pixels().subspan(row * row_bytes, row_bytes)) ASSERT_EQ(byte, std::byte{0});
        }
      });
    }
  }
}

/// Overwrites all bytes with 0x5a.
void scribble(Batch& batch) {
  for (size_t number = 0; number < batch.columns().size(); ++number)
    std::ranges::fill(batch.column(number), std::byte{0x5a});
}

TEST(LoaderTest, WhatTheHolderOfABatchWritesReachesNoOther) {
  const TestData data({11});
  const auto dataset = data.open();
  for (const char* transforms : {"flip", "flip,erase(p=0.5)", "flip,mixup"}) {
    for (const int workers : {0, 2}) {
      std::vector<Digest> digests(2);  // of unchanged batches, and of batches that are written into
      for (const bool is_written : {false, true}) {
        Loader loader(dataset, pipeline_for(*dataset, transforms),
                      {.workers = workers, .prefetch = 1, .batch_size = 4});
        for (int epoch = 0; epoch < 3; ++epoch) {
          loader.start_epoch(epoch);
          while (auto batch = loader.next()) {
            digests[is_written].add(*batch);
            for (int64_t row = batch->count(); row < batch->rows(); ++row)  // rows that no digest includes
              EXPECT_EQ(batch->ids()[static_cast<size_t>(row)], ~uint64_t{0});
            if (is_written) scribble(*batch);
          }
        }
      }
      EXPECT_EQ(digests[0], digests[1]) << transforms << ", " << workers << " workers";
    }
  }
}

TEST(LoaderTest, TellsWhichSampleComesOutInAnotherSize) {
  const TestData data({4}, {{12, 12, 1}, {12, 12, 1}, {9, 14, 1}});
  auto loader = make_loader(data, {.batch_size = 4, .shuffle = Shuffle::kNone});
  loader.start_epoch(0);
  const auto message = message_of(ErrorKind::kConfig, [&] { loader.next(); });
  EXPECT_TRUE(message.starts_with("sample 2 (id 1002) of ")) << message;
  EXPECT_NE(message.find(": is 9 x 14 after the transforms, and the first sample is 12 x 12; expected all of one size: "
                         "add resize(height=12,width=12), center-crop(size=12) or random-resized-crop(size=12)"),
            std::string::npos)
      << message;
  auto cropped = make_loader(data, {.batch_size = 4}, "center-crop(size=8)");
  cropped.start_epoch(0);
  EXPECT_EQ(consume(cropped), 1);
  EXPECT_EQ(cropped.extent(), (Extent{8, 8, 1}));
}

TEST(LoaderTest, RankLocalRanksReadTheirOwnShardsOnly) {
  const std::vector<int> shard_sizes{10, 25, 7, 12, 30};
  const TestData data(shard_sizes);
  const auto dataset = data.open();
  std::vector<std::vector<uint64_t>> orders;
  for (int rank = 0; rank < 2; ++rank) {
    std::set<uint64_t> own, seen;
    for (int shard = rank; shard < 5; shard += 2)
      for (uint64_t i = dataset->shard_begin(shard); i < dataset->shard_begin(shard + 1); ++i) own.insert(1000 + i);
    auto loader = make_loader(
        data,
        {.workers = 1, .batch_size = 8, .rank = rank, .world_size = 2, .shuffle = Shuffle::kRankLocal, .seed = 2});
    EXPECT_EQ(loader.samples_per_epoch(), own.size());
    EXPECT_EQ(loader.batches_per_epoch(), 12);  // rank 0 has 47 samples and takes 4 per step
    loader.start_epoch(0);
    orders.emplace_back();
    consume(loader, [&](const Batch& batch) {
      for (size_t row = 0; row < static_cast<size_t>(batch.count()); ++row) {
        seen.insert(batch.ids()[row]);
        orders.back().push_back(batch.ids()[row]);
      }
    });
    EXPECT_EQ(seen, own);
    EXPECT_EQ(orders.back().size(), own.size());
    EXPECT_FALSE(std::is_sorted(orders.back().begin(), orders.back().end()));
  }
}

TEST(LoaderTest, RankLocalRanksDoNotNeedTheOthersShards) {
  const TestData data({10, 25, 7});
  for (const int shard : {0, 2})
    std::filesystem::remove(data.folder() / "train" / concat("shard-", shard, ".safetensors"));
  const LoaderOptions options{.batch_size = 8, .rank = 1, .world_size = 2, .shuffle = Shuffle::kRankLocal};
  Loader loader(Dataset::open(data.folder(), "train", needed_shards(options)), Pipeline("", {}), options);
  loader.start_epoch(0);
  std::set<uint64_t> seen;
  consume(loader, [&](const Batch& batch) { seen.insert(batch.ids().begin(), batch.ids().begin() + batch.count()); });
  EXPECT_EQ(seen.size(), 25u);
}

TEST(LoaderTest, RankLocalRanksOfEqualSizeDoNotShareOnePermutation) {
  const TestData data({40, 40});
  std::vector<std::vector<uint64_t>> orders(2);
  for (int rank = 0; rank < 2; ++rank) {
    auto loader = make_loader(data, {.batch_size = 80, .rank = rank, .world_size = 2, .shuffle = Shuffle::kRankLocal});
    loader.start_epoch(0);
    consume(loader, [&](const Batch& batch) {
      for (const uint64_t id : batch.ids()) orders[static_cast<size_t>(rank)].push_back((id - 1000) % 40);
    });
  }
  EXPECT_NE(orders[0], orders[1]);
}

TEST(LoaderTest, MakesTheNextEpochAheadUpToTheLast) {
  const TestData data({64});
  auto loader = make_loader(data, {.workers = 2, .prefetch = 2, .batch_size = 16, .epoch_count = 2});
  loader.start_epoch(0);
  consume(loader);
  loader.start_epoch(1);
  consume(loader);
  EXPECT_EQ(loader.statistics().render.count, 128U);  // nothing of epoch 2 has been made
  auto endless = make_loader(data, {.workers = 2, .prefetch = 16, .batch_size = 16});
  endless.start_epoch(0);
  consume(endless);
  while (endless.statistics().render.count < 64 + 16 * 16) std::this_thread::yield();  // 16 batches of epochs 1 to 4
  endless.start_epoch(1);
  EXPECT_EQ(consume(endless), 4);
}

TEST(LoaderTest, LeftOutSamplesAreNotReadAndTheOthersAreAsWithoutThem) {
  const TestData whole({40, 30}), damaged({40, 30});
  damaged.corrupt(3);
  std::vector<testing_data::BatchCopy> expected;
  auto all = make_loader(whole, {.batch_size = 16, .seed = 3}, "flip");
  all.start_epoch(0);
  consume(all, [&](const Batch& batch) { expected.emplace_back(batch); });
  for (const int workers : {0, 2}) {
    auto loader = make_loader(damaged,
                              {.workers = workers,
                               .batch_size = 16,
                               .seed = 3,
                               .epoch_count = 1,
                               .leaves_out = [](uint64_t index) { return index % 3 == 0; }},
                              "flip");
    loader.start_epoch(0);
    size_t made_count = 0;
    consume(loader, [&](const Batch& batch) {
      const auto& other = expected.at(static_cast<size_t>(batch.index()));
      const testing_data::BatchCopy found(batch);
      EXPECT_EQ(found.ids, other.ids);
      EXPECT_EQ(found.labels, other.labels);
      EXPECT_EQ(found.weights, other.weights);
      const size_t row_bytes = found.pixels.size() / found.ids.size();
      for (size_t row = 0; row < found.ids.size(); ++row) {
        const bool is_padding = row >= static_cast<size_t>(batch.count());
        if (!is_padding && (found.ids[row] - 1000) % 3 == 0) continue;
        made_count += is_padding ? 0 : 1;
        EXPECT_EQ(std::memcmp(&found.pixels[row * row_bytes], &other.pixels[row * row_bytes], row_bytes), 0) << row;
      }
    });
    EXPECT_EQ(made_count, 46U);
    EXPECT_EQ(loader.statistics().render.count, made_count);
    EXPECT_EQ(loader.statistics().sample_bytes, made_count * 12 * 12);
  }
  EXPECT_EQ(
      message_of(ErrorKind::kBug,
                 [&] { make_loader(whole, {.leaves_out = [](uint64_t) { return true; }}, "mixup(alpha=1)"); }),
      "loader: leaves samples out, and the transforms mixup(alpha=1) mix rows of a batch; expected one of the two");
}

TEST(LoaderTest, GoesOnTimingBehindASampleThatCannotBeDecoded) {
  const TestData data({20}, {{12, 12, 1}, {12, 12, 1}}, 0);
  auto loader =
      make_loader(data, {.batch_size = 20, .shuffle = Shuffle::kNone, .on_corrupt = OnCorrupt::kMask}, "flip");
  loader.start_epoch(0);
  consume(loader);
  EXPECT_EQ(loader.statistics().masked_count, 1U);
  EXPECT_GT(loader.statistics().render.total_ms, 0);
}

TEST(LoaderTest, GivesSlotsBackWhenTheAllocatorThrows) {
  const TestData data({20});
  int allocated = 0;
  const SlotAllocator allocator{.allocate =
                                    [&](size_t byte_count) {
                                      if (allocated == 3) throw device_error("device: out of memory; expected some");
                                      ++allocated;
                                      return std::aligned_alloc(64, byte_count);
                                    },
                                .release = [&](void* memory, size_t) { --allocated, std::free(memory); }};
  EXPECT_THROW(make_loader(data, {.prefetch = 4, .allocator = allocator}), Error);
  EXPECT_EQ(allocated, 0);
}

TEST(LoaderTest, AnEmptyEpochHasNoBatches) {
  const TestData data({5});
  for (const int workers : {0, 1}) {
    auto loader = make_loader(data, {.workers = workers, .batch_size = 8, .tail = Tail::kDrop});
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      loader.start_epoch(epoch);
      EXPECT_FALSE(loader.next());
    }
    EXPECT_EQ(loader.samples_per_epoch(), 0U);
  }
}

}  // namespace
}  // namespace penstock
