// Precision: what --precision says, as data.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>

namespace penstock {

/// What convolutions and linear layers compute in. Without a dtype in that of their parameters.
struct Precision {
  std::string name = "f32";  // f32, tf32, bf16 or f16
  std::optional<c10::ScalarType> dtype = {};
  /// Loss scaling (Micikevicius et al. 2018, arXiv:1710.03740, sec. 3.2): gradients between half-precision tensors are
  /// this many times as large, so that fewer of them round to 0; those of parameters and of f32 tensors are not.
  /// Deviation: the scale is applied where a gradient enters the half-precision layers, and taken off in each layer,
  /// and so holds in every mode. A power of two changes no bit but by range.
  double gradient_scale = 1;
  int64_t growth_steps = 0;  // as GradientScale has it, which begins at gradient_scale; 0: the scale stays as it is
  bool is_channels_last = false;  // filters, and so the maps, lie in memory as N x H x W x C

  bool adapts() const { return growth_steps > 0; }
};

/// What --precision says: f32, tf32, bf16, f16(init=65536,every=2000), whose scale adapts, or f16(scale=1024). Throws
/// config_error.
Precision parse_precision(const std::string& text);

}  // namespace penstock
