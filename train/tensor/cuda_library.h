// CUDA library: libpenstock_cuda.so, all of Penstock that needs libtorch_cuda.
#pragma once

#include <string>

namespace penstock {

/// It is loaded before main() where the machine has NVIDIA's driver, and nowhere else: libtorch_cuda, cuBLAS, cuFFT and
/// NCCL, 2 GB together, take four tenths of the processor time of a start (0.63 s with them, 0.40 s without: medians of
/// five by ten, in turn). Returns why it could not be loaded beside a driver, as the dynamic linker says it; ""
/// otherwise. Thread-safety: any thread, from main() on.
const std::string& cuda_library_problem();

}  // namespace penstock
