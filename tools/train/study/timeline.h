// Timeline: some steps of a run, read from its trace.json and drawn.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

struct Bar {
  double start_us = 0, end_us = 0;
  std::string name;             ///< A phase of the trainer, or "batch 123" in a loader's lane.
  int64_t step = 0, epoch = 0;  ///< In the trainer's lane: from 1, as in the trace; 0 where the trace has none.
};
/// A stretch between two steps that belongs to neither: the end of an epoch, a record, a checkpoint.
struct Gap {
  double start_us = 0, end_us = 0;
  int64_t epoch = 0;  ///< The epoch that begins after this gap; 0: both steps are of one epoch.
};
struct Lane {
  std::string name;  ///< "loader worker 0", "trainer"
  std::vector<Bar> bars;
};

/// One rank: the lanes of its loader workers in order, then the lane of its trainer.
struct Timeline {
  std::vector<Lane> lanes;
  /// Begin of the trainer's first bar and end of its last one; other bars are cut off there.
  double start_us = 0, end_us = 0;
  std::vector<Gap> gaps;  ///< Gaps of the trainer, in order: turns of an epoch, and all that are at least a thousandth
                          ///< of the drawing.
  int64_t first_step = 0, last_step = 0;
  int step_count = 0;
  int rank_count = 1;  ///< Ranks in the trace. The first of them is drawn.
};

/// Reads the complete events ("ph": "X") of the categories `step` and `loader` in a Chrome trace. Throws io_error if
/// there is no such file, and corrupt_error if it is no such trace.
Timeline read_timeline(const std::filesystem::path& trace);

/// An SVG element for a page. Its rectangles have classes (`lane`, `phase wait`, `load even`, ...) and no colours.
std::string timeline_svg(const Timeline& timeline);

/// "20 steps (10 to 29) in 61.3 ms: wait 62 %, forward 11 %, ...": the phases with 0.5 % or more, longest first. The
/// gaps are "between epochs" and "between steps".
std::string timeline_text(const Timeline& timeline);

}  // namespace penstock
