// A plug-in by another project for all tools: the transform `complement`, the source `stripes`, the column `halves`,
// the sampler `firsts` and the codec of .tone files.
#include <algorithm>
#include <array>
#include <cstring>

#include "augment/transform.h"
#include "core/error.h"
#include "core/plugin.h"
#include "loader/codecs/codec.h"
#include "loader/rows/column.h"
#include "loader/samplers/sampler.h"
#include "loader/sources/source.h"

PENSTOCK_PLUGIN();

namespace {

using penstock::DataStatistics, penstock::Plan, penstock::Rng, penstock::Spec, penstock::Transform;
using penstock::Encoding, penstock::Extent, penstock::Source, penstock::SourceSample;
using penstock::Registered, penstock::SourceKind, penstock::TransformKind;

class Invert final : public Transform {
 public:
  explicit Invert(double p) : p_(p) {}
  Effect effect() const override { return Effect::kColor; }
  void edit(Plan& plan, Rng& rng) const override {
    if (rng.chance(p_)) plan.recolor({{{-1, 0, 0, 255}, {0, -1, 0, 255}, {0, 0, -1, 255}}});
  }

 private:
  double p_;
};

const Registered<TransformKind> kInvert{
    "complement",
    {"p"},
    "turn levels round with probability p (default 0.5)",
    [](const Spec& spec, const DataStatistics&) { return std::make_unique<Invert>(spec.get("p", 0.5)); }};

/// Grey pictures of horizontal (class 0) or vertical (class 1) stripes, which are 1 to 4 pixels wide.
class Stripes final : public Source {
 public:
  explicit Stripes(int count) : count_(static_cast<uint64_t>(count)) {}
  uint64_t size() const override { return count_; }
  std::vector<std::string> class_names() const override { return {"lying", "standing"}; }
  int64_t label(uint64_t index) const override { return static_cast<int64_t>(index % 2); }
  std::optional<Extent> raw_extent() const override { return Extent{kSide, kSide, 1}; }
  std::string fingerprint() const override { return "stripes " + std::to_string(count_); }
  SourceSample read(uint64_t index) const override {
    SourceSample sample{std::vector<uint8_t>(kSide * kSide), Encoding::kRaw, {kSide, kSide, 1}};
    const uint64_t width = 1 + index / 2 % 4, shift = index / 8;
    for (uint64_t i = 0; i < sample.bytes.size(); ++i) {
      const uint64_t along = label(index) == 0 ? i / kSide : i % kSide;
      sample.bytes[i] = (along + shift) / width % 2 == 0 ? 0 : 255;
    }
    return sample;
  }

 private:
  static constexpr int kSide = 20;
  uint64_t count_;
};

const Registered<SourceKind> kStripes{"stripes",
                                      {"count"},
                                      "embedded stripes, lying or standing: count=N (default 200)",
                                      [](const Spec& spec, const std::filesystem::path&, const std::string&) {
                                        return std::make_unique<Stripes>(spec.get("count", 200));
                                      }};

/// f32 x 2: the means of the first and the second half of the row's bytes, times a factor.
class Halves final : public penstock::ColumnMaker {
 public:
  explicit Halves(double times) : times_(times) {}
  std::vector<penstock::Column> columns() const override { return {{"halves", penstock::Dtype::kF32, {2}}}; }
  void make(const penstock::ColumnRow& row, penstock::ColumnCells to) const override {
    const auto half = row.pixels.size() / 2;
    const float means[] = {mean_of(row.pixels.first(half)), mean_of(row.pixels.subspan(half))};
    std::memcpy(to[0], means, sizeof means);
  }

 private:
  float mean_of(std::span<const std::byte> bytes) const {
    double sum = 0;
    for (const std::byte byte : bytes) sum += static_cast<double>(byte);
    return static_cast<float>(times_ * sum / static_cast<double>(bytes.size()));
  }
  double times_;
};

const Registered<penstock::ColumnKind> kHalves{
    "halves",
    {"times"},
    "means of the two halves of a row's bytes: times=1",
    [](const Spec& spec, const penstock::ColumnContext&) { return std::make_unique<Halves>(spec.get("times", 1.0)); }};

/// Epochs of the first elements alone, in their order.
class Firsts final : public penstock::Sampler {
 public:
  explicit Firsts(uint64_t rows) : rows_(rows) {}
  uint64_t rows() const override { return rows_; }
  std::string text() const override { return penstock::concat("the first ", rows_, " samples"); }
  std::unique_ptr<const penstock::SampledEpoch> epoch(int64_t) const override { return std::make_unique<Epoch>(); }

 private:
  struct Epoch final : penstock::SampledEpoch {
    penstock::Draw at(uint64_t position) const override { return {position, 0}; }
  };
  uint64_t rows_;
};

const Registered<penstock::SamplerKind> kFirsts{
    "firsts",
    {"rows"},
    "the first samples, in their order: rows=ROWS (default: all)",
    [](const Spec& spec, const penstock::SamplerContext& context) {
      const uint64_t rows = penstock::rows_of(spec, context.size());
      if (rows > context.size())
        throw penstock::config_error(
            penstock::concat(spec.where(), ": rows is ", rows, "; expected at most ", context.size()));
      return std::make_unique<Firsts>(rows);
    }};

/// Grey pictures of up to 255 x 255: "TONE", height, width, then the levels, row by row.
class Tone final : public penstock::Codec {
 public:
  static constexpr std::array<uint8_t, 4> kSignature{'T', 'O', 'N', 'E'};

  penstock::Picture decode(const penstock::Sample& sample, const penstock::DecodeRequest& request,
                           penstock::DecodeScratch& scratch) const override {
    const Extent extent = probe(sample.bytes);
    const auto levels = sample.bytes.subspan(kHeader);
    scratch.pixels.clear();
    for (const uint8_t level : levels)
      scratch.pixels.insert(scratch.pixels.end(), static_cast<size_t>(request.channels), level);
    return {scratch.pixels.data(),
            ptrdiff_t{extent.width} * request.channels,
            extent.height,
            extent.width,
            request.channels,
            0,
            0};
  }
  Extent probe(std::span<const uint8_t> bytes) const override {
    const bool is_whole = bytes.size() > kHeader && bytes.size() == kHeader + size_t{bytes[4]} * bytes[5];
    if (!is_whole)
      throw penstock::corrupt_error(penstock::concat(bytes.size(), " bytes; expected a whole TONE picture"));
    return {bytes[4], bytes[5], 1};
  }

 private:
  static constexpr size_t kHeader = kSignature.size() + 2;
};

const Tone kTone;
/// Numbers from 128 on are for plug-ins.
const penstock::RegisteredCodec kTones{static_cast<Encoding>(200),
                                       {.name = "TONE",
                                        .extensions = {".tone"},
                                        .signature = {Tone::kSignature.begin(), Tone::kSignature.end()},
                                        .is_lossless = true},
                                       kTone};

}  // namespace
