// Training of a codebook on a sample of the data's blocks.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "loader/jpeg/block_fit.h"
#include "loader/jpeg/codebook.h"
#include "loader/jpeg/coefficients.h"
#include "loader/jpeg/geometry.h"

namespace penstock::detail {

/// Blocks by class. Order matters: append pictures' samples in an order of their own, not in that of threads.
struct TrainingSample {
  std::array<std::vector<BlockNeeds>, kStoreClasses> blocks;
  void append(const TrainingSample& other);
};

/// Evenly spaced groups of a picture, at most about `block_count` blocks of them, at least one group. Throws what
/// `source` throws.
TrainingSample sample_blocks(const JpegGeometry& geometry, CoefficientSource& source, size_t block_count);

/// K-means style, after Linde, Buzo and Gray 1980 (splitting from 1 to 254 entries): a block belongs to the entry that
/// costs it the fewest bits, and an entry's widths are those of the fewest bits for its blocks; so the distance is the
/// length itself, and there is no distortion. An entry that loses its blocks takes half of the costliest one's.
///
/// 1.9 s of one core for 200,000 blocks of each class with AVX-512; a class without blocks gets the other's entries.
/// Determinism: depends on the sample alone, not on `jobs` (threads; 0: one a core) nor on the processor.
Codebook train_codebook(const TrainingSample& sample, int jobs);

}  // namespace penstock::detail
