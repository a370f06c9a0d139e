// Compressed gradients: buckets that are summed over the ranks in fewer bytes than they have.
#pragma once

#include <functional>
#include <memory>

#include "train/parallel/strategy/buckets.h"
#include "train/parallel/strategy/gradient_sync.h"

namespace penstock::detail {

/// How one bucket is summed. A step calls start(), turn() and finish() once each, in this order; what the first two
/// return has been waited for before the next is called.
class BucketCodec {
 public:
  virtual ~BucketCodec() = default;
  /// Starts to sum the bucket's gradients, those of this rank.
  virtual std::unique_ptr<Comm::Work> start() = 0;
  /// A second collective; null: one is enough.
  virtual std::unique_ptr<Comm::Work> turn() { return nullptr; }
  /// Leaves the sum where the gradients were.
  virtual void finish() = 0;
  virtual NamedTensors kept() { return {}; }  ///< As GradientSync::rank_local_state().
};

using MakeCodec = std::function<std::unique_ptr<BucketCodec>(const NamedTensors& trained, const Bucket&, Comm&)>;

/// As make_bucket_sync(), with a codec for each bucket. `owner` names what the codecs keep.
///
///     time ->
///     compute        | forward | grad b0 | grad b1  | grad b2  | wait     |                             | update
///     communication                      | start b0 | start b1 | start b2 | turn b0 | turn b1 | turn b2 |
///
/// A step that is measured also sums the gradients as they are, at the cost of that sum and of their memory.
std::unique_ptr<GradientSync> make_compressed_sync(const SyncContext& context, const std::string& owner,
                                                   const MakeCodec& make_codec);

/// Sums in 16-bit floating point (half of the bytes of f32), without error feedback: each rank rounds its gradients and
/// the collective the partial sums, so that the error of a sum of W ranks is at most 2^-11 W (|g_1| + ... + |g_W|), and
/// 2^-25 per rank for gradients below 2^-14. Gradients above 65504 become infinite, and the run ends as one that
/// diverged.
std::unique_ptr<BucketCodec> make_half_codec(const NamedTensors& trained, const Bucket& bucket, Comm& comm);

}  // namespace penstock::detail
