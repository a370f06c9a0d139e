// Test views: their names.
#include "train/options/test_views.h"

#include <map>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace penstock {

TestViews parse_test_views(const std::string& name) {
  static const std::map<std::string, TestViews> known{
      {"flip", TestViews::kFlip}, {"flip-translate", TestViews::kFlipTranslate}, {"none", TestViews::kNone}};
  if (const auto found = known.find(name); found != known.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [one, views] : known) names.push_back(one);
  throw config_error(concat("--tta: ", unknown_name("tta", name, names)));
}

}  // namespace penstock
