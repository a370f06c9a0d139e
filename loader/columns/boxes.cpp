// boxes, keypoints: fields of objects as columns that follow the picture's plan.
//
// `boxes(field=b)` gives, for M = most=M or the most that a sample has:
//   b        f32 x M x 4   x0, y0, x1, y1 in the pixels of the row, clipped to it; zeros after the last one
//   b.count  i64           how many there are
//   b.share  f32 x M       area inside / area of the whole box under the plan
//   b.index  i64 x M       which box of the sample it is
// with over=largest, where a row with more than M keeps the M largest, in their order,
//   b.dropped  i64         how many it has not
// and for each field of with=f:g, whose entries belong to the boxes, `b.f`: the entries of those that are left, as f32
// x M x K x 3 for key points, which are moved too, and as u8 x M x height x width for instance masks. One list of
// indices says what is left, so that boxes, labels, masks and ids cannot part.
//
// `keypoints(field=k)` gives k and k.count for key points that belong to no box: all of them, moved.
#include "augment/targets/boxes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "augment/plan/plan.h"
#include "augment/targets/keypoints.h"
#include "augment/targets/masks.h"
#include "augment/targets/on_picture.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/files/instance_masks.h"
#include "loader/rows/column.h"
#include "loader/rows/sample_boxes.h"

namespace penstock {
namespace {

using Indices = std::vector<int64_t>;

/// Writes 0 and 1 to `output`, output_height x output_width of `plan`, which is that of the stored picture. Polygons
/// are moved as vertices and filled; runs are moved as a mask, by the nearest pixel. A border of copies has no objects.
void draw_instance(const InstanceMask& mask, const Plan& plan, int orientation, std::span<uint8_t> output) {
  std::fill(output.begin(), output.end(), uint8_t{0});
  const Plan upright = on_upright(plan, orientation);
  for (const auto& polygon : mask.polygons) draw_polygon(polygon, upright, output);
  if (mask.runs.empty() || !inverse(plan.map)) return;
  auto pixels = pixels_of_runs(mask.runs, upright.input_height, upright.input_width);
  if (orientation > 1) pixels = as_stored<uint8_t>(pixels, orientation, plan.input_height, plan.input_width);
  move_mask<uint8_t>(pixels, plan, 0, MaskBorder::kFill, output);
}

/// A field of objects: which entries of it a row has, and what became of them.
struct ObjectField {
  const Dataset& dataset;
  size_t number;
  Extent extent;  // of the rows

  const FieldType& type() const { return dataset.manifest().fields[number]; }
  /// Whether nobody has said which of its key points change places in a mirrored picture.
  bool lacks_pairs() const { return type().kind == FieldKind::kKeypoints && !type().swapped; }

  Column column(std::string name, int64_t most) const {
    if (type().kind == FieldKind::kInstances) return {std::move(name), Dtype::kU8, {most, extent.height, extent.width}};
    std::vector<int64_t> shape = type().shape;
    shape.front() = most;
    return {std::move(name), type().dtype, std::move(shape)};
  }

  /// Its errors name sample and field, as those of put() do not.
  HeldField stored(const ColumnRow& row) const { return dataset.field(row.index, number); }

  /// Writes the entries `left` of `count` one after the other. The bytes after them are left alone.
  void put(const ColumnRow& row, const Plan& upright, FieldBytes bytes, const Indices& left, size_t count,
           std::byte* to) const {
    if (type().kind == FieldKind::kInstances) return put_instances(row, upright, bytes, left, count, to);
    const size_t entry = type().entry_bytes();
    if (bytes.size() != count * entry)
      throw corrupt_error(concat(bytes.size() / entry, " entries; expected ", count, ", one per box"));
    for (size_t i = 0; i < left.size(); ++i)
      std::memcpy(to + i * entry, bytes.data() + static_cast<size_t>(left[i]) * entry, entry);
    if (type().kind != FieldKind::kKeypoints) return;
    const auto per_entry = static_cast<size_t>(type().shape[1]);
    std::span<const std::pair<int, int>> swapped;
    if (type().swapped) swapped = *type().swapped;
    move_keypoints({reinterpret_cast<KeyPoint*>(to), left.size() * per_entry}, per_entry, upright, swapped);
  }

