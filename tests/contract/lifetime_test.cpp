// The contracts of memory, errors and lifetime: bounded, in order, at any moment.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/machine.h"
#include "tests/loader/loader_test_data.h"

namespace penstock {
namespace {

using testing_data::BatchCopy;
using testing_data::consume;
using testing_data::pipeline_for;
using testing_data::TestData;

constexpr const char* kSpec = "affine(degrees=10,translate=0.1),flip(p=0.5)";

Loader make_random_loader(const TestData& data, LoaderOptions options, const std::string& spec = kSpec) {
  const auto dataset = data.open();
  return {dataset, pipeline_for(*dataset, spec), std::move(options)};
}

TEST(LifetimeContract, MemoryIsAllocatedOnceAndDoesNotGrow) {
  const TestData data({150, 150});
  std::atomic<int> allocations{0}, releases{0};
  std::atomic<size_t> byte_count{0};
  {
    auto loader = make_random_loader(data, {.workers = 2,
                                            .prefetch = 3,
                                            .batch_size = 16,
                                            .allocator = {[&](size_t bytes) {
                                                            ++allocations;
                                                            byte_count += bytes;
                                                            return std::aligned_alloc(64, bytes);
                                                          },
                                                          [&](void* memory, size_t) {
                                                            ++releases;
                                                            std::free(memory);
                                                          }}});
    const auto run_epochs = [&](int64_t first, int64_t count) {
      for (int64_t epoch = first; epoch < first + count; ++epoch) {
        loader.start_epoch(epoch);
        consume(loader);
      }
    };
    run_epochs(0, 5);
    const int64_t before = resident_bytes();
    run_epochs(5, 20);
    EXPECT_LT(resident_bytes() - before, 20 * 1'000'000);  // under 1 MB an epoch
    EXPECT_EQ(allocations, 5);                             // prefetch + 2
    EXPECT_EQ(byte_count, loader.slot_bytes());
    EXPECT_EQ(releases, 0);
  }
  EXPECT_EQ(releases, 5);
}

TEST(LifetimeContract, BatchKStandsInSlotKModSlots) {
  const TestData data({100});
  for (const int workers : {0, 3}) {
    auto loader = make_random_loader(data, {.workers = workers, .prefetch = 2, .batch_size = 16});
    std::map<int64_t, const std::byte*> slots;
    for (const auto& [epoch, first] : std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {1, 0}, {7, 3}, {2, 1}}) {
      loader.start_epoch(epoch, first);
      consume(loader, [&](const Batch& batch) {
        const int64_t slot = (batch.epoch() * loader.batches_per_epoch() + batch.index()) % 4;
        ASSERT_EQ(slots.emplace(slot, batch.pixels().data()).first->second, batch.pixels().data());
        ASSERT_EQ(reinterpret_cast<uintptr_t>(batch.pixels().data()) % 64, 0U);
      });
    }
    EXPECT_EQ(slots.size(), 4U);
  }
}

TEST(LifetimeContract, BatchesThatAreGivenAwayStayAsTheyWereAndStopNobody) {
  const TestData data({200});
  for (const int workers : {0, 1, 3}) {
    for (const int prefetch : {1, 2, 5}) {
      auto lender = make_random_loader(data, {.workers = workers, .prefetch = prefetch, .batch_size = 8});
      const auto dataset = data.open();
      const LoaderOptions options{
          .workers = workers, .prefetch = prefetch, .batch_size = 8, .gives_batches_away = true};
      auto giver = std::make_unique<Loader>(dataset, pipeline_for(*dataset, kSpec), options);
      std::vector<Batch> held;
      std::vector<BatchCopy> expected;
      for (const auto& [epoch, first] : std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {1, 0}, {5, 20}}) {
        lender.start_epoch(epoch, first);
        consume(lender, [&](const Batch& batch) { expected.emplace_back(batch); });
        giver->start_epoch(epoch, first);
        while (auto batch = giver->next()) held.push_back(std::move(*batch));
      }
      giver.reset();  // the batches outlive it
      ASSERT_EQ(held.size(), expected.size());
      for (size_t i = 0; i < held.size(); ++i) EXPECT_EQ(BatchCopy(held[i]), expected[i]) << "batch " << i;
    }
  }
}

