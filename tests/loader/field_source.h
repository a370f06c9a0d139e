// FieldSource: a source in memory whose samples have fields, which tests may spoil.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "loader/sources/source.h"

namespace penstock::testing_data {

template <class Element>
FieldValue value_of(const std::vector<Element>& elements) {
  FieldValue bytes(elements.size() * sizeof(Element));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

/// Sample i is a grey picture of 4 x 6 pixels of level i. It has the number i / 2 (`age`), i % 4 labels i, i + 1, ...
/// (`tags`), the text "sample i" (`caption`), i % 3 boxes with a label each (`boxes`, `kinds`).
class FieldSource : public Source {
 public:
  explicit FieldSource(uint64_t count, std::vector<std::string> names = {}) : count_(count), names_(std::move(names)) {}

  std::function<void(uint64_t id, SourceSample&)> spoil = {};
  std::vector<FieldType> types{
      {.name = "tags", .kind = FieldKind::kLabels, .dtype = Dtype::kI64, .shape = {FieldType::kVariable}},
      {.name = "age", .kind = FieldKind::kNumber, .dtype = Dtype::kF32},
      {.name = "kinds",
       .kind = FieldKind::kLabels,
       .dtype = Dtype::kI64,
       .shape = {FieldType::kVariable},
       .of = "boxes"},
      {.name = "caption", .kind = FieldKind::kText, .dtype = Dtype::kU8, .shape = {FieldType::kVariable}},
      {.name = "boxes", .kind = FieldKind::kBoxes, .dtype = Dtype::kF32, .shape = {FieldType::kVariable, 4}}};

  uint64_t size() const override { return count_; }
  std::vector<std::string> class_names() const override { return names_; }
  int64_t label(uint64_t index) const override { return static_cast<int64_t>(index % names_.size()); }
  std::vector<FieldType> fields() const override { return types; }
  std::string fingerprint() const override { return "fields"; }

  static std::vector<int64_t> tags_of(uint64_t id) {
    std::vector<int64_t> tags;
    for (uint64_t i = 0; i < id % 4; ++i) tags.push_back(static_cast<int64_t>(id + i));
    return tags;
  }

  SourceSample read(uint64_t id) const override {
    SourceSample sample{std::vector<uint8_t>(24, static_cast<uint8_t>(id)), Encoding::kRaw, {4, 6, 1}};
    std::vector<float> boxes;
    std::vector<int64_t> kinds;
    for (uint64_t i = 0; i < id % 3; ++i) {
      for (const float corner : {0.5F, 1.0F, 2.0F + static_cast<float>(i), 3.0F}) boxes.push_back(corner);
      kinds.push_back(static_cast<int64_t>(i));
    }
    const std::string caption = "sample " + std::to_string(id);
    sample.fields = {value_of(tags_of(id)), value_of(std::vector{static_cast<float>(id) / 2}), value_of(kinds),
                     FieldValue(caption.begin(), caption.end()), value_of(boxes)};
    if (spoil) spoil(id, sample);
    return sample;
  }

 private:
  uint64_t count_;
  std::vector<std::string> names_;
};

}  // namespace penstock::testing_data
