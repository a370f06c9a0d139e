// Plan: everything that an augmentation does to one sample, as data. Transforms edit it, and render() executes it once.
//
// Lives here: what is done to one sample, as data, and what follows from it before any pixel is read: its footprint,
// its filters.
// Not here: what transforms draw (augment/draws), and who executes a plan (augment/render.h, loader/device).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "augment/pixels/border.h"
#include "augment/pixels/rounding.h"

namespace penstock {

/// The map x' = xx*x + xy*y + x0, y' = yx*x + yy*y + y0. Coordinates are continuous: the pixel in column c and row r
/// covers [c, c+1) x [r, r+1) and its centre is (c+0.5, r+0.5), so that a resize is a pure scaling.
struct Affine {
  double xx = 1, xy = 0, x0 = 0;
  double yx = 0, yy = 1, y0 = 0;

  static Affine translation(double x, double y) { return {1, 0, x, 0, 1, y}; }
  static Affine scaling(double x, double y) { return {x, 0, 0, 0, y, 0}; }
  /// The map that applies `first`, then this one.
  Affine after(const Affine& first) const;
};

/// Where several transforms ask for a filter, the greatest one wins. The first three sample points, whatever the map.
/// The others are for maps along the axes: they weigh the pixels along each axis, within so many output pixels in the
/// picture where an axis shrinks (Pillow's Image.resize and torchvision's antialias=True), and pixels where it grows.
/// For every other map, those after kAntialias are kBicubic, and kAntialias and those before it kBilinear.
enum class Filter : uint8_t {
  kNearest,
  kBilinear,
  kBicubic,  // 4 x 4 pixels with a = -1, as in Pillow's Image.transform
  kAntialiasBox,
  kAntialiasHamming,
  kAntialias,         // a triangle: Pillow's BILINEAR
  kAntialiasBicubic,  // a = -0.5
  kAntialiasLanczos,
};

/// How a filter samples a map that is not along the axes: kNearest, kBilinear or kBicubic.
constexpr Filter point_filter(Filter filter) {
  if (filter <= Filter::kBicubic) return filter;
  return filter <= Filter::kAntialias ? Filter::kBilinear : Filter::kBicubic;
}

/// A rectangle of a picture, in pixels.
struct Region {
  int x = 0, y = 0, width = 0, height = 0;
  bool operator==(const Region&) const = default;
};

/// What a colour step does to the levels of the whole output. Each one equals torchvision's functional of the same name
/// (0.26) on f32 tensors, scaled to levels 0..255, or with a Rounding that of Pillow or torchvision on whole levels.
/// Every step ends with a clamp to 0..255.
enum class ColorOp : uint8_t {
  kBrightness,    // amount: factor; 0 gives black
  kContrast,      // amount: factor; 0 gives the mean grey of the output before this step
  kSaturation,    // amount: factor; 0 gives grey
  kHue,           // amount: rotation of the hue, -0.5..0.5 of the HSV circle
  kSharpness,     // amount: factor; 0 gives the blurred output, 1 leaves it as it is
  kPosterize,     // amount: the number of highest bits of the rounded level that are kept
  kSolarize,      // amount: rounded levels from this one on become 255 - level
  kAutoContrast,  // in each channel, the least level becomes 0 and the greatest 255
  kEqualize,      // in each channel, the histogram of rounded levels becomes flat
  kSolarizeAdd,   // amount: what is added to rounded levels below 128; timm's (1.0)
  kGaussianBlur   // amount: standard deviation, pixels; see ColorStep::kernel
};

struct ColorStep {
  ColorOp op = ColorOp::kBrightness;
  float amount = 0;
  /// kGaussianBlur: the pixels of the kernel, an odd number, with the border reflected, as torchvision's gaussian_blur.
  /// 0: Pillow's ImageFilter.GaussianBlur, which blurs with three boxes and repeats the edge.
  int kernel = 0;
  Rounding rounding = Rounding::kNone;
  bool operator==(const ColorStep&) const = default;
};

/// Whether a step must see the whole output before it can change any pixel.
bool looks_at_picture(ColorOp op);

/// A rectangle of the output, rows [top, bottom) and columns [left, right), and the levels (0..255) that are written
/// over it. With a noise key every value in it is drawn on its own instead, from the standard normal distribution
/// *after* normalization; it is a function of (key, pixel, channel), or with is_one_color of (key, channel). A layout
/// of levels gets the levels that would be normalised to these values, limited to its range.
struct ErasedRect {
  int top = 0, left = 0, bottom = 0, right = 0;
  std::array<float, 3> level{};
  std::optional<uint64_t> noise_key{};
  bool is_one_color = false;
};

struct Chain;

/// render() executes a plan in this order. The output pixel in column c and row r takes the value of the decoded
/// picture at map(c+0.5, r+0.5), or `fill` where that lies outside of `view`. Then `color` maps the RGB levels (row i:
/// out_i = m[i][0]*R + m[i][1]*G + m[i][2]*B + m[i][3]; a grey picture uses m[0][0] and m[0][3]), then the colour steps
/// are applied in order, then the chains are mixed in, then the erased rectangles are written in order. Normalization
/// and Layout (augment/render.h) come last and are no part of the plan: they are the same for every sample.
///
/// A coordinate inside of the view is sampled with the view's edge pixels repeated (with a filter along the axes, the
/// weights end at the edge and are normalised), so that a resize has no dark rim. A coordinate outside takes `fill`
/// alone. Pillow does the same in both cases; torchvision on tensors instead blends the outermost half pixel of a
/// bilinear affine with `fill`.
///
/// The view is the whole picture until look_only_at() makes it smaller. When an edit crops without look_only_at(), a
/// later edit still sees the picture around the crop, where a chain of separate resamples would see the fill. The
/// colour matrix does not clamp, but each colour step does. Colours come after all geometry: they change `fill` too,
/// and a step that looks at the picture looks at the output.
///
/// With a border, the pixels outside of `inside` are copies of pixels in it, taken before the colours. Each is the copy
/// of a pixel that the output shows.
///
/// Transforms edit the plan in the order in which the user wrote them. A geometric edit is therefore composed on the
/// *output* side: the new map applies the map of the edit first, then the map so far.
struct Plan {
  static constexpr int kMaxErased = 4, kMaxColorSteps = 8;

