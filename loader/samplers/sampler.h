// Sampler: the plug-in that says which samples an epoch has, and how often.
//
// Lives here: which samples of a data set an epoch has and how often: subsets, lists of ids, weights, samplers.
// Not here: the arithmetic of orders and which rows are a rank's (loader/order), and SampleOrder (loader/rows).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/registry.h"
#include "loader/order/weighted_order.h"
#include "loader/shards/dataset.h"

namespace penstock {

/// The rows of one epoch. Thread-safety: immutable.
class SampledEpoch {
 public:
  virtual ~SampledEpoch() = default;
  /// Which element has this position, 0 .. Sampler::rows() - 1, and the number of this copy among the copies of the
  /// element in the epoch, from 0: each is augmented by random numbers of its own. O(log elements).
  virtual Draw at(uint64_t position) const = 0;
};

/// Determinism: epoch() gives the same rows for equal numbers, on every machine and for any ranks: integers alone
/// decide. Thread-safety: const members may be called by several threads.
class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual uint64_t rows() const = 0;  ///< Per epoch.
  /// The epoch must not outlive the sampler. May take milliseconds per million elements.
  virtual std::unique_ptr<const SampledEpoch> epoch(int64_t epoch) const = 0;
  /// For people, before a run: how often which samples occur. "each of 10 classes in 500 rows".
  virtual std::string text() const = 0;
  /// Checksum of what decides beside the spec, such as weights; 0: nothing does.
  virtual uint64_t checksum() const { return 0; }
};

/// What the factory of a sampler gets to know. An element is a sample that the epoch may have: element e is
/// `subset[e]`, or where there is no subset the sample e of the data set. All of it outlives the sampler.
struct SamplerContext {
  const Dataset& dataset;
  const std::vector<uint64_t>* subset;  // indices; null: all samples
  const std::vector<double>* weights;   // those of LoaderOptions, one entry per sample of the data set; null: none
  uint64_t seed;
  bool is_shuffled;
  int64_t batch_size;

  uint64_t size() const { return subset != nullptr ? subset->size() : dataset.size(); }
  uint64_t index_of(uint64_t element) const { return subset != nullptr ? (*subset)[element] : element; }
};

struct SamplerKind {
  using Interface = Sampler;
  static constexpr const char* kName = "sampler";
  using Factory = std::function<std::unique_ptr<Sampler>(const Spec&, const SamplerContext&)>;
};
using SamplerRegistry = Registry<SamplerKind>;

/// The key `rows` of a sampler's spec: rows per epoch, `fallback` if it is not given. Throws config_error unless it is
/// 1 or more.
uint64_t rows_of(const Spec& spec, uint64_t fallback);

}  // namespace penstock
