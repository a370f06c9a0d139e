// Ring: order, slots, errors and hand-over, tested with batches that consist of numbers.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "loader/batch/ring.h"
#include "loader/files/interrupt.h"
#include "tests/support/testing.h"

namespace penstock::detail {
namespace {

constexpr int64_t kRows = 12;

/// A ring in which row r of batch s is the number s * kRows + r. It also checks that no two threads act as the same
/// worker at a time.
class NumberRing {
 public:
  using Hook = std::function<void(int64_t sequence, int64_t begin, int64_t end)>;

  NumberRing(int workers, int prefetch, Hook hook = {}, std::function<void()> on_wait = {})
      : numbers_(static_cast<size_t>(prefetch + Ring::kHeldSlots), std::vector<int64_t>(kRows, -1)),
        busy_(static_cast<size_t>(std::max(workers, 1))),
        ring({.workers = workers, .prefetch = prefetch, .rows = kRows, .on_wait = std::move(on_wait)},
             [this, hook](int64_t sequence, int slot, int64_t begin, int64_t end, int worker) {
               EXPECT_FALSE(busy_[static_cast<size_t>(worker)].exchange(true)) << "two threads are worker " << worker;
               EXPECT_EQ(slot, sequence % static_cast<int64_t>(numbers_.size()));
               for (int64_t row = begin; row < end; ++row)
                 numbers_[static_cast<size_t>(slot)][static_cast<size_t>(row)] = sequence * kRows + row;
               const std::shared_ptr<void> at_exit(nullptr, [&](void*) { busy_[static_cast<size_t>(worker)] = false; });
               if (hook) hook(sequence, begin, end);
             }) {}

  /// Takes the next batch and expects it to be batch `sequence`, with all of its rows.
  int take(int64_t sequence) {
    EXPECT_EQ(ring.next_sequence(), sequence);
    const int slot = ring.take().slot;
    const auto& rows = numbers_[static_cast<size_t>(slot)];
    for (int64_t row = 0; row < kRows; ++row) EXPECT_EQ(rows[static_cast<size_t>(row)], sequence * kRows + row);
    return slot;
  }

 private:
  std::vector<std::vector<int64_t>> numbers_;
  std::vector<std::atomic<bool>> busy_;

