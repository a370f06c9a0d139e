// AnyPixels: an array of Python whose elements are levels of u8, u16 or f32.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "augment/pixels/pixels.h"
#include "core/error.h"
#include "core/text.h"

namespace penstock::python {

namespace nb = nanobind;

/// An array of any dtype and number of dimensions, row-major.
using AnyPixels = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

/// Throws config_error for another dtype.
inline PixelType pixel_type(const AnyPixels& pixels) {
  if (pixels.dtype() == nb::dtype<uint8_t>()) return PixelType::kU8;
  if (pixels.dtype() == nb::dtype<uint16_t>()) return PixelType::kU16;
  if (pixels.dtype() == nb::dtype<float>()) return PixelType::kF32;
  throw config_error(concat("pixels of ", int{pixels.dtype().bits}, " bits; expected u8, u16 or f32"));
}

}  // namespace penstock::python
