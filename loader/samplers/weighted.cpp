// weighted: a sample occurs in proportion to its weight, rounded down or up in every epoch; or drawn with replacement.
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "loader/order/alias_table.h"
#include "loader/order/mix.h"
#include "loader/samplers/id_list.h"
#include "loader/samplers/line_epoch.h"
#include "loader/samplers/sampler.h"
#include "loader/samplers/weights.h"

namespace penstock {
namespace {

std::vector<double> weights_in_field(const Spec& spec, const std::string& name, const SamplerContext& context) {
  const Dataset& dataset = context.dataset;
  const size_t number = dataset.field_number(name);
  const FieldType& type = dataset.manifest().fields[number];
  const bool has_numbers = type.kind == FieldKind::kNumber;
  if (!has_numbers || type.is_variable() || type.element_count() != 1)
    throw config_error(concat(spec.where(), ": field ", in_quotes(name), " of ", dataset.folder().string(),
                              !has_numbers         ? concat(" is of kind ", field_kind_name(type.kind))
                              : type.is_variable() ? std::string(" holds a list of numbers")
                                                   : concat(" holds ", type.element_count(), " numbers"),
                              "; expected one number"));
  const auto read = number_reader(type.dtype);
  std::vector<double> weights(context.size());
  for (uint64_t e = 0; e < weights.size(); ++e) {
    const uint64_t index = context.index_of(e);
    const HeldField stored = dataset.field(index, number);
    weights[e] = read(stored.bytes.data());
    dataset.check_read(index);
  }
  return weights;
}

/// One weight per element, from where the spec says.
std::vector<double> weights_of(const Spec& spec, const SamplerContext& context) {
  const std::string file = spec.get("file", ""), field = spec.get("field", "");
  if (!file.empty() + !field.empty() + (context.weights != nullptr) > 1)
    throw config_error(
        concat(spec.where(), ": has several kinds of weights; expected one of field=, file= and weights"));
  if (!field.empty()) return weights_in_field(spec, field, context);
  std::vector<double> weights(context.size());
  if (!file.empty()) {
    const auto by_id = read_id_weights(file);
    for (uint64_t e = 0; e < weights.size(); ++e) {
      const auto found = by_id.find(context.dataset.at(context.index_of(e)).id);
      if (found == by_id.end())
        throw config_error(concat(spec.where(), ": ", file, " has no weight for sample ", context.index_of(e), " (id ",
                                  context.dataset.at(context.index_of(e)).id, "); expected one for every sample"));
      weights[e] = found->second;
    }
    return weights;
  }
  if (context.weights == nullptr)
    throw config_error(concat(spec.where(),
                              ": has no weights; expected field=NAME, file=FILE with id and weight per line, or ",
                              "weights=[...] of the loader"));
  if (context.weights->size() == context.size()) return *context.weights;
  if (context.weights->size() != context.dataset.size())
    throw config_error(concat(spec.where(), ": ", context.weights->size(), " weights for ", context.dataset.size(),
                              " samples", context.subset ? concat(", ", context.size(), " of them chosen") : "",
                              "; expected one for each"));
  for (uint64_t e = 0; e < weights.size(); ++e) weights[e] = (*context.weights)[context.index_of(e)];
  return weights;
}

std::vector<uint64_t> whole_weights_of(const Spec& spec, const SamplerContext& context) {
  return whole_weights(weights_of(spec, context), spec.where(), [&](uint64_t e) {
    return concat("sample ", context.index_of(e), " (id ", context.dataset.at(context.index_of(e)).id, ")");
  });
}

class Weighted final : public Sampler {
 public:
  Weighted(const Spec& spec, const SamplerContext& context, std::vector<uint64_t> weights)
      : checksum_(XXH3_64bits(weights.data(), weights.size() * sizeof(uint64_t))),
        order_(std::move(weights)),
        rows_(rows_of(spec, context.size())),
        seed_(context.seed),
        is_shuffled_(context.is_shuffled) {}

  uint64_t rows() const override { return rows_; }
  uint64_t checksum() const override { return checksum_; }

  std::string text() const override {
    uint64_t least = UINT64_MAX, most = 0, none = 0;
    for (uint64_t e = 0; e < order_.size(); ++e) {
      least = std::min(least, order_.weight(e)), most = std::max(most, order_.weight(e));
      none += order_.weight(e) == 0 ? 1 : 0;
    }
    using detail::Wide;
    const Wide sum = order_.weight_sum();
    const auto times = [&](uint64_t weight, Wide round) {
      return static_cast<uint64_t>((Wide{weight} * rows_ + round) / sum);
    };
    return concat("a sample occurs ", times(least, 0), " to ", times(most, sum - 1), " times",
                  none > 0 ? concat(", ", none, " never") : std::string());
  }

  std::unique_ptr<const SampledEpoch> epoch(int64_t epoch) const override {
    return std::make_unique<LineEpoch<WeightedOrder>>(order_, rows_, seed_, epoch, is_shuffled_);
  }

 private:
  uint64_t checksum_;
  WeightedOrder order_;
  uint64_t rows_, seed_;
  bool is_shuffled_;
};

/// Every row is drawn on its own. Rows are no copies by number, so that each has random numbers of its own.
class Replaced final : public Sampler {
 public:
  Replaced(const Spec& spec, const SamplerContext& context, const std::vector<uint64_t>& weights)
      : checksum_(XXH3_64bits(weights.data(), weights.size() * sizeof(uint64_t))),
        table_(weights),
        rows_(rows_of(spec, context.size())),
        seed_(context.seed) {}

  uint64_t rows() const override { return rows_; }
  uint64_t checksum() const override { return checksum_; }
  std::string text() const override { return "every row is drawn on its own"; }
  std::unique_ptr<const SampledEpoch> epoch(int64_t epoch) const override {
    return std::make_unique<Epoch>(table_, detail::keyed_bits(seed_, static_cast<uint64_t>(epoch), 0xA11A5));
  }

 private:
  struct Epoch final : SampledEpoch {
    Epoch(const AliasTable& alias_table, uint64_t epoch_key) : table(alias_table), key(epoch_key) {}
    Draw at(uint64_t position) const override {
      return {table.draw(detail::keyed_bits(key, position, 1), detail::keyed_bits(key, position, 2)),
              static_cast<uint32_t>(position % UINT32_MAX) + 1};
    }

    const AliasTable& table;
    uint64_t key;
  };

  uint64_t checksum_;
  AliasTable table_;
  uint64_t rows_, seed_;
};

const Registered<SamplerKind> kWeighted{
    "weighted",
    {"field", "file", "rows", "replacement"},
    "a sample occurs rows * w / (sum of all w) times per epoch, rounded down or up: field=NAME of the data set, "
    "file=FILE with id and weight per "
    "line (Python: or weights=), rows=ROWS per epoch (default: as many as samples), replacement=true: every row is "
    "drawn on its own (false)",
    [](const Spec& spec, const SamplerContext& context) -> std::unique_ptr<Sampler> {
      auto weights = whole_weights_of(spec, context);
      if (spec.get("replacement", false)) return std::make_unique<Replaced>(spec, context, weights);
      return std::make_unique<Weighted>(spec, context, std::move(weights));
    }};

}  // namespace
}  // namespace penstock
