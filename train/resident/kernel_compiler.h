// compile_kernel(): a kernel of the device renderer as machine code of a GPU, compiled at run time by NVRTC.
#pragma once

#include <cstddef>
#include <vector>

namespace penstock {

/// Machine code (a cubin) for GPUs of the compute capability `major`.`minor`; `kernel` is its number among
/// KernelLaunches. Takes 0.1 to 0.8 s. Needs no GPU. A process compiles each kernel once, and keeps the code or the
/// error: feeders of training and of test data, and ranks that are threads, need the same.
///
/// NVRTC comes with LibTorch for CUDA and is loaded when it is first needed. No compiler is needed where Penstock is
/// built, and the code is always that of the GPU in the machine. Products are not fused with sums (-fmad=false), so
/// that results have the bits of the processor's.
/// Errors: device_error, with the compiler's first complaint, or if NVRTC is missing or does not know the capability.
/// Thread-safety: any thread.
std::vector<char> compile_kernel(int major, int minor, size_t kernel);

}  // namespace penstock
