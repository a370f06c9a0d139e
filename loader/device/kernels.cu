// The kernels of the device decoder as a CUDA device starts them: one block per task. Compiled at run time, with the
// headers beside this file (loader/device_decoder.h).
#include "loader/device/color_kernel.h"
#include "loader/device/decode_kernel.h"
#include "loader/device/recolor_kernel.h"
#include "loader/device/render_kernel.h"

using namespace penstock;
using namespace penstock::detail;

extern "C" __global__ void penstock_weigh(const __grid_constant__ KernelArguments given) {
  weigh_taps_of({static_cast<int>(blockDim.x)}, given, blockIdx.x);
}

extern "C" __global__ void penstock_decode(const __grid_constant__ KernelArguments given) {
  __shared__ GroupShared shared;
  decode_group({static_cast<int>(blockDim.x)}, shared, given, blockIdx.x);
}

extern "C" __global__ void penstock_color(const __grid_constant__ KernelArguments given) {
  color_tile({static_cast<int>(blockDim.x)}, given, blockIdx.x);
}

extern "C" __global__ void penstock_render(const __grid_constant__ KernelArguments given) {
  __shared__ RenderShared shared;
  render_row({static_cast<int>(blockDim.x)}, shared, given, blockIdx.x);
}

extern "C" __global__ void penstock_recolor(const __grid_constant__ KernelArguments given) {
  __shared__ RecolorShared shared;
  recolor_row({static_cast<int>(blockDim.x)}, shared, given, blockIdx.x);
}
