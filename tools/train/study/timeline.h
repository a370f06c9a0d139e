// Timeline: some steps of a run as its trace.json has them, and as a drawing.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace penstock {

struct Bar {
  double start_us = 0, end_us = 0;
  std::string name;  ///< A phase of the trainer, or "batch 123" of a loader.
};
struct Lane {
  std::string name;  ///< "loader worker 0", "trainer"
  std::vector<Bar> bars;
};

/// One rank: its loader workers, in order, and last its trainer.
struct Timeline {
  std::vector<Lane> lanes;
  double start_us = 0, end_us = 0;  ///< The trainer's first and last moment; bars are cut off there.
  int step_count = 0;
  int rank_count = 1;  ///< Of the trace. The first is drawn.
};

/// Reads the complete events ("ph": "X") of the categories `step` and `loader` of a Chrome trace. Throws io_error when
/// there is none, corrupt_error.
Timeline read_timeline(const std::filesystem::path& trace);

/// An SVG element for a page. Its rectangles have classes (`lane`, `phase wait`, `load even`, ...) and no colours.
std::string timeline_svg(const Timeline& timeline);

/// "20 steps in 61.3 ms: wait 62 %, forward 11 %, ...": the phases that are 0.5 % or more, longest first.
std::string timeline_text(const Timeline& timeline);

}  // namespace penstock