 public:
  Ring ring;
};

TEST(RingTest, DeliversBatchesInOrderForAnyWorkersAndPrefetch) {
  for (const int workers : {0, 1, 2, 7}) {
    for (const int prefetch : {1, 3, 16}) {
      NumberRing numbers(workers, prefetch);
      numbers.ring.restart(5, 205);
      for (int64_t sequence = 5; sequence < 205; ++sequence) numbers.ring.release(numbers.take(sequence));
    }
  }
}

TEST(RingTest, AWaitingConsumerMayGiveUpAndTakeTheBatchLater) {
  std::latch gate(1);
  bool gives_up = true;
  NumberRing numbers(
      1, 2, [&](int64_t, int64_t, int64_t) { gate.wait(); },
      [&] {
        if (std::exchange(gives_up, false)) throw std::runtime_error("interrupted");
        if (!gate.try_wait()) gate.count_down();  // the consumer is called again, perhaps often, and goes on waiting
      });
  numbers.ring.restart(0, 10);
  EXPECT_THROW(numbers.ring.take(), std::runtime_error);
  for (int64_t sequence = 0; sequence < 10; ++sequence) numbers.ring.release(numbers.take(sequence));
}

TEST(RingTest, MakesNoMoreThanPrefetchAheadAndNothingFromTheLimitOn) {
  std::atomic<int64_t> taken{0};
  NumberRing numbers(3, 2, [&](int64_t sequence, int64_t, int64_t) {
    EXPECT_LE(sequence, taken.load() + 2);  // the batch after the taken ones may be issued before `taken` is updated
    EXPECT_LT(sequence, 50);
  });
  numbers.ring.restart(0, 50);
  for (; taken < 50; ++taken) numbers.ring.release(numbers.take(taken));
}

TEST(RingTest, KeepsWhatWasMadeWhenTheNextEpochIsWhereItStands) {
  std::vector<std::atomic<int>> made(30);
  NumberRing numbers(2, 4, [&](int64_t sequence, int64_t, int64_t end) { made[sequence] += end == kRows; });
  for (int epoch = 0; epoch < 3; ++epoch) {
    numbers.ring.restart(epoch * 10, 30);
    for (int64_t sequence = epoch * 10; sequence < epoch * 10 + 10; ++sequence)
      numbers.ring.release(numbers.take(sequence));
  }
  for (const auto& count : made) EXPECT_EQ(count, 1);
}

TEST(RingTest, GivesTheErrorOfTheLowestRowAndGoesOn) {
  for (const int workers : {0, 1, 4}) {
    NumberRing numbers(workers, 3, [](int64_t sequence, int64_t begin, int64_t end) {
      if (sequence % 3 != 1) return;
      for (const int64_t row : {4, 9})
        if (row >= begin && row < end) throw std::runtime_error("row " + std::to_string(row));
    });
    numbers.ring.restart(0, 30);
    for (int64_t sequence = 0; sequence < 30; ++sequence) {
      std::string message = "none";
      try {
        numbers.ring.release(numbers.take(sequence));
      } catch (const std::runtime_error& error) {
        message = error.what();
      }
      ASSERT_EQ(message, sequence % 3 == 1 ? "row 4" : "none") << "batch " << sequence << ", " << workers << " workers";
    }
  }
}

TEST(RingTest, GivesTheErrorOfTheLowestRowAlthoughAHigherOneFailedBefore) {
  for (int trial = 0; trial < 100; ++trial) {
    std::latch failed(1);
    NumberRing numbers(4, 1, [&](int64_t, int64_t begin, int64_t end) {
      const bool has_low = begin == 0, has_high = begin <= 2 && 2 < end;
      if (has_high && !has_low) {
        failed.count_down();
        throw std::runtime_error("row 2");
      }
      if (has_low && !has_high) failed.wait();
      if (has_low) throw std::runtime_error("row 0");
    });
    numbers.ring.restart(0, 1);
    try {
      numbers.ring.take();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "row 0");
    }
  }
}

TEST(RingTest, WaitsForAChunkInWorkBeforeItReusesADroppedSlot) {
  std::latch started(1), proceed(1);
  std::atomic<bool> is_left{false};
  NumberRing numbers(2, 1, [&](int64_t sequence, int64_t begin, int64_t) {
    if (sequence == 0 && begin == 0) {
      started.count_down();
      proceed.wait();
      is_left = true;
    }
    EXPECT_TRUE(sequence != 3 || is_left);  // batch 3 is the next one of slot 0
  });
  numbers.ring.restart(0, 100);
  started.wait();
  numbers.ring.restart(3, 100);
  auto later = std::async(std::launch::async, [&] { proceed.count_down(); });
  numbers.ring.release(numbers.take(3));
  later.wait();
}

TEST(RingTest, BlocksWhileEverySlotIsHeldUntilAnotherThreadReleases) {
  for (const int workers : {0, 2}) {
    NumberRing numbers(workers, 2);
    numbers.ring.restart(0, 100);
    std::vector<int> held;
    for (int64_t sequence = 0; sequence < 4; ++sequence) held.push_back(numbers.take(sequence));
    std::thread other([&] { numbers.ring.release(held[0]); });
    EXPECT_EQ(numbers.take(4), held[0]);
    other.join();
  }
}

TEST(RingTest, WorkersAreThreadsAtTheSameTimeAlsoBeyondTheCoresAndInTwoRings) {
  constexpr int kWorkers = 7;
  std::mutex mutex;
  std::condition_variable all_here;
  int present = 0;
  const auto meet = [&](int64_t, int64_t, int64_t) {
    std::unique_lock lock(mutex);
    if (++present == 2 * kWorkers) all_here.notify_all();
    EXPECT_TRUE(all_here.wait_for(lock, std::chrono::seconds(20), [&] { return present >= 2 * kWorkers; }));
  };
  NumberRing one(kWorkers, 1, meet), two(kWorkers, 1, meet);  // 12 chunks each, before any cost is known
  one.ring.restart(0, 1);
  two.ring.restart(0, 1);
  one.take(0);
  two.take(0);
}

TEST(RingTest, EndsWithWorkInFlight) {
  for (int trial = 0; trial < 50; ++trial) {
    NumberRing numbers(4, 8);
    numbers.ring.restart(0, 1000);
    for (int64_t sequence = 0; sequence < trial % 5; ++sequence) numbers.ring.release(numbers.take(sequence));
  }
}

TEST(RingTest, SurvivesRandomRestartsWithBatchesHeldElsewhere) {
  std::mt19937 random(4);
  for (const int workers : {0, 1, 3}) {
    NumberRing numbers(workers, 3, [](int64_t sequence, int64_t begin, int64_t) {
      if (sequence % 11 == 3 && begin == 0) throw std::runtime_error("on purpose");
    });
    std::vector<std::future<void>> releases;
    for (int trial = 0; trial < 200; ++trial) {
      int64_t sequence = static_cast<int64_t>(random() % 40);
      numbers.ring.restart(sequence, 100);
      for (const int64_t end = sequence + static_cast<int64_t>(random() % 12); sequence < end; ++sequence) {
        try {
          const int slot = numbers.take(sequence);
          if (random() % 2 == 0) {
            numbers.ring.release(slot);
          } else {
            releases.push_back(std::async(std::launch::async, [&numbers, slot] { numbers.ring.release(slot); }));
          }
        } catch (const std::runtime_error&) {
          EXPECT_EQ(sequence % 11, 3);
        }
      }
    }
    for (auto& release : releases) release.wait();
  }
}

TEST(ThreadCountersTest, ACounterThatHasGoneDownMakesAllUnknown) {
  const ThreadCounters start{100, 20, {3, 4096}};
  const auto used = used_between(start, {150, 20, {5, 4096}});
  ASSERT_TRUE(used);
  EXPECT_EQ(used->cpu_ns, 50);
  EXPECT_EQ(used->queued_ns, 0);
  EXPECT_EQ(used->storage.major_faults, 2);
  EXPECT_EQ(used->storage.read_bytes, 0);
  // When a thread has ended, some of its files of proc(5) are gone while others are still there.
  EXPECT_FALSE(used_between(start, {0, 20, {5, 4096}}));
  EXPECT_FALSE(used_between(start, {150, 0, {5, 4096}}));
  EXPECT_FALSE(used_between(start, {150, 20, {0, 4096}}));
  EXPECT_FALSE(used_between(start, {150, 20, {5, 0}}));
}

/// What the rows of a ring wait for far away: until somebody interrupts it, or for 20 s, which is then noted.
class FarWait {
 public:
  Ring::Fill fill() {
    return [this](int64_t, int, int64_t, int64_t, int) {
      has_begun = true;
      const int64_t begin_ns = now_ns();
      while (!is_interrupted() && ms_since(begin_ns) < 20e3) std::this_thread::yield();
      if (!is_interrupted()) was_waited_for = true;
    };
  }
  std::atomic<bool> has_begun{false}, was_waited_for{false};
};

TEST(RingInterruptTest, DroppingARingInterruptsWhatItsWorkersWaitFor) {
  FarWait far;
  {
    Ring ring({.workers = 2, .prefetch = 2, .rows = 4}, far.fill());
    ring.restart(0, 8);
    while (!far.has_begun) std::this_thread::yield();
  }
  EXPECT_FALSE(far.was_waited_for);
}

TEST(RingInterruptTest, WithoutWorkersWhatOnWaitThrowsEndsTheWait) {
  FarWait far;
  Ring ring({.workers = 0, .rows = 4, .on_wait = [] { throw io_error("a fetch: was stopped; expected no signal"); }},
            far.fill());
  ring.restart(0, 8);
  EXPECT_EQ(message_of(ErrorKind::kIo, [&] { ring.take(); }), "a fetch: was stopped; expected no signal");
  EXPECT_FALSE(far.was_waited_for);
}

}  // namespace
}  // namespace penstock::detail
