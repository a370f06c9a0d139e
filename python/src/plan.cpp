// penstock._native.plan() and render(): what an augmentation draws for a sample, as numbers, and a picture made by
// them.
#include "augment/plan/plan.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "augment/pixels/blur_taps.h"
#include "augment/render.h"
#include "core/choice.h"
#include "core/error.h"
#include "core/text.h"
#include "python/src/module.h"
#include "python/src/native_loader.h"
#include "python/src/pixels.h"

namespace penstock::python {
namespace {

using nanobind::literals::operator""_a;

using Rectangle = std::array<int64_t, 4>;
using Step = std::variant<std::tuple<std::string, float>, std::tuple<std::string, float, int>,
                          std::tuple<std::string, float, std::string>>;
using Noise = std::tuple<std::string, uint64_t>;  // "color" and the key: all pixels alike
using Filling = std::variant<std::array<float, 3>, uint64_t, Noise>;
using Erased = std::tuple<int64_t, int64_t, int64_t, int64_t, Filling>;

constexpr int64_t kMostPixels = int64_t{1} << 24;  // per side: up to here an f32 has every whole number
constexpr double kMostLevels = 1e6, kMostAmount = 1000;
constexpr size_t kMostChains = 64, kMostStages = 64;

const std::map<std::string, Filter> kFilters{{"nearest", Filter::kNearest},
                                             {"bilinear", Filter::kBilinear},
                                             {"bicubic", Filter::kBicubic},
                                             {"antialias", Filter::kAntialias},
                                             {"antialias_box", Filter::kAntialiasBox},
                                             {"antialias_hamming", Filter::kAntialiasHamming},
                                             {"antialias_bicubic", Filter::kAntialiasBicubic},
                                             {"antialias_lanczos", Filter::kAntialiasLanczos}};
const std::map<std::string, Border> kBorders{
    {"fill", Border::kFill}, {"edge", Border::kEdge}, {"reflect", Border::kReflect}, {"symmetric", Border::kSymmetric}};
const std::map<std::string, ColorOp> kColorOps{
    {"brightness", ColorOp::kBrightness},     {"contrast", ColorOp::kContrast},
    {"saturation", ColorOp::kSaturation},     {"hue", ColorOp::kHue},
    {"sharpness", ColorOp::kSharpness},       {"posterize", ColorOp::kPosterize},
    {"solarize", ColorOp::kSolarize},         {"autocontrast", ColorOp::kAutoContrast},
    {"equalize", ColorOp::kEqualize},         {"solarize_add", ColorOp::kSolarizeAdd},
    {"gaussian_blur", ColorOp::kGaussianBlur}};
const std::map<std::string, Rounding> kRoundings{{"pillow", Rounding::kPillow}, {"tensor", Rounding::kTensor}};

template <class Value>
const std::string& word_of(Value value, const std::map<std::string, Value>& names) {
  return std::find_if(names.begin(), names.end(), [&](const auto& known) { return known.second == value; })->first;
}

Rectangle rectangle(const Region& region) { return {region.x, region.y, region.width, region.height}; }

nb::dict as_dict(const Plan& plan);

/// (share, plans) of each chain.
nb::list as_list(const Plan& plan) {
  nb::list chains;
  if (!plan.chains) return chains;
  for (const Chain& chain : *plan.chains) {
    nb::list stages;
    for (const Plan& stage : chain.stages) stages.append(as_dict(stage));
    chains.append(nb::make_tuple(chain.share, stages));
  }
  return chains;
}

nb::dict as_dict(const Plan& plan) {
  std::vector<Step> steps;
  for (const ColorStep& step : std::span(plan.color_steps).first(static_cast<size_t>(plan.color_step_count))) {
    const std::string& name = word_of(step.op, kColorOps);
    if (step.op == ColorOp::kGaussianBlur)
      steps.emplace_back(std::tuple(name, step.amount, step.kernel));
    else if (step.rounding != Rounding::kNone)
      steps.emplace_back(std::tuple(name, step.amount, word_of(step.rounding, kRoundings)));
    else
      steps.emplace_back(std::tuple(name, step.amount));
  }
  std::vector<Erased> erased;
  for (int i = 0; i < plan.erased_count; ++i) {
    const ErasedRect& rect = plan.erased[i];
    Filling with = rect.level;
    if (rect.noise_key && rect.is_one_color)
      with = Noise("color", *rect.noise_key);
    else if (rect.noise_key)
      with = *rect.noise_key;
    erased.emplace_back(rect.top, rect.left, rect.bottom, rect.right, with);
  }
  const Affine& m = plan.map;
  nb::dict dict;
  dict["input_height"] = plan.input_height;
  dict["input_width"] = plan.input_width;
  dict["output_height"] = plan.output_height;
  dict["output_width"] = plan.output_width;
  dict["map"] = nb::make_tuple(m.xx, m.xy, m.x0, m.yx, m.yy, m.y0);
  dict["view"] = rectangle(plan.view);
  dict["filter"] = word_of(plan.filter, kFilters);
  dict["fill"] = plan.fill;
  dict["border"] = word_of(plan.border, kBorders);
  dict["inside"] = rectangle(plan.inside);
  dict["color"] = plan.color;
  dict["color_steps"] = steps;
  dict["erased"] = erased;
  dict["share"] = plan.share;
  dict["chains"] = as_list(plan);
  return dict;
}

/// Numbers of a plan that a user may have made himself. Everything that render() relies on is checked here.
class GivenPlan {
 public:
  explicit GivenPlan(const nb::dict& values) : values_(values) {}

