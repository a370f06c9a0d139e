// --exact: what must be the same for all runs of the same bits, in addition to what modes do.
#pragma once

#include <string>
#include <vector>

#include "train/options/options.h"

namespace penstock {

/// Throws config_error if the mode of `options` cannot train with --exact, or not with its optimiser.
void check_exact_mode(const TrainOptions& options);

/// Lets LibTorch and oneDNN take the kernels for AVX2 on every processor, and MKL those that it has on all of them,
/// whatever the environment says, and those that this process starts too. With --exact-kernels native they take what
/// they choose for this processor. Must be called before the first operation of LibTorch, because each library reads
/// its variables once. Returns a line for every variable of the environment that had another value. Throws device_error
/// on a processor without AVX2 and FMA, unless the kernels are native.
std::vector<std::string> pin_kernels(const TrainOptions& options);

/// What must be equal at all ranks: "avx2", or "native of AMD EPYC with AVX512".
std::string kernels_text(const TrainOptions& options);

/// "exact: 8 shards of 8 rows per batch, ...\n".
std::string exact_text(const TrainOptions& options);

}  // namespace penstock