 private:
  void put_instances(const ColumnRow& row, const Plan& upright, FieldBytes bytes, const Indices& left, size_t count,
                     std::byte* to) const {
    const InstanceMasks masks(bytes, upright.input_height, upright.input_width);
    if (masks.size() != count) throw corrupt_error(concat(masks.size(), " masks; expected ", count, ", one per box"));
    const auto pixel_count = static_cast<size_t>(extent.height) * static_cast<size_t>(extent.width);
    for (size_t i = 0; i < left.size(); ++i)
      draw_instance(masks.at(static_cast<size_t>(left[i])), row.plan, row.sample.orientation,
                    {reinterpret_cast<uint8_t*>(to + i * pixel_count), pixel_count});
  }
};

/// Puts shard, sample and field before an error of `body`, which must not have them yet.
template <class Body>
void naming(const ObjectField& field, const ColumnRow& row, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    throw Error(error.kind(),
                concat(field.dataset.where(row.index), ": field ", in_quotes(field.type().name), ": ", error.what()));
  }
}

/// The error of a row with more objects than the column holds.
Error too_many(const ObjectField& field, size_t count, int64_t most) {
  return config_error(
      concat(count, " objects are left; expected most=", count, " or more, not ", most, " (no sample has more than ",
             field.type().most, ")",
             field.type().kind == FieldKind::kBoxes ? ", or over=largest, which keeps the largest" : ""));
}

/// The `most` boxes with the greatest areas, in their order; the earlier ones of equal areas.
void keep_largest(std::vector<MovedBox>& boxes, size_t most) {
  const auto area = [](const MovedBox& moved) { return (moved.box.x1 - moved.box.x0) * (moved.box.y1 - moved.box.y0); };
  std::stable_sort(boxes.begin(), boxes.end(), [&](const auto& a, const auto& b) { return area(a) > area(b); });
  boxes.resize(most);
  std::sort(boxes.begin(), boxes.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
}

template <class Value>
void put_padded(const std::vector<Value>& values, int64_t most, std::byte* to) {
  const size_t byte_count = values.size() * sizeof(Value);
  if (byte_count > 0) std::memcpy(to, values.data(), byte_count);
  std::memset(to + byte_count, 0, static_cast<size_t>(most) * sizeof(Value) - byte_count);
}

void put_count(size_t count, std::byte* to) {
  const auto number = static_cast<int64_t>(count);
  std::memcpy(to, &number, sizeof number);
}

class BoxesColumns final : public ColumnMaker {
 public:
  BoxesColumns(ObjectField boxes, std::vector<ObjectField> followers, std::string name, int64_t most,
               bool keeps_largest, const BoxRules& rules)
      : boxes_(boxes),
        followers_(std::move(followers)),
        name_(std::move(name)),
        most_(most),
        keeps_largest_(keeps_largest),
        rules_(rules) {}

  bool is_in_pixels() const override { return true; }

  std::string lacks_pairs() const override {
    const auto found =
        std::find_if(followers_.begin(), followers_.end(), [](const auto& f) { return f.lacks_pairs(); });
    return found == followers_.end() ? "" : found->type().name;
  }

  std::vector<Column> columns() const override {
    std::vector<Column> columns{{name_, Dtype::kF32, {most_, 4}},
                                {name_ + ".count", Dtype::kI64},
                                {name_ + ".share", Dtype::kF32, {most_}},
                                {name_ + ".index", Dtype::kI64, {most_}}};
    for (const auto& field : followers_) columns.push_back(field.column(name_ + "." + field.type().name, most_));
    if (keeps_largest_) columns.push_back({name_ + ".dropped", Dtype::kI64});
    return columns;
  }

  void make(const ColumnRow& row, ColumnCells to) const override {
    const auto boxes = boxes_of(boxes_.dataset, row.index, boxes_.number);
    const Plan upright = on_upright(row.plan, row.sample.orientation);
    auto moved = move_boxes(boxes, upright, rules_);
    const size_t most = static_cast<size_t>(most_), dropped = std::max(moved.size(), most) - most;
    naming(boxes_, row, [&] {
      if (dropped > 0 && !keeps_largest_) throw too_many(boxes_, moved.size(), most_);
    });
    if (dropped > 0) keep_largest(moved, most);
    if (keeps_largest_) put_count(dropped, to[4 + followers_.size()]);
    std::vector<Box> places;
    std::vector<float> shares;
    Indices left;
    for (const auto& box : moved) {
      places.push_back(box.box);
      shares.push_back(box.share);
      left.push_back(box.index);
    }
    put_padded(places, most_, to[0]);
    put_count(moved.size(), to[1]);
    put_padded(shares, most_, to[2]);
    put_padded(left, most_, to[3]);
    for (size_t i = 0; i < followers_.size(); ++i) {
      const auto& field = followers_[i];
      const size_t entry = field.column({}, 1).row_bytes();
      std::memset(to[4 + i] + left.size() * entry, 0, (static_cast<size_t>(most_) - left.size()) * entry);
      const HeldField stored = field.stored(row);
      naming(field, row, [&] { field.put(row, upright, stored.bytes, left, boxes.size(), to[4 + i]); });
    }
  }

 private:
  ObjectField boxes_;
  std::vector<ObjectField> followers_;
  std::string name_;
  int64_t most_;
  bool keeps_largest_;
  BoxRules rules_;
};

class KeypointsColumns final : public ColumnMaker {
 public:
  KeypointsColumns(ObjectField points, std::string name, int64_t most)
      : points_(points), name_(std::move(name)), most_(most) {}

  bool is_in_pixels() const override { return true; }
  std::string lacks_pairs() const override { return points_.lacks_pairs() ? points_.type().name : ""; }
  std::vector<Column> columns() const override {
    return {points_.column(name_, most_), {name_ + ".count", Dtype::kI64}};
  }

  void make(const ColumnRow& row, ColumnCells to) const override {
    const size_t entry = points_.type().entry_bytes();
    const HeldField stored = points_.stored(row);
    const size_t count = stored.bytes.size() / entry;
    Indices all;
    for (size_t i = 0; i < count; ++i) all.push_back(static_cast<int64_t>(i));
    naming(points_, row, [&] {
      if (count > static_cast<size_t>(most_)) throw too_many(points_, count, most_);
      std::memset(to[0] + count * entry, 0, (static_cast<size_t>(most_) - count) * entry);
      points_.put(row, on_upright(row.plan, row.sample.orientation), stored.bytes, all, count, to[0]);
    });
    put_count(count, to[1]);
  }

 private:
  ObjectField points_;
  std::string name_;
  int64_t most_;
};

Error wrong_key(const Spec& spec, const std::string& problem) {
  return config_error(concat("column ", spec.text(), ": ", problem));
}

ObjectField object_field(const Spec& spec, const ColumnContext& context, FieldKind kind) {
  const std::string name = spec.get("field", std::string(field_kind_name(kind)).c_str());
  const ObjectField field{context.dataset, context.dataset.field_number(name), context.extent};
  if (field.type().kind == kind) return field;
  throw wrong_key(spec, concat("field ", in_quotes(name), " is of kind ", field_kind_name(field.type().kind),
                               "; expected ", field_kind_name(kind)));
}

int64_t most_of(const Spec& spec, const ObjectField& field) {
  constexpr int kMost = 1 << 20;
  const int most = spec.get("most", static_cast<int>(std::clamp<uint64_t>(field.type().most, 1, kMost)));
  if (most < 1 || most > kMost) throw wrong_key(spec, concat("most is ", most, "; expected 1 to ", kMost));
  return most;
}

std::vector<ObjectField> followers_of(const Spec& spec, const ColumnContext& context, const ObjectField& boxes) {
  std::vector<ObjectField> followers;
  if (!spec.has("with")) return followers;
  for (const auto& name : split(spec.get("with", ""), ':')) {
    const ObjectField field{context.dataset, context.dataset.field_number(name), context.extent};
    if (field.type().of != boxes.type().name)
      throw wrong_key(spec, concat("field ", in_quotes(name), " in with= belongs to ",
                                   field.type().of.empty() ? "no boxes" : in_quotes(field.type().of),
                                   "; expected one of ", in_quotes(boxes.type().name)));
    if (field.type().kind == FieldKind::kBoxes)
      throw wrong_key(spec, concat("field ", in_quotes(name),
                                   " in with= is of kind boxes; expected it as boxes(field=", name, ")"));
    followers.push_back(field);
  }
  const size_t limit = ColumnMaker::kMostColumns - (spec.is_second("over", "error", "largest") ? 5 : 4);
  if (followers.size() > limit)
    throw wrong_key(spec, concat("with has ", followers.size(), " fields; expected at most ", limit));
  return followers;
}

double rule(const Spec& spec, const char* key, double limit) {
  const double value = spec.get(key, 0.0);
  if (!(value >= 0 && value <= limit)) throw wrong_key(spec, concat(key, " is ", value, "; expected 0 to ", limit));
  return value;
}

std::unique_ptr<ColumnMaker> make_boxes(const Spec& spec, const ColumnContext& context) {
  constexpr double kSide = 65535;
  const ObjectField boxes = object_field(spec, context, FieldKind::kBoxes);
  const BoxRules rules{.min_share = rule(spec, "min-share", 1),
                       .min_area = rule(spec, "min-area", kSide * kSide),
                       .min_size = rule(spec, "min-size", kSide),
                       .needs_center = spec.get("center", false)};
  return std::make_unique<BoxesColumns>(boxes, followers_of(spec, context, boxes),
                                        spec.get("column", boxes.type().name.c_str()), most_of(spec, boxes),
                                        spec.is_second("over", "error", "largest"), rules);
}

std::unique_ptr<ColumnMaker> make_keypoints(const Spec& spec, const ColumnContext& context) {
  const ObjectField points = object_field(spec, context, FieldKind::kKeypoints);
  return std::make_unique<KeypointsColumns>(points, spec.get("column", points.type().name.c_str()),
                                            most_of(spec, points));
}

const Registered<ColumnKind> kBoxes{
    "boxes",
    {"field", "column", "most", "over", "with", "min-share", "min-area", "min-size", "center"},
    "boxes under the plan of the picture, with .count, .share and .index: field= (default boxes), column=name of the "
    "columns, most=boxes of a row, over=error|largest: whether a row with more is an error (default) or keeps the "
    "largest, with .dropped, with=f:g fields whose entries belong to the boxes, min-share=, min-area=, min-size= "
    "of what stays, center=true for boxes whose middle is inside alone",
    make_boxes};
const Registered<ColumnKind> kKeypoints{
    "keypoints",
    {"field", "column", "most"},
    "key points that belong to no box, under the plan of the picture, with .count: field= (default keypoints), "
    "column=name of the columns, most=entries of a row",
    make_keypoints};

}  // namespace
}  // namespace penstock