  int input_height = 0, input_width = 0;    // size of the whole stored picture, pixels
  int output_height = 0, output_width = 0;  // size of the output, pixels
  Region view;                              // the part of the stored picture that may be read
  Affine map;                               // output -> input
  Filter filter = Filter::kNearest;
  std::array<float, 3> fill{};  // levels, 0..255
  Border border = Border::kFill;
  Region inside;  // of the output, and may reach beyond it: where the picture in the border lies. Empty with kFill
  std::array<std::array<float, 4>, 3> color{{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}};
  int color_step_count = 0;
  std::array<ColorStep, kMaxColorSteps> color_steps{};
  float share = 1;                                   // of the picture so far in its mixture with those of the chains
  std::shared_ptr<const std::vector<Chain>> chains;  // shared: a plan is copied. Null: nothing is mixed in
  int erased_count = 0;
  std::array<ErasedRect, kMaxErased> erased{};

  /// The plan that copies the picture.
  static Plan identity(int height, int width);
  /// The plan that turns a picture stored under this EXIF orientation upright.
  static Plan upright(int orientation, int stored_height, int stored_width);
  /// From here on the picture ends at the borders of this rectangle of the output so far ((x, y) is its upper left
  /// corner). It is for a crop that is resized as if it were a picture of its own (random-resized-crop). Call
  /// resample() after it. The view becomes its intersection with the rectangle, rounded outwards to pixels of the
  /// stored picture. When the map is not along the axes, the view does not change.
  void look_only_at(const Region& rect);
  /// From here on, what lies outside of `picture`, a rectangle of the output so far, are copies of pixels in it. Throws
  /// bug_error where there is a border already, and for a pixel that the output would not show.
  void repeat_around(const Region& picture, Border with);
  /// Appends a geometric edit: `output_to_before` maps coordinates of the new output to coordinates of the output so
  /// far. Throws bug_error where there is a border and the edit does more than mirror the whole output.
  void resample(const Affine& output_to_before, int new_height, int new_width);
  /// Appends a colour edit: `edit` is applied after the colour matrix so far. Throws bug_error when the plan already
  /// has a colour step.
  void recolor(const std::array<std::array<float, 4>, 3>& edit);
  /// Appends a colour step. Throws bug_error beyond kMaxColorSteps, when the plan already has an erased rectangle,
  /// which the step would not recolour, and for a blur that is none (is_blur()).
  void adjust(const ColorStep& step);
  void adjust(ColorOp op, float amount, int kernel = 0) { adjust({op, amount, kernel}); }
  /// Mixes in chains that start from the picture so far, which keeps `own_share`. Throws bug_error for a second
  /// mixture, and when the plan already has an erased rectangle. No geometric or colour edit may follow: they throw
  /// bug_error.
  void mix(float own_share, std::vector<Chain> with);
  /// Appends an erased rectangle. Throws bug_error beyond kMaxErased.
  void erase(const ErasedRect& rect);
};

/// A picture that is mixed into that of a plan: the picture of the plan so far, in whole levels, seen through one plan
/// after the other, each of which gives whole levels of the same size.
struct Chain {
  float share = 0;
  std::vector<Plan> stages;
};

/// Whether a map is along the axes: it has no rotation and no shear, but it may flip and turn by 90 degrees. Columns of
/// the output then run along columns of the picture or, where `turns`, along its rows.
struct Axes {
  bool are_kept = false;  // the map is along the axes
  bool turns = false;     // x comes from the output's row and y from its column
};
Axes axes_of(const Affine& map);

/// Whether the map only mirrors and shifts by whole pixels, so that every output pixel's centre falls on a pixel's
/// centre.
bool is_translation(const Affine& map);

/// The smallest scale of 1, 2, 4 and 8 eighths at which a picture may be decoded so that every output pixel still
/// covers at least one decoded pixel in every direction: the smaller singular value of the map, times scale / 8, is 1
/// or more.
int dct_scale(const Plan& plan);

/// The plan for the same picture decoded at `scale` eighths. That picture has (input_height * scale + 7) / 8 rows, and
/// its columns are counted likewise. The view is rounded outwards. Requires scale 1, 2, 4 or 8.
Plan at_dct_scale(const Plan& plan, int scale);

/// The map from the upright picture to the stored one, in continuous coordinates, for EXIF orientations 1 to 8.
/// Orientations 5 to 8 turn by 90 degrees, so that the upright picture is stored_width high. Any other number counts as
/// 1, as in Pillow's exif_transpose.
Affine orientation_map(int orientation, int stored_height, int stored_width);

}  // namespace penstock
