// digits: draws digits that look like handwriting, so that there are data without a download.
//
// There are two or three ways of writing each digit, as polylines and quadratic Bezier curves on a unit square. A
// sample picks one, jitters its control points, bends, slants, turns, scales and shifts it, and draws it with a pen of
// random width, by the distance of each pixel's centre to the strokes. Only +, -, *, / and sqrt are used, which IEEE
// 754 rounds exactly, so that the pixels are the same on every machine.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"
#include "loader/sources/source.h"

namespace penstock {
namespace {

struct Point {
  double x, y;  // 0..1, y downwards
};

/// A stroke: its points in order. With `is_curve` they are start, control, end, control, end, ... of quadratic Beziers.
struct Stroke {
  bool is_curve;
  std::vector<Point> points;
};
using Glyph = std::vector<Stroke>;

Stroke line(std::vector<Point> points) { return {false, std::move(points)}; }
Stroke curve(std::vector<Point> points) { return {true, std::move(points)}; }

/// A closed oval of four Beziers that begins at its top.
Stroke oval(double x, double y, double rx, double ry) {
  const double kx = rx * 0.92, ky = ry * 0.92;  // a quarter's control point, pulled in to make the oval less square
  return curve({{x, y - ry},
                {x + kx, y - ky},
                {x + rx, y},
                {x + kx, y + ky},
                {x, y + ry},
                {x - kx, y + ky},
                {x - rx, y},
                {x - kx, y - ky},
                {x, y - ry}});
}

/// The ways of writing each digit.
const std::array<std::vector<Glyph>, 10>& glyphs() {
  static const std::array<std::vector<Glyph>, 10> kGlyphs{{
      {{oval(.5, .5, .3, .45)},
       {curve({{.6, .06}, {.2, .1}, {.2, .5}, {.2, .95}, {.5, .95}, {.82, .95}, {.8, .5}, {.78, .1}, {.45, .08}})}},
      {{line({{.5, .05}, {.5, .95}})},
       {line({{.32, .25}, {.55, .05}, {.55, .95}})},
       {line({{.3, .22}, {.52, .05}, {.52, .95}}), line({{.28, .95}, {.76, .95}})}},
      {{curve({{.2, .28}, {.25, .05}, {.5, .05}, {.8, .05}, {.78, .32}, {.74, .58}, {.2, .95}}),
        line({{.2, .95}, {.82, .93}})},
       {curve({{.22, .2},
               {.45, -.05},
               {.7, .15},
               {.9, .4},
               {.5, .72},
               {.25, .95},
               {.18, .88},
               {.2, .72},
               {.45, .85},
               {.7, .98},
               {.86, .84}})}},
      {{curve(
           {{.22, .15}, {.5, -.05}, {.72, .17}, {.85, .42}, {.42, .48}, {.9, .5}, {.8, .78}, {.65, 1.05}, {.18, .86}})},
       {line({{.2, .07}, {.75, .07}, {.45, .42}}), curve({{.45, .42}, {.86, .42}, {.82, .7}, {.74, 1.02}, {.2, .88}})}},
      {{line({{.6, .05}, {.18, .65}, {.85, .65}}), line({{.65, .4}, {.65, .95}})},
       {line({{.25, .08}, {.22, .5}, {.74, .5}}), line({{.76, .05}, {.7, .95}})}},
      {{line({{.78, .07}, {.3, .07}, {.26, .45}}), curve({{.26, .45}, {.8, .32}, {.8, .68}, {.76, 1.02}, {.2, .9}})},
       {curve({{.3, .1}, {.22, .3}, {.28, .46}, {.76, .36}, {.78, .66}, {.74, 1.0}, {.22, .92}}),
        line({{.3, .1}, {.8, .06}})}},
      {{curve({{.68, .05},
               {.25, .25},
               {.23, .65},
               {.25, .98},
               {.52, .95},
               {.8, .92},
               {.78, .68},
               {.7, .45},
               {.48, .5},
               {.25, .55},
               {.24, .72}})},
       {curve({{.5, .04}, {.2, .4}, {.24, .7}, {.32, 1.0}, {.6, .92}, {.84, .8}, {.7, .6}, {.5, .46}, {.26, .74}})}},
      {{line({{.18, .08}, {.82, .08}, {.42, .95}})},
       {line({{.2, .1}, {.8, .07}}), curve({{.8, .07}, {.5, .5}, {.45, .95}})},
       {line({{.18, .08}, {.82, .08}, {.42, .95}}), line({{.36, .5}, {.76, .48}})}},
      {{oval(.5, .27, .22, .22), oval(.5, .72, .28, .24)},
       {curve({{.72, .15},
               {.4, -.05},
               {.3, .2},
               {.28, .38},
               {.52, .5},
               {.86, .7},
               {.68, .88},
               {.45, 1.04},
               {.28, .8},
               {.26, .62},
               {.52, .48},
               {.8, .3},
               {.72, .15}})}},
      {{oval(.5, .3, .26, .25), curve({{.76, .3}, {.78, .6}, {.62, .95}})},
       {curve({{.74, .2}, {.5, -.05}, {.3, .2}, {.2, .52}, {.5, .52}, {.72, .48}, {.76, .2}}),
        line({{.76, .2}, {.7, .95}})},
       {oval(.48, .28, .24, .23), curve({{.72, .25}, {.82, .98}, {.28, .9}})}},
  }};
  return kGlyphs;
}

/// How much samples vary. The values are tuned so that LeNet ends between 97 and 99.5 % after 3 epochs and a linear
/// model below 93 %.
constexpr double kJitter = 0.082;                     // glyph units, of each control point
constexpr double kBend = 0.19;                        // glyph units, of the quadratic bend at the edge
constexpr double kSlant = 0.42;                       // shear: how far x moves per unit of y
constexpr double kTurn = 0.19;                        // tangent of the angle, nearly the angle in radians
constexpr double kMinScale = 0.48, kMaxScale = 0.76;  // share of the picture's side
constexpr double kShift = 0.09;                       // share of the picture's side
constexpr double kMinPen = 0.028, kMaxPen = 0.062;    // share of the picture's side; half the width of a stroke
constexpr int kNoise = 34;                            // levels, up and down
constexpr int kSegmentsPerCurve = 6;

/// The map from glyph units, centred on 0, to pixels.
class Hand {
 public:
  Hand(Rng& rng, int size) {
    slant_ = rng.uniform(-kSlant, kSlant);
    bend_x_ = rng.uniform(-kBend, kBend);
    bend_y_ = rng.uniform(-kBend, kBend);
    // The rotation needs no sine and cosine: it is given by the unit vector along (1, turn).
    const double turn = rng.uniform(-kTurn, kTurn);
    cosine_ = 1 / std::sqrt(1 + turn * turn);
    sine_ = turn * cosine_;
    scale_x_ = rng.uniform(kMinScale, kMaxScale) * size;
    scale_y_ = rng.uniform(kMinScale + 0.08, kMaxScale + 0.04) * size;
    shift_x_ = (0.5 + rng.uniform(-kShift, kShift)) * size;
    shift_y_ = (0.5 + rng.uniform(-kShift, kShift)) * size;
  }

