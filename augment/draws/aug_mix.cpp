// The chains of aug-mix: operations of picture_op.h as stages.
#include "augment/draws/aug_mix.h"

namespace penstock::detail {

Chain aug_mix_chain(float share, const std::vector<AugMixDraw>& draws, const Plan& plan, Filter filter, float fill) {
  const int height = plan.output_height, width = plan.output_width;
  const FullMagnitude full{.shear = 0.3,
                           .translate_x = width / 3.0,
                           .translate_y = height / 3.0,
                           .degrees = 30,
                           .factor = 0.9,
                           .bins = kAugMixBins,
                           .posterized_bits = 4,
                           .always_posterized_bits = 4};
  Chain chain{.share = share, .stages = {}};
  for (const AugMixDraw& draw : draws) {
    if (chain.stages.empty() || is_geometric(draw.op)) {
      chain.stages.push_back(Plan::identity(height, width));
      chain.stages.back().filter = filter;
      chain.stages.back().fill = {fill, fill, fill};
    }
    const double part = static_cast<double>(draw.bin) / (kAugMixBins - 1);
    apply(draw.op, draw.is_negative && has_sign(draw.op) ? -part : part, full, chain.stages.back(), Rounding::kTensor);
  }
  return chain;
}

}  // namespace penstock::detail
