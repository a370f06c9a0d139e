// The kernels of the device renderer as a CUDA device starts them: one block per task. Compiled at run time, with the
// headers beside this file (loader/device/device_renderer.h). PENSTOCK_KERNEL is the number of the one to compile, in the order
// of KernelLaunches: all five take two seconds, and raw pixels need one to three of them.

#if PENSTOCK_KERNEL == 0
#include "loader/device/render_kernel.h"

using namespace penstock::detail;

extern "C" __global__ void penstock_weigh(const __grid_constant__ KernelArguments given) {
  weigh_taps_of({static_cast<int>(blockDim.x)}, given, blockIdx.x);
}

#elif PENSTOCK_KERNEL == 1
#include "loader/device/decode_kernel.h"

using namespace penstock::detail;

extern "C" __global__ void penstock_decode(const __grid_constant__ KernelArguments given) {
  __shared__ GroupShared shared;
  decode_group({static_cast<int>(blockDim.x)}, shared, given, blockIdx.x);
}

#elif PENSTOCK_KERNEL == 2
#include "loader/device/color_kernel.h"

using namespace penstock::detail;

extern "C" __global__ void penstock_color(const __grid_constant__ KernelArguments given) {
  color_tile({static_cast<int>(blockDim.x)}, given, blockIdx.x);
}

#elif PENSTOCK_KERNEL == 3
#include "loader/device/render_kernel.h"

using namespace penstock::detail;

extern "C" __global__ void penstock_render(const __grid_constant__ KernelArguments given) {
  __shared__ RenderShared shared;
  render_row({static_cast<int>(blockDim.x)}, shared, given, blockIdx.x);
}

#elif PENSTOCK_KERNEL == 4
#include "loader/device/recolor_kernel.h"

using namespace penstock::detail;

extern "C" __global__ void penstock_recolor(const __grid_constant__ KernelArguments given) {
  __shared__ RecolorShared shared;
  recolor_row({static_cast<int>(blockDim.x)}, shared, given, blockIdx.x);
}

#endif