  Point place(Point point) const {
    double x = point.x - 0.5, y = point.y - 0.5;
    const double bent_x = x + bend_x_ * (4 * y * y - 0.33), bent_y = y + bend_y_ * (4 * x * x - 0.33);
    x = (bent_x - slant_ * bent_y) * scale_x_;
    y = bent_y * scale_y_;
    return {shift_x_ + cosine_ * x - sine_ * y, shift_y_ + sine_ * x + cosine_ * y};
  }

 private:
  double slant_, bend_x_, bend_y_, cosine_, sine_, scale_x_, scale_y_, shift_x_, shift_y_;
};

struct Segment {
  Point from, to;
};

/// The strokes of one glyph as straight segments in pixels.
std::vector<Segment> trace(const Glyph& glyph, const Hand& hand, Rng& rng) {
  std::vector<Segment> segments;
  for (const auto& stroke : glyph) {
    auto points = stroke.points;
    for (auto& point : points)
      point = {point.x + rng.uniform(-kJitter, kJitter), point.y + rng.uniform(-kJitter, kJitter)};
    Point last = hand.place(points[0]);
    const auto draw_to = [&](Point point) {
      const Point next = hand.place(point);
      segments.push_back({last, next});
      last = next;
    };
    if (!stroke.is_curve) {
      for (size_t i = 1; i < points.size(); ++i) draw_to(points[i]);
      continue;
    }
    for (size_t i = 0; i + 2 < points.size(); i += 2) {
      for (int step = 1; step <= kSegmentsPerCurve; ++step) {
        const double t = static_cast<double>(step) / kSegmentsPerCurve, u = 1 - t;
        const auto mix = [&](double a, double b, double c) { return u * u * a + 2 * u * t * b + t * t * c; };
        draw_to(
            {mix(points[i].x, points[i + 1].x, points[i + 2].x), mix(points[i].y, points[i + 1].y, points[i + 2].y)});
      }
    }
  }
  return segments;
}

/// A grid of squared distances to the nearest stroke, in pixels^2; far from every stroke they stay at kFar.
class DistanceMap {
 public:
  static constexpr double kFar = 1e12;

  explicit DistanceMap(int size) : size_(size), squared_(static_cast<size_t>(size) * size, kFar) {}

