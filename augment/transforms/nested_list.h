// NestedList: the transforms of a list that is a value of another transform's key, as in apply and choice.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "augment/transform.h"

namespace penstock::detail {

/// Its transforms draw one after the other from the stream of the transform that holds it.
class NestedList {
 public:
  /// Reads `text`, such as `{grayscale(p=1),rotate(degrees=9)}` or `flip`; `{}` has no transforms. Throws config_error
  /// for what a list has to know of before it draws: transforms that set the size, erase, normalise, mix batches,
  /// alternate, look at boxes, mix in chains or leave a border of copies.
  NestedList(const Spec& outer, std::string_view text, const DataStatistics& statistics);

  int color_steps() const { return color_steps_; }
  bool moves() const { return moves_; }  ///< whether one of its transforms is geometric
  void edit(Plan& plan, Rng& rng) const {
    for (const auto& transform : transforms_) transform->edit(plan, rng);
  }

 private:
  std::vector<std::unique_ptr<Transform>> transforms_;
  int color_steps_ = 0;
  bool moves_ = false;
};

}  // namespace penstock::detail
