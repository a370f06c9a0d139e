// field: a field of the shards as columns of the batch.
//
// Lives here: plug-ins that add columns to batches, one file each.
// Not here: what a column is, and who asks for it (loader/rows).
//
// `field(name=age)` gives the column `age`, of the field's dtype and shape. Of a variable field there are two: `tags`,
// with as many entries as the sample that has most (or most=M), zeros after its own, and `tags.count`, i64.
// `field(name=tags,as=multi-hot,classes=N)` gives f32 x N, 1 for each label that the sample has; N is the number of the
// field's names, if it has some. as=NAME is no name of
// the column: column=NAME is. `field(name=age,range=0:1)` takes a sample with another number, or a NaN, for a corrupt
// one.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "core/choice.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/rows/column.h"

namespace penstock {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 31;  // of a row

/// The field of a data set that a maker reads.
struct Field {
  const Dataset& dataset;
  size_t number;
  std::optional<Range> range = {};  // of all its numbers
  const FieldType& type() const { return dataset.manifest().fields[number]; }
  HeldField of(const ColumnRow& row) const {
    HeldField stored = dataset.field(row.index, number);
    if (range) check_range(row.index, stored.bytes);
    return stored;
  }

 private:
  void check_range(uint64_t index, FieldBytes bytes) const {
    const auto read = number_reader(type().dtype);
    const size_t stride = element_bytes(type().dtype);
    for (size_t at = 0; at < bytes.size(); at += stride)
      if (const double value = read(&bytes[at]); !(value >= range->low && value <= range->high))  // true of a NaN
        throw corrupt_error(concat(dataset.where(index), ": field ", in_quotes(type().name), ": number ", at / stride,
                                   " is ", value, "; expected ", range->low, " to ", range->high));
  }
};

class WholeField final : public ColumnMaker {
 public:
  WholeField(Field field, std::string name) : field_(field), name_(std::move(name)) {}
  std::vector<Column> columns() const override { return {{name_, field_.type().dtype, field_.type().shape}}; }
  void make(const ColumnRow& row, ColumnCells to) const override {
    const HeldField stored = field_.of(row);
    std::memcpy(to[0], stored.bytes.data(), stored.bytes.size());
  }

 private:
  Field field_;
  std::string name_;
};

class PaddedField final : public ColumnMaker {
 public:
  PaddedField(Field field, std::string name, uint64_t most) : field_(field), name_(std::move(name)), most_(most) {}

  std::vector<Column> columns() const override {
    std::vector<int64_t> shape = field_.type().shape;
    shape.front() = static_cast<int64_t>(most_);
    return {{name_, field_.type().dtype, shape}, {name_ + ".count", Dtype::kI64}};
  }

  void make(const ColumnRow& row, ColumnCells to) const override {
    const HeldField stored = field_.of(row);
    const FieldBytes bytes = stored.bytes;
    const uint64_t entry = field_.type().entry_bytes();
    const auto count = static_cast<int64_t>(bytes.size() / entry);
    if (static_cast<uint64_t>(count) > most_)
      throw config_error(concat(field_.dataset.where(row.index), ": field ", in_quotes(field_.type().name), " has ",
                                count, " entries; expected most=", count, " or more, not ", most_));
    if (!bytes.empty()) std::memcpy(to[0], bytes.data(), bytes.size());
    std::memset(to[0] + bytes.size(), 0, most_ * entry - bytes.size());
    std::memcpy(to[1], &count, sizeof count);
  }

 private:
  Field field_;
  std::string name_;
  uint64_t most_;
};

class MultiHot final : public ColumnMaker {
 public:
  MultiHot(Field field, std::string name, int64_t classes) : field_(field), name_(std::move(name)), classes_(classes) {}

  std::vector<Column> columns() const override { return {{name_, Dtype::kF32, {classes_}}}; }

  void make(const ColumnRow& row, ColumnCells to) const override {
    const auto class_count = static_cast<size_t>(classes_);
    std::memset(to[0], 0, class_count * sizeof(float));
    const HeldField stored = field_.of(row);
    const FieldBytes bytes = stored.bytes;
    for (size_t at = 0; at < bytes.size(); at += sizeof(int64_t)) {
      int64_t label = 0;
      std::memcpy(&label, bytes.data() + at, sizeof label);
      if (label < 0 || label >= classes_)
        throw corrupt_error(concat(field_.dataset.where(row.index), ": field ", in_quotes(field_.type().name),
                                   ": label is ", label, "; expected 0 to ", classes_ - 1));
      constexpr float kOne = 1;
      std::memcpy(to[0] + static_cast<size_t>(label) * sizeof(float), &kOne, sizeof kOne);
    }
  }

 private:
  Field field_;
  std::string name_;
  int64_t classes_;
};

std::unique_ptr<ColumnMaker> make_field(const Spec& spec, const ColumnContext& context) {
  const std::string name = spec.get("name", "");
  if (name.empty()) throw config_error(concat("column ", spec.text(), ": no name; expected name=FIELD"));
  Field field{context.dataset, context.dataset.field_number(name)};
  const std::string column = spec.get("column", name.c_str());
  const FieldType& type = field.type();
  const auto wrong = [&](const std::string& problem) {
    return config_error(concat("column ", spec.text(), ": ", problem));
  };
  const std::string form = spec.get("as", "whole");
  if (form != "whole" && form != "multi-hot")
    throw wrong(concat("as is ", in_quotes(form), "; expected whole or multi-hot"));
  if (form == "multi-hot") {
    for (const char* key : {"most", "range"})
      if (spec.has(key)) throw wrong(concat(key, " is given with as=multi-hot; expected it with as=whole alone"));
    const int classes = spec.get("classes", static_cast<int>(type.names.size()));
    if (type.kind != FieldKind::kLabels || type.shape.size() != 1)
      throw wrong(concat("field ", in_quotes(name), " is of kind ", field_kind_name(type.kind), "; expected labels"));
    if (classes < 1 || classes > 1'000'000) throw wrong(concat("classes is ", classes, "; expected 1 to 1,000,000"));
    return std::make_unique<MultiHot>(field, column, classes);
  }
  if (spec.has("classes")) throw wrong("classes is given with as=whole; expected it with as=multi-hot alone");
  if (spec.has("most") && !type.is_variable())
    throw wrong(concat("most is given, and field ", in_quotes(name), " is of a fixed shape, ", shape_text(type.shape),
                       "; expected no most"));
  if (spec.has("range")) {
    if (type.kind != FieldKind::kNumber)
      throw wrong(concat("range is given, and field ", in_quotes(name), " is of kind ", field_kind_name(type.kind),
                         "; expected number"));
    field.range = spec.get("range", Range{});
  }
  if (!type.is_variable()) return std::make_unique<WholeField>(field, column);
  const uint64_t limit = std::min<uint64_t>(kMostBytes / type.entry_bytes(), INT32_MAX);
  const int most = spec.get("most", static_cast<int>(std::clamp<uint64_t>(type.most, 1, limit)));
  if (most < 1 || static_cast<uint64_t>(most) > limit) throw wrong(concat("most is ", most, "; expected 1 to ", limit));
  return std::make_unique<PaddedField>(field, column, static_cast<uint64_t>(most));
}

const Registered<ColumnKind> kField{"field",
                                    {"name", "column", "most", "as", "classes", "range"},
                                    "a field of the samples: name=, column=name of the column, most=entries of a row, "
                                    "as=whole|multi-hot, classes=, range=low:high: refuse other numbers",
                                    make_field};

}  // namespace
}  // namespace penstock
