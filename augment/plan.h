// Plan: everything an augmentation does to one sample, as data: edited by transforms, executed once by render().
#pragma once

#include <array>
#include <cstdint>

namespace penstock {

/// Height, width in pixels; channels 1 (grey) or 3 (RGB).
struct Extent {
  int height = 0;
  int width = 0;
  int channels = 0;
  bool operator==(const Extent&) const = default;
};

/// x' = xx*x + xy*y + x0, y' = yx*x + yy*y + y0. Coordinates are continuous: pixel (column c, row r) covers
/// [c, c+1) x [r, r+1) and its centre is (c+0.5, r+0.5), so that a resize is a pure scaling.
struct Affine {
  double xx = 1, xy = 0, x0 = 0;
  double yx = 0, yy = 1, y0 = 0;

  static Affine translation(double x, double y) { return {1, 0, x, 0, 1, y}; }
  static Affine scaling(double x, double y) { return {x, 0, 0, 0, y, 0}; }
  /// The map that applies `first`, then this one.
  Affine after(const Affine& first) const;
};

/// In rising order: where several transforms ask, the greatest wins.
enum class Filter : uint8_t {
  kNearest,
  kBilinear,
  /// A triangle as wide as an output pixel is in the picture, along each axis that shrinks: Pillow's BILINEAR and
  /// torchvision's antialias=True. Bilinear along an axis that grows, and wherever the map is not along the axes.
  kAntialias,
};

/// A rectangle of a picture, in pixels.
struct Region {
  int x = 0, y = 0, width = 0, height = 0;
  bool operator==(const Region&) const = default;
};

/// What one colour step does to the levels of the whole output: the functional of that name of torchvision (0.26) on
/// f32 tensors, scaled to 0..255. Every step ends with a clamp to 0..255.
enum class ColorOp : uint8_t {
  kBrightness,    // amount: factor, 0 is black
  kContrast,      // amount: factor, 0 is the mean grey of the output as it stands before this step
  kSaturation,    // amount: factor, 0 is grey
  kHue,           // amount: turns of the HSV circle, -0.5..0.5
  kSharpness,     // amount: factor, 0 is blurred, 1 as it is
  kPosterize,     // amount: the number of bits of a whole level that stay
  kSolarize,      // amount: whole levels from this one on become 255 - level
  kAutoContrast,  // a channel's least level becomes 0, its greatest 255
  kEqualize       // a channel's histogram of whole levels becomes flat
};

struct ColorStep {
  ColorOp op = ColorOp::kBrightness;
  float amount = 0;
  bool operator==(const ColorStep&) const = default;
};

/// Whether a step must see the whole output before it can change a pixel.
bool looks_at_picture(ColorOp op);

/// Rows [top, bottom) and columns [left, right) of the output, and what they are overwritten with: levels, 0..255.
struct ErasedRect {
  int top = 0, left = 0, bottom = 0, right = 0;
  std::array<float, 3> level{};
};

/// Output pixel (c, r) takes the value of the decoded picture at map(c+0.5, r+0.5); outside of `view`, `fill`. Then
/// `color` maps the RGB levels (row i: out_i = m[i][0]*R + m[i][1]*G + m[i][2]*B + m[i][3]; a grey picture uses m[0][0]
/// and m[0][3]), then the colour steps follow one another, then the erased rectangles are written, in order.
/// Normalisation and layout come after: OutputFormat.
///
/// A coordinate inside the view is sampled with the view's edge pixels repeated (kAntialias: its weights end there and
/// are normalised), so a resize has no dark rim; one outside takes `fill` whole. That is Pillow's rule for both;
/// torchvision on tensors instead blends the outermost half pixel of a bilinear affine with `fill`. The view is the
/// whole picture until look_only_at() makes it smaller: after an edit that crops without it, a later one still sees
/// the picture around the crop, where a chain of separate resamples would see its fill. The colour matrix does not
/// clamp, each colour step does. Colours come after all geometry: they change `fill` too, and a step that looks at the
/// picture looks at the output.
///
/// Transforms edit in the order in which the user wrote them, so geometry composes on the *output* side:
/// map = map_so_far after(edit's output->input map).
struct Plan {
  static constexpr int kMaxErased = 4, kMaxColorSteps = 8;

  int input_height = 0, input_width = 0;    // of the whole stored picture, pixels
  int output_height = 0, output_width = 0;  // pixels
  Region view;                              // the part of the stored picture that is looked at
  Affine map;                               // output -> input
  Filter filter = Filter::kNearest;
  std::array<float, 3> fill{};  // levels, 0..255
  std::array<std::array<float, 4>, 3> color{{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}};
  int color_step_count = 0;
  std::array<ColorStep, kMaxColorSteps> color_steps{};
  int erased_count = 0;
  std::array<ErasedRect, kMaxErased> erased{};

  /// The plan that copies the picture.
  static Plan identity(int height, int width);
  /// The plan that turns a picture stored under this EXIF orientation upright.
  static Plan upright(int orientation, int stored_height, int stored_width);
  /// From here on the picture ends at the borders of this rectangle of the output so far (x, y its upper left corner):
  /// what a crop does that is resized as a picture of its own (random-resized-crop). Follow it by resample(). The view
  /// becomes its intersection with the rectangle, rounded outwards to pixels of the stored picture; a map that is not
  /// along the axes leaves the view as it is.
  void look_only_at(const Region& rect);
  /// Appends a geometric edit: `output_to_before` maps the new output's coordinates to those of the output so far.
  void resample(const Affine& output_to_before, int new_height, int new_width);
  /// Appends a colour edit: `edit` is applied after the colour matrix so far. Throws bug_error behind a colour step.
  void recolor(const std::array<std::array<float, 4>, 3>& edit);
  /// Appends a colour step. Throws bug_error beyond kMaxColorSteps and behind an erase, which it would not recolour.
  void adjust(ColorOp op, float amount);
  /// Throws bug_error beyond kMaxErased.
  void erase(const ErasedRect& rect);
};

/// The rectangle of the stored picture that the plan can look at, margin of the filter included, clipped to the view;
/// empty (width or height 0) when the plan looks only outside. In pixels.
Region footprint(const Plan& plan);

/// The map is along the axes: no rotation, no shear; flips and turns by 90 degrees may be. Columns of the output then
/// run along columns of the picture, or along its rows where `turns`.
struct Axes {
  bool are_kept = false;  // the map is along the axes
  bool turns = false;     // x comes from the output's row, y from its column
};
Axes axes_of(const Affine& map);

/// Every output pixel is one pixel, or four neighbours' mix. False where it is a sum over as many as it covers:
/// kAntialias along the axes, unless the map is a shift by whole pixels.
bool samples_points(const Plan& plan);

/// The smallest of 1, 2, 4, 8 eighths at which a picture may be decoded so that every output pixel still has at least
/// one decoded pixel in every direction: the map's smaller singular value, times scale / 8, is 1 or more.
int dct_scale(const Plan& plan);

/// The plan for the same picture decoded at `scale` eighths: (input_height * scale + 7) / 8 rows, columns likewise.
/// The view is rounded outwards. Requires scale 1, 2, 4 or 8.
Plan at_dct_scale(const Plan& plan, int scale);

/// Oriented -> stored, in continuous coordinates, for a picture stored under EXIF orientation 1 to 8 (of which 5 to 8
/// turn, so that the oriented picture is stored_width high). Any other number is 1, as Pillow's exif_transpose has it.
Affine orientation_map(int orientation, int stored_height, int stored_width);

}  // namespace penstock
