// Test views: their names.
#include "train/options/test_views.h"

#include "core/choice.h"

namespace penstock {

TestViews parse_test_views(const std::string& name) {
  return choice<TestViews>(
      "--tta", name,
      {{"flip", TestViews::kFlip}, {"flip-translate", TestViews::kFlipTranslate}, {"none", TestViews::kNone}}, "tta");
}

}  // namespace penstock
