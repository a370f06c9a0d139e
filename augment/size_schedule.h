// SizeSchedule: the size of rendered pictures as a function of the epoch ("progressive resizing").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "augment/transform.h"

namespace penstock {

/// `0:128,6:160,12:224`: epochs 0 to 5 have pictures of size 128, 6 to 11 of 160, and all later ones of 224. A value.
class SizeSchedule {
 public:
  struct Stage {
    int64_t first_epoch;
    int size;  ///< What the key `size` of the transform that sets the size gets, pixels.
    bool operator==(const Stage&) const = default;
  };

  SizeSchedule() = default;  ///< Empty: all epochs have the size that the transforms say.
  /// `where` begins messages. "" is empty. Throws config_error for a text that is no list of EPOCH:SIZE, whose first
  /// epoch is not 0 or whose epochs do not ascend, and for a size that is not 1 to 65535.
  SizeSchedule(const std::string& where, const std::string& text);

  bool is_empty() const { return stages_.empty(); }
  const std::vector<Stage>& stages() const { return stages_; }
  /// The number of the stage that `epoch` belongs to. Requires a schedule that is not empty.
  size_t stage_of(int64_t epoch) const;
  int size_of(int64_t epoch) const { return stages_[stage_of(epoch)].size; }  ///< Requires the same.
  std::string text() const;                                                   ///< As it would be typed.

 private:
  std::vector<Stage> stages_;
};

/// The size that a list of transforms says: the key `size` of its last transform that sets the size
/// (TransformTraits::sets_size). Nothing where there is none, or where it has `height` and `width`.
std::optional<int> stated_size(const std::string& spec_list);

/// The list with `size` in the place of stated_size(). What is random draws from the same streams as before. Throws
/// config_error where there is no stated_size().
std::string with_size(const std::string& spec_list, int size);
/// The same for a pipeline.
Pipeline with_size(const Pipeline& pipeline, int size);

/// `pipeline` as the schedule has it in `epoch`.
Pipeline in_epoch(const Pipeline& pipeline, const SizeSchedule& schedule, int64_t epoch);

}  // namespace penstock
