// random-iou-crop: cuts out a random part that overlaps a box (Liu et al. 2016, "SSD", sec. 2.2), drawn as by
// torchvision's RandomIoUCrop (0.26).
//
// A least overlap is drawn from iou=a:b:c. One of 1 or more leaves the picture as it is. Otherwise up to `trials`
// windows are drawn: sides of a fraction in `scale` of the picture's, drawn for each and rounded down, then a corner.
// The first window is taken whose width / height is in `ratio`, that has the middle of a box inside, and that overlaps
// one of these boxes by the least overlap (intersection over union) or more. After `trials` windows the overlap is
// drawn again.
//
// Deviations: after 100 overlaps the picture stays as it is (torchvision goes on for ever); so it does at once without
// a box. Boxes whose middle is outside are not removed here, but by the rule center=true of the column of boxes.
#include <algorithm>
#include <cctype>
#include <memory>
#include <vector>

#include "augment/targets/boxes.h"
#include "augment/transform.h"
#include "augment/transforms/arguments.h"

namespace penstock {
namespace {

struct Windows {
  Range scale{0.3, 1}, ratio{0.5, 2};  // of a side to the picture's; width / height
  std::vector<double> overlaps{0, 0.1, 0.3, 0.5, 0.7, 0.9, 1};
  int trials = 40;
};

double overlap(const Box& box, const Region& window) {
  const double x0 = window.x, y0 = window.y, x1 = x0 + window.width, y1 = y0 + window.height;
  const double width = std::max(0.0, std::min<double>(box.x1, x1) - std::max<double>(box.x0, x0));
  const double height = std::max(0.0, std::min<double>(box.y1, y1) - std::max<double>(box.y0, y0));
  const double box_area = (static_cast<double>(box.x1) - box.x0) * (static_cast<double>(box.y1) - box.y0);
  const double both = width * height, either = box_area + (x1 - x0) * (y1 - y0) - both;
  return either > 0 ? both / either : 0;
}

class RandomIouCrop final : public Transform {
 public:
  RandomIouCrop(const Windows& windows, std::string field) : windows_(windows), field_(std::move(field)) {}

  std::string boxes_field() const override { return field_; }
  void edit(Plan&, Rng&) const override {}  // without boxes

  void edit_by_boxes(Plan& plan, Rng& rng, std::span<const Box> stored) const override {
    constexpr int kRounds = 100;
    const auto boxes = move_boxes(stored, plan);
    if (boxes.empty()) return;
    const int last = static_cast<int>(windows_.overlaps.size()) - 1;
    for (int round = 0; round < kRounds; ++round) {
      const double least = windows_.overlaps[static_cast<size_t>(rng.between(0, last))];
      if (least >= 1) return;
      for (int trial = 0; trial < windows_.trials; ++trial) {
        const Region window = draw(plan, rng);
        if (!fits(window, boxes, least)) continue;
        plan.look_only_at(window);
        plan.resample(Affine::translation(window.x, window.y), window.height, window.width);
        return;
      }
    }
  }

 private:
  /// An empty window where the drawn sides are refused; then no corner is drawn.
  Region draw(const Plan& plan, Rng& rng) const {
    const int width = static_cast<int>(plan.output_width * rng.uniform(windows_.scale.low, windows_.scale.high));
    const int height = static_cast<int>(plan.output_height * rng.uniform(windows_.scale.low, windows_.scale.high));
    if (width == 0 || height == 0) return {};
    const double ratio = static_cast<double>(width) / height;
    if (ratio < windows_.ratio.low || ratio > windows_.ratio.high) return {};
    const int left = static_cast<int>((plan.output_width - width) * rng.uniform());
    const int top = static_cast<int>((plan.output_height - height) * rng.uniform());
    return {left, top, width, height};
  }

  static bool fits(const Region& window, const std::vector<MovedBox>& boxes, double least) {
    if (window.width == 0) return false;
    return std::any_of(boxes.begin(), boxes.end(), [&](const MovedBox& moved) {
      const double x = 0.5 * (moved.box.x0 + moved.box.x1), y = 0.5 * (moved.box.y0 + moved.box.y1);
      const bool has_middle =
          window.x < x && x < window.x + window.width && window.y < y && y < window.y + window.height;
      return has_middle && overlap(moved.box, window) >= least;
    });
  }

  Windows windows_;
  std::string field_;
};

std::unique_ptr<Transform> make(const Spec& spec, const DataStatistics&) {
  Windows windows;
  windows.scale = spec.get("scale", windows.scale);
  if (windows.scale.low <= 0 || windows.scale.high > 1)
    throw config_error(concat(spec.where(), ": scale is ", windows.scale.low, ":", windows.scale.high,
                              "; expected fractions of the sides, more than 0 and up to 1"));
  windows.ratio = spec.get("ratio", windows.ratio);
  if (windows.ratio.low <= 0)
    throw config_error(concat(spec.where(), ": ratio is ", windows.ratio.low, "; expected more than 0"));
  windows.overlaps = spec.get("iou", windows.overlaps);
  for (const double least : windows.overlaps)
    if (!(least >= 0)) throw config_error(concat(spec.where(), ": iou is ", least, "; expected 0 or more"));
  windows.trials = spec.get("trials", windows.trials);
  if (windows.trials < 1 || windows.trials > 500)
    throw config_error(concat(spec.where(), ": trials is ", windows.trials, "; expected 1 to 500"));
  const std::string field = spec.get("field", "boxes");
  const bool is_name = !field.empty() && std::all_of(field.begin(), field.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
  if (!is_name) throw config_error(concat(spec.where(), ": field is ", in_quotes(field), "; expected its name"));
  return std::make_unique<RandomIouCrop>(windows, field);
}

const Registered<TransformKind> kRegistered{
    "random-iou-crop",
    {"scale", "ratio", "iou", "trials", "field"},
    "cut out a random part that overlaps a box: scale=low:high of the picture's sides (default 0.3:1), ratio=low:high "
    "of width to height (0.5:2), iou=a:b:c, one of which is the least overlap, where 1 means no crop "
    "(0:0.1:0.3:0.5:0.7:0.9:1), trials=COUNT for each overlap (40), field=FIELD with the boxes (boxes)",
    make,
    {.test_spec = "random-iou-crop(ratio=0.2:5)", .excludes = {"random-iou-crop"}}};

}  // namespace
}  // namespace penstock
