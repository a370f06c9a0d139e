// Timeline: some steps of a run as its trace.json has them, and as a drawing.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

struct Bar {
  double start_us = 0, end_us = 0;
  std::string name;             ///< A phase of the trainer, or "batch 123" of a loader.
  int64_t step = 0, epoch = 0;  ///< Of the trainer's, from 1, as the trace has them; 0 where it does not say.
};
/// A stretch between two steps that is part of neither: what is done at an epoch's end, a record, a checkpoint.
struct Gap {
  double start_us = 0, end_us = 0;
  int64_t epoch = 0;  ///< The epoch that begins after this gap; 0: both steps are of one epoch.
};
struct Lane {
  std::string name;  ///< "loader worker 0", "trainer"
  std::vector<Bar> bars;
};

/// One rank: its loader workers, in order, and last its trainer.
struct Timeline {
  std::vector<Lane> lanes;
  double start_us = 0, end_us = 0;  ///< The trainer's first and last moment; bars are cut off there.
  std::vector<Gap> gaps;  ///< The trainer's, in order: epochs' turns, and others of a thousandth of the drawing.
  int64_t first_step = 0, last_step = 0;
  int step_count = 0;
  int rank_count = 1;  ///< Of the trace. The first is drawn.
};

/// Reads the complete events ("ph": "X") of the categories `step` and `loader` of a Chrome trace. Throws io_error when
/// there is none, corrupt_error.
Timeline read_timeline(const std::filesystem::path& trace);

/// An SVG element for a page. Its rectangles have classes (`lane`, `phase wait`, `load even`, ...) and no colours.
std::string timeline_svg(const Timeline& timeline);

/// "20 steps (10 to 29) in 61.3 ms: wait 62 %, forward 11 %, ...": the phases that are 0.5 % or more, longest first;
/// "between epochs" and "between steps" are the gaps.
std::string timeline_text(const Timeline& timeline);

}  // namespace penstock
