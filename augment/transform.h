// Transform: the plug-in that edits a plan; Pipeline: a list of them, as the user wrote it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "augment/draws/batch_plan.h"
#include "augment/pixels/layout.h"
#include "augment/plan/box.h"
#include "augment/plan/plan.h"
#include "core/registry.h"
#include "core/rng.h"

namespace penstock {

/// Edits the plan of one sample; never sees a pixel.
/// Determinism: edit() depends only on its arguments. Thread-safety: edit() is const and called from many threads.
class Transform {
 public:
  enum class Effect { kGeometry, kColor, kErase, kNormalize, kBatch };

  virtual ~Transform() = default;
  virtual Effect effect() const { return Effect::kGeometry; }
  /// The most colour steps that edit() appends.
  virtual int color_steps() const { return 0; }
  /// Draws from `rng`, which is this transform's own stream for this sample and epoch, and edits `plan`.
  virtual void edit(Plan& plan, Rng& rng) const = 0;
  /// The field of a sample that has the boxes for edit_by_boxes(), which is then called in place of edit(). "": none.
  virtual std::string boxes_field() const { return {}; }
  /// `boxes` are in the stored picture, as the view of `plan` is: move_boxes() says where they are now.
  virtual void edit_by_boxes(Plan& plan, Rng& rng, std::span<const Box> /*boxes*/) const { edit(plan, rng); }
  /// Whether it draws the same numbers for a sample in every epoch; in odd epochs alternate() then follows edit().
  virtual bool alternates() const { return false; }
  virtual void alternate(Plan&) const {}
  /// Whether edit() leaves a border that is made of copies (Plan::repeat_around). Only what mirrors may move pixels
  /// after it.
  virtual bool repeats_border() const { return false; }
  /// Whether edit() appends erased rectangles of noise.
  virtual bool makes_noise() const { return false; }
  /// Whether edit() mixes in chains (Plan::mix). Nothing may move or recolour pixels after it.
  virtual bool mixes_chains() const { return false; }
  /// Whether grey pictures are delivered with three channels. It changes no plan: the decoder copies the levels.
  virtual bool makes_rgb() const { return false; }
  /// Whether edit() and alternate() do nothing but mirror the whole output.
  virtual bool mirrors() const { return false; }
  /// Non-null only for `normalize`.
  virtual const Normalization* normalization() const { return nullptr; }
  /// Non-null only for `mixup` and `cutmix`.
  virtual const BatchMix* batch_mix() const { return nullptr; }
};

/// What a factory may want to know of the data: `normalize` without keys takes the data set's own statistics.
struct DataStatistics {
  int channels = 1;
  PerChannel<double> mean{0, 0, 0};       // of level / white_level(pixels)
  PerChannel<double> deviation{1, 1, 1};  // standard deviation of level / white_level(pixels)
  PixelType pixels = PixelType::kU8;

  double white() const { return white_level(pixels); }
};

/// What a transform says about itself, besides its keys.
struct TransformTraits {
  /// The spec with which tests try every transform. Its keys make it change a colour picture of 20 x 20 pixels.
  std::string test_spec;
  /// Whether it draws nothing from its stream. An evaluation keeps such a transform as it is.
  bool is_deterministic = false;
  /// For a deterministic transform: whether it does draw with these keys. Null: with none.
  std::function<bool(const Spec&)> is_random = nullptr;
  /// Gives the spec list that an evaluation has in place of a random transform. Null: an evaluation leaves the
  /// transform out.
  std::function<std::string(const Spec&)> in_evaluation = nullptr;
  /// Names of transforms that may not be in a list with it, before or after, because the two undo each other. With its
  /// own name it may occur once.
  std::vector<std::string> excludes = {};
  /// Whether its keys `size`, or `height` and `width`, are the size of its output. A size schedule (size_schedule.h)
  /// gives the last such transform of a list other sizes.
  bool sets_size = false;

  bool draws_nothing(const Spec& spec) const { return is_deterministic && !(is_random && is_random(spec)); }
};

struct TransformKind {
  using Interface = Transform;
  using Traits = TransformTraits;
  static constexpr const char* kName = "transform";
  using Factory = std::function<std::unique_ptr<Transform>(const Spec&, const DataStatistics&)>;
};
using TransformRegistry = Registry<TransformKind>;

/// What an evaluation keeps of a spec list: its deterministic transforms, and what replaces random ones. Throws
/// config_error for bad syntax and unknown names.
std::string deterministic_part(const std::string& spec_list);

/// The transforms of a spec list such as `affine(degrees=10,translate=0.1),normalize`.
///
/// Errors: the constructor throws config_error for syntax, unknown names and keys, a transform of geometry or colour
/// after `erase` or `aug-mix`, `rgb` after what is not geometry, one of colour for rasters (pixels.h), geometry other
/// than flips after a border of copies, more colour steps than a plan holds, two `normalize`, two `mixup`, two
/// `cutmix`, and two that exclude each other. Thread-safety: immutable after construction; plan() may be called from
/// many threads.
class Pipeline {
 public:
  Pipeline(std::string_view spec_list, const DataStatistics& statistics);

  /// The plan of sample `sample_id` in `epoch` under `seed`. Transform i draws from Rng(seed, epoch, sample_id, i), one
  /// that alternates from that of epoch 0.
  Plan plan(int input_height, int input_width, uint64_t seed, uint32_t epoch, uint64_t sample_id) const {
    return plan(Plan::identity(input_height, input_width), seed, epoch, sample_id);
  }
  /// The same for a picture that is already seen through `whole`, which is Plan::upright() for a picture that lies on
  /// its side. `boxes` are those of boxes_field(), in the output of `whole`; without them, or where the list asks for
  /// none, a transform that looks at boxes finds none.
  Plan plan(const Plan& whole, uint64_t seed, uint32_t epoch, uint64_t sample_id,
            std::span<const Box> boxes = {}) const;

  const Normalization& normalization() const { return normalization_; }
  bool has_normalize() const { return has_normalize_; }
  /// What is done to whole batches of rendered rows; kNone without `mixup` and `cutmix`.
  const BatchMix& batch_mix() const { return batch_mix_; }
  /// The field with the boxes that plan() wants; "" for a list that looks at no boxes.
  const std::string& boxes_field() const { return boxes_field_; }
  /// Whether no transform draws from its stream, as in an evaluation.
  bool is_deterministic() const { return is_deterministic_; }
  /// The most colour steps that a plan of this list has.
  int color_steps() const { return color_steps_; }
  /// Whether a transform erases with noise, which only the host's render() makes.
  bool makes_noise() const { return makes_noise_; }
  /// Whether a transform mixes in chains, which only the host's render() does.
  bool mixes_chains() const { return mixes_chains_; }
  /// The spec list as parsed, for options.json and for messages.
  const std::string& text() const { return text_; }
  /// What it was made with, with three channels after `rgb`.
  const DataStatistics& statistics() const { return statistics_; }
  /// The channels of rows that are rendered from a data set whose pictures have `stored` channels.
  int channels(int stored) const { return makes_rgb_ ? 3 : stored; }

 private:
  std::vector<std::shared_ptr<const Transform>> transforms_;  // shared: a Pipeline is copied into loaders
  DataStatistics statistics_;
  Normalization normalization_;
  bool has_normalize_ = false, is_deterministic_ = true;
  BatchMix batch_mix_;
  int color_steps_ = 0;
  bool makes_noise_ = false, mixes_chains_ = false, makes_rgb_ = false;
  std::string text_, boxes_field_;
};

}  // namespace penstock
