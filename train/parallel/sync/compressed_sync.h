// Compressed gradients: buckets that are summed over the ranks in fewer bytes than they have.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

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
  virtual NamedTensors kept() { return {}; }  ///< As GradientSync::kept().
};

using MakeCodec = std::function<std::unique_ptr<BucketCodec>(const NamedTensors& trained, const Bucket&, Comm&)>;

/// As make_bucket_sync(), with a codec for each bucket. `owner` names what the codecs keep.
///
///     time ->
///     compute        | forward | grad b0 | grad b1  | grad b2  | wait     |                             | update
///     communication                      | start b0 | start b1 | start b2 | turn b0 | turn b1 | turn b2 |
///
/// A step that is measured also sums the gradients as they are, at the cost of that sum and of their memory.
std::unique_ptr<GradientSync> make_compressed_sync(const NamedTensors& trained, Comm& comm, Recorder& recorder,
                                                   int backward_count, const std::string& owner,
                                                   const MakeCodec& make_codec);

/// Sums in 16-bit floating point (half of the bytes of f32), without error feedback: each rank rounds its gradients and
/// the collective the partial sums, so that the error of a sum of W ranks is at most 2^-11 W (|g_1| + ... + |g_W|), and
/// 2^-25 per rank for gradients below 2^-14. Gradients above 65504 become infinite, and the run ends as one that
/// diverged.
std::unique_ptr<BucketCodec> make_half_codec(const NamedTensors& trained, const Bucket& bucket, Comm& comm);

/// PowerSGD (Vogels et al. 2019, "PowerSGD: practical low-rank gradient compression for distributed optimization", alg.
/// 1 and 2). The memory of a gradient of 2 or more dimensions is an n x m matrix, n its first dimension. With G_w the
/// gradient of rank w, E_w what earlier steps left out there, and Q (m x r) from the step before:
///
///     D_w = G_w + E_w      P = sum over w of D_w Q          first collective, n r numbers
///     P^ = orthonormal columns of P
///     Q_w = D_w^T P^       Q = sum over w of Q_w            second collective, m r numbers
///     E_w = D_w - P^ Q_w^T                                  the update gets P^ Q^T
///
/// What is left out of a step comes in later ones: the sums of all updates' gradients and of all true ones differ by
/// the sum of E_w. Where r (n + m) >= n m nothing would be saved: such gradients are sent as they are, in the first
/// collective, and so are those of fewer dimensions. Deviations: sums instead of means, as everywhere here; the columns
/// of P become orthonormal by Householder reflections instead of Gram-Schmidt, which also holds if P is 0.
///
/// Memory per rank: a matrix as large as the gradient for E_w. Requires that every rank makes the same codecs.
class PowerSgd {
 public:
  explicit PowerSgd(int rank) : rank_(rank) {}
  std::unique_ptr<BucketCodec> operator()(const NamedTensors& trained, const Bucket& bucket, Comm& comm) const;
  /// Whether a gradient of these sizes is sent as P and Q.
  bool compresses(torch::IntArrayRef sizes) const;
  /// How many numbers a rank sends instead of a gradient of these sizes.
  int64_t sent_count(torch::IntArrayRef sizes) const;

 private:
  int rank_;
};

}  // namespace penstock::detail
