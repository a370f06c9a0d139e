// Test views: their names.
#include "train/options/test_views.h"

namespace penstock {

std::vector<std::string> test_view_names() { return {"flip", "flip-translate", "none"}; }

TestViews test_views_of(const std::string& name) {
  if (name == "flip") return TestViews::kFlip;
  return name == "flip-translate" ? TestViews::kFlipTranslate : TestViews::kNone;
}

}  // namespace penstock