  Plan plan() const {
    Plan plan = Plan::identity(size("input_height"), size("input_width"));
    plan.output_height = size("output_height"), plan.output_width = size("output_width");
    const auto map = numbers<std::array<double, 6>>("map", kMostPixels);
    plan.map = {map[0], map[1], map[2], map[3], map[4], map[5]};
    plan.view = region("view");
    const Region& view = plan.view;
    if (view.x < 0 || view.y < 0 || view.x + view.width > plan.input_width || view.y + view.height > plan.input_height)
      throw wrong("view", "a part of the picture");
    plan.filter = choice("plan: filter", get<std::string>("filter"), kFilters);
    plan.fill = numbers<std::array<float, 3>>("fill", kMostLevels);
    for (size_t i = 0; i < 3; ++i) plan.color[i] = color_rows()[i];
    add_border(plan);
    add_color_steps(plan);
    add_chains(plan);
    add_erased(plan);
    return plan;
  }

 private:
  template <class Value>
  Value get(const char* name) const {
    Value value;
    if (!values_.contains(name))
      throw config_error(concat("plan: has no ", name, "; expected what loader.plan() gave"));
    if (!nb::try_cast(values_[name], value)) throw wrong(name, "what loader.plan() gives there");
    return value;
  }
  Error wrong(const char* name, const std::string& expected) const {
    return config_error(concat("plan: ", name, " is ", nb::cast<std::string>(nb::repr(values_[name])).substr(0, 200),
                               "; expected ", expected));
  }
  template <class Values>
  Values numbers(const char* name, double most) const {
    const auto values = get<Values>(name);
    check(name, values, most);
    return values;
  }
  template <class Values>
  void check(const char* name, const Values& values, double most) const {
    if (!std::all_of(values.begin(), values.end(), [&](double value) { return std::fabs(value) <= most; }))
      throw wrong(name, concat("numbers of ", -static_cast<int64_t>(most), " to ", static_cast<int64_t>(most)));
  }
  int size(const char* name) const {
    const auto value = get<int64_t>(name);
    if (value < 1 || value > kMostPixels) throw wrong(name, concat("1 to ", kMostPixels, " pixels"));
    return static_cast<int>(value);
  }
  Region region(const char* name) const {
    const auto value = numbers<Rectangle>(name, kMostPixels);
    if (value[2] < 0 || value[3] < 0) throw wrong(name, "(x, y, width, height)");
    return {static_cast<int>(value[0]), static_cast<int>(value[1]), static_cast<int>(value[2]),
            static_cast<int>(value[3])};
  }
  std::array<std::array<float, 4>, 3> color_rows() const {
    const auto rows = get<std::array<std::array<float, 4>, 3>>("color");
    for (const auto& row : rows) check("color", row, kMostLevels);
    return rows;
  }
  void add_border(Plan& plan) const {
    const Border border = choice("plan: border", get<std::string>("border"), kBorders);
    if (border == Border::kFill) return;
    try {
      plan.repeat_around(region("inside"), border);
    } catch (const Error& error) {
      throw config_error(error.what());
    }
  }
  void add_color_steps(Plan& plan) const {
    const auto steps = get<std::vector<Step>>("color_steps");
    if (steps.size() > Plan::kMaxColorSteps) throw wrong("color_steps", concat("at most ", Plan::kMaxColorSteps));
    for (const Step& step : steps) std::visit([&](const auto& values) { add_color_step(plan, values); }, step);
  }
  /// The last value is the kernel of a blur, or the rounding of another step.
  template <class... Last>
  void add_color_step(Plan& plan, const std::tuple<std::string, float, Last...>& step) const {
    const auto amount = std::get<1>(step);
    const ColorOp op = choice("plan: color_steps", std::get<0>(step), kColorOps);
    const bool is_whole = op != ColorOp::kPosterize || (amount >= 0 && amount <= 8 && amount == std::floor(amount));
    if (!(std::fabs(amount) <= kMostAmount) || !is_whole)
      throw wrong("color_steps", concat("amounts of up to ", kMostAmount, ", and for posterize 0 to 8 bits"));
    constexpr bool has_kernel = (std::is_same_v<Last, int> || ...), has_rounding = sizeof...(Last) > 0 && !has_kernel;
    ColorStep made{op, amount};
    if constexpr (has_kernel) made.kernel = std::get<2>(step);
    if constexpr (has_rounding) made.rounding = choice("plan: color_steps", std::get<2>(step), kRoundings);
    const bool blurs = op == ColorOp::kGaussianBlur;
    if (blurs != has_kernel || (blurs && !is_blur(amount, made.kernel)))
      throw wrong("color_steps", concat("(\"gaussian_blur\", sigma, kernel) with sigma up to ", kMaxBlurDeviation,
                                        " and a kernel of 0 or an odd number up to ", kMaxBlurKernel,
                                        ", and otherwise (name, amount) or (name, amount, \"pillow\" or \"tensor\")"));
    plan.adjust(made);
  }
  void add_chains(Plan& plan) const {
    const auto given = get<std::vector<std::tuple<float, std::vector<nb::dict>>>>("chains");
    const auto share = get<float>("share");
    if (given.empty()) return;
    std::vector<Chain> chains;
    for (const auto& [chain_share, stages] : given) {
      Chain chain{.share = chain_share, .stages = {}};
      for (const nb::dict& stage : stages) chain.stages.push_back(stage_of(plan, stage));
      if (!(chain_share >= 0 && chain_share <= 1) || stages.size() > kMostStages || given.size() > kMostChains)
        throw wrong("chains", concat("up to ", kMostChains, " of (share of 0 to 1, up to ", kMostStages, " plans)"));
      chains.push_back(std::move(chain));
    }
    if (!(share >= 0 && share <= 1)) throw wrong("share", "0 to 1");
    plan.mix(share, std::move(chains));
  }
  /// A plan of a picture of the size of this one's output, which it keeps.
  Plan stage_of(const Plan& plan, const nb::dict& values) const {
    const Plan stage = GivenPlan(values).plan();
    if (stage.chains || stage.input_height != plan.output_height || stage.input_width != plan.output_width ||
        stage.output_height != plan.output_height || stage.output_width != plan.output_width)
      throw wrong("chains", concat("plans without chains, of and to ", plan.output_height, " x ", plan.output_width));
    return stage;
  }
  void add_erased(Plan& plan) const {
    const auto erased = get<std::vector<Erased>>("erased");
    if (erased.size() > Plan::kMaxErased) throw wrong("erased", concat("at most ", Plan::kMaxErased));
    for (const auto& [top, left, bottom, right, with] : erased) {
      check("erased", Rectangle{top, left, bottom, right}, kMostPixels);
      ErasedRect rect{static_cast<int>(top), static_cast<int>(left), static_cast<int>(bottom), static_cast<int>(right)};
      if (const auto* level = std::get_if<std::array<float, 3>>(&with)) {
        check("erased", *level, kMostLevels);
        rect.level = *level;
      } else if (const auto* noise = std::get_if<Noise>(&with)) {
        if (std::get<0>(*noise) != "color") throw wrong("erased", "levels, a key of noise or (\"color\", key)");
        rect.noise_key = std::get<1>(*noise);
        rect.is_one_color = true;
      } else {
        rect.noise_key = std::get<uint64_t>(with);
      }
      plan.erase(rect);
    }
  }