TEST(LifetimeContract, MemoryOfBatchesThatAreGivenAwayGrowsByNeedAndShrinksAgain) {
  const TestData data({400});
  std::atomic<int> blocks{0}, allocations{0};
  {
    auto loader = make_random_loader(data, {.workers = 2,
                                            .prefetch = 3,
                                            .batch_size = 8,
                                            .allocator = {[&](size_t bytes) {
                                                            ++blocks;
                                                            ++allocations;
                                                            return std::aligned_alloc(64, bytes);
                                                          },
                                                          [&](void* memory, size_t) {
                                                            --blocks;
                                                            std::free(memory);
                                                          }},
                                            .gives_batches_away = true});
    EXPECT_EQ(blocks, 3);  // prefetch
    loader.start_epoch(0);
    std::optional<Batch> last;
    while (auto batch = loader.next()) last = std::move(batch);  // at most two are held at a time, as in a Python loop
    EXPECT_EQ(allocations, 5);                                   // prefetch + 2, as many as a loader has that lends
    last.reset();
    std::vector<Batch> all;
    loader.start_epoch(1);
    while (auto batch = loader.next()) all.push_back(std::move(*batch));
    EXPECT_EQ(blocks, 3 + 50);
    all.clear();
    EXPECT_EQ(blocks, 3 + 5);  // prefetch + 2 are kept
  }
  EXPECT_EQ(blocks, 0);
}

TEST(LifetimeContract, ErrorsTravelInOrderAndNameTheSample) {
  const TestData data({100, 100});
  data.corrupt(37);
  data.corrupt(150);
  for (const int workers : {0, 1, 4}) {
    auto loader = make_random_loader(data, {.workers = workers, .batch_size = 20, .shuffle = Shuffle::kNone});
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      loader.start_epoch(epoch);
      for (int64_t batch = 0; batch < 10; ++batch) {
        std::string message;
        try {
          const auto got = loader.next();
          ASSERT_TRUE(got);
          EXPECT_EQ(got->index(), batch);
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
          message = error.what();
        }
        if (batch == 1) {
          EXPECT_NE(message.find("shard-0.safetensors: sample 37 (id 1037) at byte "), std::string::npos) << message;
        } else if (batch == 7) {
          EXPECT_NE(message.find("shard-1.safetensors: sample 50 (id 1150) at byte "), std::string::npos) << message;
        } else {
          EXPECT_EQ(message, "") << "batch " << batch;
        }
      }
      EXPECT_FALSE(loader.next());
    }
  }
}

TEST(LifetimeContract, OfTwoCorruptSamplesInABatchTheLowerRowIsNamed) {
  const TestData data({128});
  data.corrupt(40);
  data.corrupt(90);
  for (int trial = 0; trial < 20; ++trial) {
    auto loader = make_random_loader(data, {.workers = 4, .batch_size = 128, .shuffle = Shuffle::kNone});
    loader.start_epoch(0);
    try {
      loader.next();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("sample 40 "), std::string::npos) << error.what();
    }
  }
}

TEST(LifetimeContract, ACorruptSampleIsSubstitutedWhenAsked) {
  const TestData data({100});
  data.corrupt(37);
  for (const int workers : {0, 2}) {
    auto loader = make_random_loader(data, {.workers = workers,
                                            .batch_size = 10,
                                            .shuffle = Shuffle::kNone,
                                            .epoch_count = 1,
                                            .on_corrupt = OnCorrupt::kMask});
    loader.start_epoch(0);
    consume(loader, [](const Batch& batch) {
      ASSERT_EQ(batch.count(), 10);
      for (size_t row = 0; row < 10; ++row) {
        const bool is_broken = batch.ids()[row] == 1037;
        ASSERT_EQ(batch.weights()[row], is_broken ? 0 : 1);
        ASSERT_EQ(batch.labels()[row], static_cast<int64_t>((batch.ids()[row] - 1000) % 10));
        const size_t bytes = batch.pixels().size() / 10;
        const auto pixels = batch.pixels().subspan(row * bytes, bytes);
        const bool is_zero =
            std::all_of(pixels.begin(), pixels.end(), [](std::byte byte) { return byte == std::byte{0}; });
        ASSERT_EQ(is_zero, is_broken);
      }
    });
    EXPECT_EQ(loader.statistics().masked_count, 1U);
  }
}

