// LossTarget: fields by name.
#include "train/losses/target.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {

LossTarget field_target(const Spec& spec, const Manifest* data, bool takes_labels) {
  LossTarget target{.field = spec.get("target", "")};
  int classes = takes_labels ? spec.get("classes", 0) : 0;
  const std::string where = concat("--loss ", spec.text(), ": ");
  if (classes < 0 || (classes > 0 && target.is_class()))
    throw config_error(
        concat(where, "classes is ", classes, "; expected target=FIELD of labels, and how many there are"));
  if (target.is_class() || data == nullptr) return target;
  std::vector<std::string> known;
  for (const auto& field : data->fields) known.push_back(field.name);
  const auto field = std::find(known.begin(), known.end(), target.field) - known.begin();
  if (known.empty()) throw config_error(concat(where, "samples have no field; expected data with ", target.field));
  if (static_cast<size_t>(field) == known.size())
    throw config_error(concat(where, unknown_name("field", target.field, known)));
  const FieldType& type = data->fields[static_cast<size_t>(field)];
  target.columns = concat("field(name=", target.field, ",column=", kTargetColumn);
  if (takes_labels && type.kind == FieldKind::kLabels) {
    if (classes == 0) classes = static_cast<int>(type.names.size());
    if (classes == 0)
      throw config_error(concat(where, "field ", target.field,
                                " has labels without names; expected classes=, how many ", "there are"));
    target.names = type.names;
    target.columns += concat(",as=multi-hot,classes=", classes);
    target.outputs = classes;
  } else if (type.kind == FieldKind::kNumber && !type.is_variable()) {
    target.outputs = static_cast<int64_t>(type.element_count());
    if (takes_labels) target.columns += ",range=0:1";  // as labels give, of which these are degrees
  } else {
    throw config_error(concat(where, "field ", target.field, " is of kind ", field_kind_name(type.kind),
                              type.is_variable() ? " and of any length" : "", "; expected numbers of a fixed shape",
                              takes_labels ? ", or labels" : ""));
  }
  target.columns += ")";
  return target;
}

torch::Tensor targets_of(const DeviceBatch& rows, int64_t outputs) {
  const auto column = rows.columns.find(kTargetColumn);
  if (column == rows.columns.end())
    throw bug_error("a loss of a field, and batches without it; expected the column target");
  return column->second.reshape({-1, outputs});
}

}  // namespace penstock::detail