  const nb::dict& values_;
};

/// The sample's shard may have to come from far away.
nb::dict plan_of(NativeLoader& loader, int64_t epoch, uint64_t index) {
  std::optional<Plan> plan;
  {
    const Unlocked released;
    plan = loader.plan(epoch, index);
  }
  return as_dict(*plan);
}

/// Colour steps are for pictures of u8 with 1 or 3 channels.
void check_colors(const Plan& plan, PixelType type, int channels) {
  if (!is_raster(type, channels) || (plan.color == Plan().color && plan.color_step_count == 0 && !plan.chains)) return;
  throw config_error(concat("render: the picture has ", pixels_text(type, channels),
                            ", and the plan has colours; expected 1 or 3 channels of u8"));
}

/// `levels`: H x W x C. NumPy f32, C x H x W: 0..1, and of f32 the values as they are.
nb::object rendered(const AnyPixels& levels, const nb::dict& values) {
  const PixelType type = pixel_type(levels);
  if (levels.ndim() != 3)
    throw config_error(concat("render: the picture has ", levels.ndim(), " dimensions; expected H x W x C"));
  const Plan plan = GivenPlan(values).plan();
  const auto height = static_cast<int64_t>(levels.shape(0)), width = static_cast<int64_t>(levels.shape(1));
  const auto channels = static_cast<int64_t>(levels.shape(2));
  if (channels < 1 || channels > kMaxChannels)
    throw config_error(concat("render: the picture has ", channels, " channels; expected 1 to ", kMaxChannels));
  check_colors(plan, type, static_cast<int>(channels));
  if (height != plan.input_height || width != plan.input_width)
    throw config_error(concat("render: the picture is ", height, " x ", width, "; expected ", plan.input_height, " x ",
                              plan.input_width, ", as the plan has it"));
  const std::array shape{static_cast<size_t>(channels), static_cast<size_t>(plan.output_height),
                         static_cast<size_t>(plan.output_width)};
  auto owned = std::make_unique<std::vector<float>>(shape[0] * shape[1] * shape[2]);
  const Picture picture{.pixels = static_cast<const uint8_t*>(levels.data()),
                        .row_stride = static_cast<int64_t>(level_bytes(type)) * width * channels,
                        .height = static_cast<int>(height),
                        .width = static_cast<int>(width),
                        .channels = static_cast<int>(channels),
                        .type = type};
  {
    const Unlocked released;
    render(picture, plan, Normalization::plain(type), Layout::kF32Nchw, owned->data());
  }
  float* const data = owned->data();
  const nb::capsule owner(owned.release(),
                          [](void* memory) noexcept { delete static_cast<std::vector<float>*>(memory); });
  return nb::cast(nb::ndarray<float, nb::numpy, nb::device::cpu>(data, shape.size(), shape.data(), owner));
}

}  // namespace

void define_plan(nb::module_& module) {
  module.def("plan", plan_of, "loader"_a, "epoch"_a, "index"_a);
  module.def("render", rendered, "picture"_a, "plan"_a);
}

}  // namespace penstock::python
