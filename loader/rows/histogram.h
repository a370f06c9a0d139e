// Histogram: durations on a logarithmic scale, written by one thread without contention and read by any.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/clock.h"

namespace penstock::detail {

/// There are eight buckets per octave from 1 ns to 2^40 ns (18 minutes). A bucket is at most 1/8 of its lower edge
/// wide, so that its middle is within 6.25 % of every duration in it. Takes 2.6 KB.
struct DurationBuckets {
  static constexpr int kPerOctaveLog2 = 3, kOctaves = 40;
  static constexpr int kCount = kOctaves << kPerOctaveLog2;

  static int of(uint64_t ns) {
    if (ns < (1U << kPerOctaveLog2)) return static_cast<int>(ns);
    const int octave = std::bit_width(ns) - 1 - kPerOctaveLog2;  // ns >> octave lies in [8, 16)
    const int bucket = (octave << kPerOctaveLog2) + static_cast<int>(ns >> octave);
    return std::min(bucket, kCount - 1);
  }
  static double middle_ns(int bucket) {
    if (bucket < (2 << kPerOctaveLog2)) return bucket;
    const int octave = (bucket >> kPerOctaveLog2) - 1;
    const int lower = bucket - (octave << kPerOctaveLog2);
    return (lower + 0.5) * static_cast<double>(uint64_t{1} << octave);
  }
};

/// The sum of weighted durations over histograms.
struct DurationSum {
  uint64_t weight = 0;
  double total_ns = 0;
  std::array<uint64_t, DurationBuckets::kCount> buckets{};

  double mean_ns() const { return weight == 0 ? 0 : total_ns / static_cast<double>(weight); }
  /// The duration that `share` (0..1) of the weight does not exceed.
  double quantile_ns(double share) const {
    const double wanted = share * static_cast<double>(weight);
    double below = 0;
    for (int bucket = 0; bucket < DurationBuckets::kCount; ++bucket) {
      below += static_cast<double>(buckets[static_cast<size_t>(bucket)]);
      if (below >= wanted && below > 0) return DurationBuckets::middle_ns(bucket);
    }
    return 0;
  }
};

/// Thread-safety: one thread at a time calls add(). Any thread may call add_to() at the same time; it sees every single
/// number whole. The atomics need no read-modify-write: an addition is a plain load and a plain store.
class Histogram {
 public:
  /// `weight` is how many durations this one stands for, when only every n-th is measured.
  void add(int64_t ns, uint64_t weight = 1) {
    const auto duration = static_cast<uint64_t>(std::max<int64_t>(ns, 0));
    raise(weight_, weight);
    raise(total_ns_, duration * weight);
    raise(buckets_[static_cast<size_t>(DurationBuckets::of(duration))], weight);
  }

  void add_to(DurationSum& sum) const {
    sum.weight += weight_.load(std::memory_order_relaxed);
    sum.total_ns += static_cast<double>(total_ns_.load(std::memory_order_relaxed));
    for (size_t i = 0; i < buckets_.size(); ++i) sum.buckets[i] += buckets_[i].load(std::memory_order_relaxed);
  }

 private:
  static void raise(std::atomic<uint64_t>& value, uint64_t amount) {
    value.store(value.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> weight_{0}, total_ns_{0};
  std::array<std::atomic<uint64_t>, DurationBuckets::kCount> buckets_{};
};

/// Times the stages of one row, when the row is one of those that are timed. A stage may have several laps, whose sum
/// write() adds to its histogram.
class StageLaps {
 public:
  explicit StageLaps(uint64_t weight) : weight_(weight), start_ns_(weight > 0 ? now_ns() : 0), last_ns_(start_ns_) {}
  void end_of(Histogram& stage) {
    if (weight_ == 0) return;
    const int64_t now = now_ns();
    size_t number = 0;
    while (number < count_ && sums_[number].stage != &stage) ++number;
    if (number == count_) sums_[count_++] = {&stage, 0};
    sums_[number].ns += now - last_ns_;
    last_ns_ = now;
  }
  void write() const {
    for (size_t number = 0; number < count_; ++number) sums_[number].stage->add(sums_[number].ns, weight_);
  }
  int64_t total_ns() const { return last_ns_ - start_ns_; }

 private:
  static constexpr size_t kMostStages = 4;
  struct Sum {
    Histogram* stage;
    int64_t ns;
  };

  uint64_t weight_;
  int64_t start_ns_, last_ns_;
  std::array<Sum, kMostStages> sums_;  // the first `count_` of them
  size_t count_ = 0;
};

}  // namespace penstock::detail
