// Timeline: reads a Chrome trace and draws it as one SVG element.
#include "tools/train/study/timeline.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/json_text.h"
#include "core/regular_file.h"
#include "core/text.h"
#include "tools/train/study/html_text.h"

namespace penstock {
namespace {

using Json = nlohmann::json;

constexpr double kWidth = 1000, kLabelWidth = 116, kLaneHeight = 16, kGap = 4, kAxisHeight = 22, kTurnWidth = 60;

struct Track {
  std::string name;
  Lane steps, loads;  // without workers one thread does both, and gets two lanes
};

/// The threads of the lowest pid, which is the lowest rank, by tid.
std::map<int64_t, Track> read_tracks(const Json& events, Timeline& timeline) {
  std::set<int64_t> ranks;
  for (const auto& event : events)
    if (event.value("cat", "") == "step") ranks.insert(event.at("pid").get<int64_t>());
  timeline.rank_count = static_cast<int>(ranks.size());
  std::map<int64_t, Track> tracks;
  for (const auto& event : events) {
    if (ranks.empty() || event.value("pid", int64_t{-1}) != *ranks.begin()) continue;
    const std::string kind = event.at("ph"), category = event.value("cat", "");
    if (kind == "M" && event.at("name") == "thread_name")
      tracks[event.at("tid").get<int64_t>()].name = event.at("args").at("name").get<std::string>();
    if (kind != "X" || (category != "step" && category != "loader")) continue;
    Track& track = tracks[event.at("tid").get<int64_t>()];
    const double start = event.at("ts").get<double>();
    const Json arguments = event.value("args", Json::object());
    (category == "step" ? track.steps : track.loads)
        .bars.push_back({start, start + event.at("dur").get<double>(), event.at("name").get<std::string>(),
                         arguments.value("step", int64_t{0}), arguments.value("epoch", int64_t{0})});
  }
  return tracks;
}

void cut(std::vector<Bar>& bars, const Timeline& timeline) {
  for (auto& bar : bars) {
    bar.start_us = std::max(bar.start_us, timeline.start_us);
    bar.end_us = std::min(bar.end_us, timeline.end_us);
  }
  std::erase_if(bars, [](const Bar& bar) { return bar.end_us <= bar.start_us; });
}

/// A batch is made in pieces. Pieces of one batch become one bar if the time between them is less than a thousandth of
/// the drawing.
void join_pieces(std::vector<Bar>& bars, const Timeline& timeline) {
  const double least_gap_us = (timeline.end_us - timeline.start_us) / 1000;
  std::vector<Bar> joined;
  for (auto& bar : bars) {
    if (!joined.empty() && joined.back().name == bar.name && bar.start_us - joined.back().end_us < least_gap_us)
      joined.back().end_us = std::max(joined.back().end_us, bar.end_us);
    else
      joined.push_back(std::move(bar));
  }
  bars = std::move(joined);
}

/// Fills in the gaps between the steps, and the numbers of the steps. At an epoch's end the trainer asks for one more
/// batch, and that wait belongs to the last step; so the steps are counted by their numbers and not by their bars.
void find_steps_and_gaps(Timeline& timeline) {
  const auto& bars = timeline.lanes.back().bars;
  const double least_gap_us = (timeline.end_us - timeline.start_us) / 1000;
  std::set<int64_t> steps;
  for (size_t i = 0; i < bars.size(); ++i) {
    steps.insert(bars[i].step);
    const bool is_turn = i > 0 && bars[i].epoch != bars[i - 1].epoch;
    if (i == 0 || (!is_turn && bars[i].start_us - bars[i - 1].end_us < least_gap_us)) continue;
    timeline.gaps.push_back({bars[i - 1].end_us, bars[i].start_us, is_turn ? bars[i].epoch : 0});
  }
  timeline.first_step = *steps.begin();
  timeline.last_step = *steps.rbegin();
  timeline.step_count = static_cast<int>(steps.size());
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

/// The distance of the ticks: 1, 2 or 5 times a power of ten, so that at most 10 fit into `span`.
double tick_of(double span) {
  const double power = std::pow(10, std::floor(std::log10(span / 10)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power * 10 >= span) return factor * power;
  return 10 * power;
}

std::string rect(double x, double y, double width, const std::string& name) {
  return concat("<rect class=\"", name, "\" x=\"", fixed(x, 2), "\" y=\"", y, "\" width=\"", fixed(width, 2),
                "\" height=\"", kLaneHeight, "\"");
}

/// A gap in the trainer's lane, at height `y`. The turn of an epoch gets a label, on the side where there is room.
std::string gap_svg(const Gap& gap, double begin_x, double end_x, double y) {
  const std::string length = fixed((gap.end_us - gap.start_us) * 1e-3, 3) + " ms";
  const std::string title = gap.epoch > 0 ? concat("between epochs ", gap.epoch - 1, " and ", gap.epoch, ": ", length)
                                          : concat("between two steps: ", length);
  std::string svg = concat(rect(begin_x, y, end_x - begin_x, "gap"), "><title>", title, "</title></rect>\n");
  if (gap.epoch == 0) return svg;
  const bool is_at_right = end_x > kWidth - kTurnWidth;
  return svg + concat("<text class=\"turn", is_at_right ? " left" : "", "\" x=\"",
                      fixed(is_at_right ? begin_x - 3 : end_x + 3, 2), "\" y=\"", y + kLaneHeight - 4, "\">epoch ",
                      gap.epoch, "</text>\n");
}

}  // namespace

Timeline read_timeline(const std::filesystem::path& trace) {
  const std::string text = read_text(trace, kMostOfLog);
  Timeline timeline;
  try {
    auto tracks = read_tracks(Json::parse(text).at("traceEvents"), timeline);
    std::vector<Lane> loaders;
    Lane trainer{"trainer", {}};
    for (auto& [tid, track] : tracks) {
      if (!track.loads.bars.empty() || track.name.starts_with("loader"))
        loaders.push_back({track.name.starts_with("loader") ? track.name : "loader", std::move(track.loads.bars)});
      trainer.bars.insert(trainer.bars.end(), track.steps.bars.begin(), track.steps.bars.end());
    }
    if (trainer.bars.empty())
      throw corrupt_error(concat(trace.string(), ": has no events of category step; expected the trainer's phases"));
    timeline.start_us = INFINITY;
    for (const auto& bar : trainer.bars) {
      timeline.start_us = std::min(timeline.start_us, bar.start_us);
      timeline.end_us = std::max(timeline.end_us, bar.end_us);
    }
    timeline.lanes = std::move(loaders);
    timeline.lanes.push_back(std::move(trainer));
  } catch (const Json::exception& error) {
    throw corrupt_error(concat(trace.string(), ": ", json_problem(error.what()), "; expected a Chrome trace"));
  }
  for (auto& lane : timeline.lanes) {
    cut(lane.bars, timeline);
    std::sort(lane.bars.begin(), lane.bars.end(), [](const Bar& a, const Bar& b) { return a.start_us < b.start_us; });
    if (&lane != &timeline.lanes.back()) join_pieces(lane.bars, timeline);
  }
  if (timeline.lanes.back().bars.empty())
    throw corrupt_error(concat(trace.string(), ": no event of category step takes any time; expected durations"));
  find_steps_and_gaps(timeline);
  return timeline;
}

std::string timeline_svg(const Timeline& timeline) {
  const double span = std::max(timeline.end_us - timeline.start_us, 1e-3);
  const double scale = (kWidth - kLabelWidth) / span;
  const auto x_of = [&](double us) { return kLabelWidth + (us - timeline.start_us) * scale; };
  const double lanes_height = static_cast<double>(timeline.lanes.size()) * (kLaneHeight + kGap);
  std::string svg = concat("<svg class=\"timeline\" viewBox=\"0 0 ", kWidth, " ", lanes_height + kAxisHeight,
                           "\" role=\"img\" aria-label=\"", html_text(timeline_text(timeline)), "\">\n");
  for (double us = 0; us <= span; us += tick_of(span)) {
    const std::string x = fixed(kLabelWidth + us * scale, 2);
    svg += concat("<line class=\"tick\" x1=\"", x, "\" x2=\"", x, "\" y1=\"0\" y2=\"", lanes_height + 3, "\"/>",
                  "<text class=\"tick\" x=\"", x, "\" y=\"", lanes_height + 16, "\">", us * 1e-3, us == 0 ? " ms" : "",
                  "</text>\n");
  }
  double y = 0;
  for (const auto& lane : timeline.lanes) {
    const bool is_loader = &lane != &timeline.lanes.back();
    svg += concat("<text class=\"name\" x=\"", kLabelWidth - 6, "\" y=\"", y + kLaneHeight - 4, "\">",
                  html_text(lane.name), "</text>\n",
                  rect(kLabelWidth, y, kWidth - kLabelWidth, is_loader ? "lane loader" : "lane trainer"), "/>\n");
    bool is_odd = false;  // neighbouring batches have two shades
    const std::string* previous = nullptr;
    for (const auto& bar : lane.bars) {
      if (previous != nullptr && *previous != bar.name) is_odd = !is_odd;
      previous = &bar.name;
      const std::string kind = !is_loader ? "phase " + bar.name : is_odd ? "load odd" : "load even";
      const std::string title = concat(bar.name, ": ", fixed((bar.end_us - bar.start_us) * 1e-3, 3), " ms");
      svg += concat(rect(x_of(bar.start_us), y, (bar.end_us - bar.start_us) * scale, html_text(kind)), "><title>",
                    html_text(title), "</title></rect>\n");
    }
    y += kLaneHeight + kGap;
  }
  for (const auto& gap : timeline.gaps)
    svg += gap_svg(gap, x_of(gap.start_us), x_of(gap.end_us), y - kLaneHeight - kGap);
  return svg + "</svg>\n";
}

std::string timeline_text(const Timeline& timeline) {
  const double span = timeline.end_us - timeline.start_us;
  std::map<std::string, double> shares;
  for (const auto& bar : timeline.lanes.back().bars) shares[bar.name] += (bar.end_us - bar.start_us) / span;
  for (const auto& gap : timeline.gaps)
    shares[gap.epoch > 0 ? "between epochs" : "between steps"] += (gap.end_us - gap.start_us) / span;
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [name, share] : shares)
    if (share >= 0.005) sorted.emplace_back(share, name);
  std::sort(sorted.rbegin(), sorted.rend());
  std::vector<std::string> parts;
  for (const auto& [share, name] : sorted)
    parts.push_back(concat(name == "host_to_device" ? "host to device" : name, " ", fixed(100 * share, 0), " %"));
  const std::string numbers = timeline.step_count == 1 ? concat("1 step (", timeline.first_step, ")")
                                                       : concat(timeline.step_count, " steps (", timeline.first_step,
                                                                " to ", timeline.last_step, ")");
  return concat(numbers, " in ", fixed(span * 1e-3, 1), " ms: ", join(parts),
                timeline.rank_count > 1 ? concat("; rank 0 of ", timeline.rank_count) : std::string());
}

}  // namespace penstock
