// Test views: --tta, the views of a picture over which an evaluation takes the mean of the logits.
#pragma once

#include <string>

namespace penstock {

/// kFlip: the picture and its mirror image. kFlipTranslate: half of the mean is that of kFlip, the other half that of
/// the same two views of the picture moved by a pixel up and left, and by one down and right, with its border mirrored
/// (Jordan 2024, arXiv:2404.00498, sec. 3.5): 6 views, of weights 1/4, 1/4 and four times 1/8.
enum class TestViews { kNone, kFlip, kFlipTranslate };

/// none, flip or flip-translate. Throws config_error that names --tta.
TestViews parse_test_views(const std::string& name);

}  // namespace penstock
