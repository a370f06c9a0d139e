// compile_kernels(): the device decoder's kernels as machine code of a GPU, compiled at run time by NVRTC.
#pragma once

#include <vector>

namespace penstock {

/// Machine code (a cubin) for GPUs of the compute capability `major`.`minor`. Takes about a second. Needs no GPU.
///
/// NVRTC comes with LibTorch for CUDA and is loaded when it is first needed. No compiler is needed where Penstock is
/// built, and the code is always that of the GPU in the machine. Products are not fused with sums (-fmad=false), so
/// that results have the bits of the processor's.
/// Errors: device_error, with the compiler's first complaint, or if NVRTC is missing or does not know the capability.
std::vector<char> compile_kernels(int major, int minor);

}  // namespace penstock