  /// Looks only at the pixels within `reach` of the segment's box, because the pen leaves no ink beyond them.
  void add(const Segment& segment, double reach) {
    const double dx = segment.to.x - segment.from.x, dy = segment.to.y - segment.from.y;
    const double length = dx * dx + dy * dy;
    const int left = pixel(std::min(segment.from.x, segment.to.x) - reach);
    const int right = pixel(std::max(segment.from.x, segment.to.x) + reach);
    const int bottom = pixel(std::max(segment.from.y, segment.to.y) + reach);
    for (int row = pixel(std::min(segment.from.y, segment.to.y) - reach); row <= bottom; ++row) {
      for (int column = left; column <= right; ++column) {
        const double px = column + 0.5 - segment.from.x, py = row + 0.5 - segment.from.y;
        const double along = length > 0 ? std::clamp((px * dx + py * dy) / length, 0.0, 1.0) : 0;
        const double x = px - along * dx, y = py - along * dy;
        auto& nearest = squared_[static_cast<size_t>(row) * size_ + column];
        nearest = std::min(nearest, x * x + y * y);
      }
    }
  }

  const std::vector<double>& squared() const { return squared_; }

 private:
  int pixel(double position) const { return static_cast<int>(std::clamp(position, 0.0, size_ - 1.0)); }

  int size_;
  std::vector<double> squared_;
};

class Digits final : public Source {
 public:
  Digits(const Spec& spec, const std::string& split) {
    const int seed = spec.get("seed", 0);
    const int count = spec.get("count", split == "train" ? 12000 : split == "test" ? 2000 : 14000);
    size_ = spec.get("size", 28);
    if (count < 1) throw config_error(concat("source digits: count is ", count, "; expected 1 or more"));
    if (size_ < 8 || size_ > 4096) throw config_error(concat("source digits: size is ", size_, "; expected 8 to 4096"));
    if (seed < 0) throw config_error(concat("source digits: seed is ", seed, "; expected 0 or more"));
    seed_ = static_cast<uint64_t>(seed);
    count_ = static_cast<uint64_t>(count);
    train_count_ = split == "train" ? count_ : split == "test" ? 0 : count_ - count_ / 7;
  }

  uint64_t size() const override { return count_; }
  std::vector<std::string> class_names() const override { return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}; }
  int64_t label(uint64_t index) const override { return static_cast<int64_t>(part(index).second % 10); }

  SourceSample read(uint64_t index) const override {
    const auto [stream, row] = part(index);
    Rng rng(seed_, stream, row, 0), noise(seed_, stream, row, 1);
    const auto& ways = glyphs()[row % 10];
    const auto& glyph = ways[static_cast<size_t>(rng.between(0, static_cast<int>(ways.size()) - 1))];
    const Hand hand(rng, size_);
    const auto segments = trace(glyph, hand, rng);
    const double pen = rng.uniform(kMinPen, kMaxPen) * size_, ink = rng.uniform(190, 255);
    SourceSample sample{std::vector<uint8_t>(static_cast<size_t>(size_) * size_), Encoding::kRaw, {size_, size_, 1}};
    DistanceMap distance(size_);
    for (const auto& segment : segments) distance.add(segment, pen + 1);
    for (size_t i = 0; i < sample.bytes.size(); ++i) {
      const double cover = std::clamp(pen + 0.5 - std::sqrt(distance.squared()[i]), 0.0, 1.0);
      const double level = ink * cover + noise.between(-kNoise, kNoise) + 0.5;
      sample.bytes[i] = static_cast<uint8_t>(std::clamp(level, 0.0, 255.0));
    }
    return sample;
  }

  std::string fingerprint() const override {
    return concat("digits 1 ", seed_, " ", size_, " ", count_, " ", train_count_);
  }
  std::optional<Extent> raw_extent() const override { return Extent{size_, size_, 1}; }

 private:
  /// The random stream (0 train, 1 test) and the row in it. Split `all` is the train samples followed by the test
  /// samples.
  std::pair<uint32_t, uint64_t> part(uint64_t index) const {
    return index < train_count_ ? std::pair(0u, index) : std::pair(1u, index - train_count_);
  }

  uint64_t seed_ = 0, count_ = 0, train_count_ = 0;
  int size_ = 28;
};

const Registered<SourceKind> kDigits{
    "digits",
    {"count", "size", "seed"},
    "grey pictures of digits, which are generated, not downloaded: count=SAMPLES (default: 12000 for train, 2000 for "
    "test), size=PIXELS of a side (28), seed (0)",
    [](const Spec& spec, const std::filesystem::path&, const std::string& split) {
      return std::make_unique<Digits>(spec, split);
    }};

}  // namespace
}  // namespace penstock
