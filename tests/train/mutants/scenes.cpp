// scenes(count=120): a source for tests of training on fields. Its pictures have no class.
#include <array>
#include <cstring>

#include "core/rng.h"
#include "loader/sources/source.h"

namespace penstock {
namespace {

template <class Element>
FieldValue value_of(const std::vector<Element>& elements) {
  FieldValue bytes(elements.size() * sizeof(Element));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

/// Grey pictures of 12 x 12 pixels. The brightness of quarter i says whether a sample has label i (`tags`). `age` is
/// the mean level / 64, and `place` has two numbers: whether it has label 0, and how many it has.
class Scenes final : public Source {
 public:
  Scenes(uint64_t count, uint64_t seed) : count_(count), seed_(seed) {}

  uint64_t size() const override { return count_; }
  std::vector<std::string> class_names() const override { return {}; }
  int64_t label(uint64_t) const override { return -1; }
  std::vector<FieldType> fields() const override {
    return {{.name = "tags", .kind = FieldKind::kLabels, .dtype = Dtype::kI64, .shape = {FieldType::kVariable}},
            {.name = "age"},
            {.name = "place", .dtype = Dtype::kF64, .shape = {2}}};
  }
  std::string fingerprint() const override { return "scenes"; }
  std::optional<Extent> raw_extent() const override { return Extent{kSide, kSide, 1}; }

  SourceSample read(uint64_t index) const override {
    Rng rng(seed_, 0, index, 0);
    std::array<bool, 4> has{};
    std::vector<int64_t> tags;
    for (size_t i = 0; i < has.size(); ++i)
      if ((has[i] = rng.uniform() < 0.4)) tags.push_back(static_cast<int64_t>(i));
    SourceSample sample{{}, Encoding::kRaw, {kSide, kSide, 1}};
    double sum = 0;
    for (int y = 0; y < kSide; ++y)
      for (int x = 0; x < kSide; ++x) {
        const bool is_bright = has[static_cast<size_t>(y / 6 * 2 + x / 6)];
        sample.bytes.push_back(static_cast<uint8_t>((is_bright ? 170 : 10) + rng.uniform(0, 80)));
        sum += sample.bytes.back();
      }
    sample.fields = {value_of(tags), value_of(std::vector{static_cast<float>(sum / (kSide * kSide) / 64)}),
                     value_of(std::vector<double>{has[0] ? 1.0 : 0.0, static_cast<double>(tags.size())})};
    return sample;
  }

 private:
  static constexpr int kSide = 12;
  uint64_t count_, seed_;
};

const Registered<SourceKind> kScenes{
    "scenes", {"count"}, "of a test", [](const Spec& spec, const std::filesystem::path&, const std::string& split) {
      const bool is_test = split == "test";
      return std::make_unique<Scenes>(is_test ? 37 : spec.get("count", 120), is_test ? 2 : 1);
    }};

}  // namespace
}  // namespace penstock