TEST(LifetimeContract, ASampleThatDoesNotDecodeIsNamedOrSubstituted) {
  const TestData data({20}, {{12, 12, 1}, {12, 12, 1}}, 13);
  for (const int workers : {0, 2}) {
    LoaderOptions options{.workers = workers, .batch_size = 10, .shuffle = Shuffle::kNone};
    auto strict = make_random_loader(data, options);
    strict.start_epoch(0);
    EXPECT_TRUE(strict.next());
    try {
      strict.next();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      EXPECT_NE(std::string(error.what()).find("sample 13 (id 1013) at byte "), std::string::npos) << error.what();
    }
    options.on_corrupt = OnCorrupt::kMask;
    auto lenient = make_random_loader(data, options);
    lenient.start_epoch(0);
    std::vector<float> weights;
    consume(lenient,
            [&](const Batch& batch) { weights.insert(weights.end(), batch.weights().begin(), batch.weights().end()); });
    for (size_t row = 0; row < 20; ++row) EXPECT_EQ(weights.at(row), row == 13 ? 0 : 1);
  }
}

TEST(LifetimeContract, ABatchMayBeReleasedOnAnotherThread) {
  const TestData data({300});
  for (const int workers : {0, 2}) {
    auto loader = make_random_loader(data, {.workers = workers, .prefetch = 2, .batch_size = 16});
    loader.start_epoch(0);
    std::vector<std::future<void>> releases;
    consume(loader, [](const Batch&) {});
    loader.start_epoch(1);
    while (auto batch = loader.next())
      releases.push_back(std::async(std::launch::async, [held = std::move(*batch)]() mutable {
        const Batch dies_here = std::move(held);
        EXPECT_EQ(dies_here.weights()[0], 1);
      }));
    for (auto& release : releases) release.wait();
    EXPECT_EQ(releases.size(), static_cast<size_t>(loader.batches_per_epoch()));
  }
}

TEST(LifetimeContract, TheLoaderEndsAtAnyMoment) {
  const TestData data({300});
  for (int trial = 0; trial < 60; ++trial) {
    auto loader = make_random_loader(data, {.workers = trial % 5, .prefetch = 4, .batch_size = 16});
    if (trial % 4 == 0) continue;
    loader.start_epoch(0);
    for (int batch = 0; batch < trial % 7; ++batch) ASSERT_TRUE(loader.next());
    if (trial % 3 == 0) loader.start_epoch(9, 2);
  }
}

TEST(LifetimeContract, RandomRestartsAgreeWithTheCallersThread) {
  const TestData data({90, 60});
  data.corrupt(77);
  const auto outcome_of = [](Loader& loader) -> std::variant<std::string, BatchCopy, std::monostate> {
    try {
      if (const auto batch = loader.next()) return BatchCopy(*batch);
      return std::monostate();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  for (const int workers : {1, 3}) {
    auto expected = make_random_loader(data, {.workers = 0, .prefetch = 1, .batch_size = 12});
    auto loader = make_random_loader(data, {.workers = workers, .prefetch = 3, .batch_size = 12});
    std::mt19937 random(11);
    int64_t epoch = 0;
    for (int trial = 0; trial < 200; ++trial) {
      epoch = random() % 2 == 0 ? epoch + 1 : static_cast<int64_t>(random() % 5);
      const int64_t first = random() % 2 == 0 ? 0 : static_cast<int64_t>(random() % 14);
      expected.start_epoch(epoch, first);
      loader.start_epoch(epoch, first);
      const auto steps = static_cast<int>(random() % 16);  // up to behind the end, or an early break
      for (int step = 0; step < steps; ++step)
        ASSERT_TRUE(outcome_of(loader) == outcome_of(expected)) << "trial " << trial << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace penstock
