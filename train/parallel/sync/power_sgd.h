// PowerSGD: gradients of low rank, with error feedback.
#pragma once

#include <cstdint>
#include <memory>

#include "train/parallel/sync/compressed_sync.h"

namespace penstock::detail {

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
