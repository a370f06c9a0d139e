// Clipping of gradients: what --clip-grad says, as data, and what it does to gradients that are there.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

namespace penstock {

/// norm=M: all gradients are multiplied by min(1, M / (norm + 1e-6)), where the norm is that of all of them together
/// (Pascanu et al. 2013, arXiv:1211.5063; the 1e-6 is that of torch.nn.utils.clip_grad_norm_). value=M: every number is
/// brought into -M..M. agc=F: the gradient of each filter, row of a matrix, or bias, becomes at most F times as long as
/// its parameters, which count as 1e-3 long at least (Brock et al. 2021, arXiv:2102.06171, sec. 4; the constants are
/// those of timm's adaptive_clip_grad). Deviation from NFNets: the last layer is clipped as well.
struct ClipOptions {
  enum class Kind { kNone, kNorm, kValue, kAgc };
  Kind kind = Kind::kNone;
  double most = 0;
  std::string text = {};  // as it was typed

  bool is_on() const { return kind != Kind::kNone; }
  /// Whether whole parameters are needed, so that modes that cut them into slices refuse it.
  bool needs_whole_tensors() const { return kind == Kind::kAgc; }
};

/// "" is no clipping. Throws config_error.
ClipOptions parse_clip(const std::string& text);

/// Changes `gradients` in place. `norm`: of all gradients of the model, f64 scalar on any device.
void clip_gradients(const ClipOptions& options, const std::vector<torch::Tensor>& parameters,
                    const std::vector<torch::Tensor>& gradients, const torch::Tensor& norm);

}  // namespace penstock
