// The kernels of the JPEG pixel stage in Highway SIMD, compiled once for each instruction set. The best set is chosen
// at run time.
//
// They need the 16-bit arithmetic of x86 (pmaddwd, packs within 128-bit blocks). Other processors use the plain set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "loader/jpeg/pixels/pixel_kernels.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h
#include "hwy/highway.h"
#include "loader/jpeg/pixels/pixel_kernels.h"
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
#include "loader/jpeg/pixels/idct-inl.h"
#include "loader/jpeg/pixels/idct_reduced-inl.h"
#include "loader/jpeg/pixels/pixel_rows-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace penstock::detail::HWY_NAMESPACE {

const PixelKernels* kernels() {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  static constexpr PixelKernels kKernels{
      {idct_1x1, idct_2x2, idct_4x4, idct_8x8}, blend_rows, double_row, double_rows, ycc_to_rgb, interleave};
  return &kKernels;
#else
  return &kPlainKernels;
#endif
}

}  // namespace penstock::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace penstock::detail {

HWY_EXPORT(kernels);

const PixelKernels& pixel_kernels() { return *HWY_DYNAMIC_DISPATCH(kernels)(); }

}  // namespace penstock::detail
#endif  // HWY_ONCE
