// mix: how many rows of an epoch each of several joined data sets has, and where they stand.
//
// `proportion`, `repeat` and `choose` mean what they mean in MosaicML Streaming.
#include "loader/order/mix.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "loader/order/order.h"
#include "loader/order/quota.h"
#include "loader/order/ticks.h"
#include "loader/samplers/sampler.h"
#include "loader/samplers/weights.h"

namespace penstock {
namespace {

constexpr size_t kMostParts = 255;
constexpr double kMostRows = 0x1p40;
constexpr int kMostCopies = 1 << 24;  // of a sample: more would have the random numbers of another part's
constexpr int kMostByProportion = 1000;

/// The elements of a data set, among those that an epoch may have.
struct Part {
  std::string folder;
  uint64_t begin, size;
};

std::vector<Part> parts_of(const Spec& spec, const SamplerContext& context) {
  std::vector<Part> parts;
  uint64_t begin = 0;
  for (const auto& own : context.dataset.parts()) {
    uint64_t end = own.end;
    if (context.subset != nullptr)
      end = static_cast<uint64_t>(std::lower_bound(context.subset->begin(), context.subset->end(), own.end) -
                                  context.subset->begin());
    parts.push_back({own.folder.string(), begin, end - begin});
    begin = end;
  }
  if (parts.size() < 2 || parts.size() > kMostParts)
    throw config_error(concat(spec.where(), ": ", parts.size(), parts.size() == 1 ? " data set" : " data sets",
                              "; expected 2 to ", kMostParts));
  return parts;
}

std::vector<double> list_of(const Spec& spec, const std::string& key, size_t count) {
  auto values = spec.get(key, std::vector<double>{});
  if (values.size() != count)
    throw config_error(concat(spec.where(), ": ", key, " has ", values.size(), " numbers for ", count,
                              " data sets; expected one for each, as in ", key, "=3:1"));
  for (const double value : values)
    if (value < 0)
      throw config_error(concat(spec.where(), ": ", key, " has ", value, "; expected numbers of 0 or more"));
  return values;
}

/// `whole` divided in the proportions of the weights; what is left of roundings goes to the largest remainders.
std::vector<uint64_t> divided(uint64_t whole, const std::vector<uint64_t>& weights) {
  using detail::Wide;
  const uint64_t sum = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  std::vector<uint64_t> shares;
  std::vector<std::pair<uint64_t, size_t>> remainders;
  uint64_t left = whole;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Wide exact = Wide{whole} * weights[i];
    shares.push_back(static_cast<uint64_t>(exact / sum));
    remainders.emplace_back(static_cast<uint64_t>(exact % sum), i);
    left -= shares.back();
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (uint64_t k = 0; k < left; ++k) ++shares[remainders[k].second];
  return shares;
}

uint64_t rounded_rows(const Spec& spec, double rows) {
  if (rows > kMostRows)
    throw config_error(concat(spec.where(), ": ", rows, " rows per epoch; expected ", kMostRows, " or fewer"));
  return static_cast<uint64_t>(std::llround(rows));
}

/// Rows of each part in an epoch.
std::vector<uint64_t> counts_of(const Spec& spec, const SamplerContext& context, const std::vector<Part>& parts) {
  const int kinds = spec.has("proportion") + spec.has("repeat") + spec.has("choose");
  if (kinds != 1)
    throw config_error(
        concat(spec.where(), ": has ", kinds, " of proportion, repeat and choose; expected one of them"));
  if (spec.has("rows") && !spec.has("proportion"))
    throw config_error(
        concat(spec.where(), ": has rows, which follow from repeat and choose; expected rows with proportion alone"));
  std::vector<uint64_t> counts;
  if (spec.has("proportion")) {
    const auto weights = whole_weights(list_of(spec, "proportion", parts.size()), spec.where(),
                                       [&](uint64_t i) { return parts[i].folder; });
    counts = divided(rows_of(spec, context.size()), weights);
  } else {
    const bool repeats = spec.has("repeat");
    const auto values = list_of(spec, repeats ? "repeat" : "choose", parts.size());
    for (size_t i = 0; i < parts.size(); ++i)
      counts.push_back(rounded_rows(spec, repeats ? values[i] * static_cast<double>(parts[i].size) : values[i]));
  }
  for (size_t i = 0; i < parts.size(); ++i)
    if (counts[i] > 0 && parts[i].size == 0)
      throw config_error(concat(spec.where(), ": ", counts[i], " rows of ", parts[i].folder,
                                ", which has 0 samples; expected some, or 0 for it"));
  if (std::accumulate(counts.begin(), counts.end(), uint64_t{0}) == 0)
    throw config_error(concat(spec.where(), ": an epoch of 0 rows; expected 1 or more"));
  return counts;
}

std::vector<uint64_t> turns_of(std::vector<uint64_t> counts, uint64_t divisor) {
  for (uint64_t& count : counts) count /= divisor;
  return counts;
}

std::vector<std::string> texts_of(const std::vector<uint64_t>& counts) {
  std::vector<std::string> texts;
  for (const uint64_t count : counts) texts.push_back(std::to_string(count));
  return texts;
}

/// Throws where an epoch is too long, or has no short period of turns (QuotaSequence).
void check_turns(const Spec& spec, const std::vector<uint64_t>& counts, uint64_t turn_rows) {
  const uint64_t rows = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  rounded_rows(spec, static_cast<double>(rows));
  const uint64_t period = QuotaSequence::period_of(turns_of(counts, turn_rows));
  if (period > QuotaSequence::kMostPeriod)
    throw config_error(concat(spec.where(), ": the rows of an epoch, ", join(texts_of(counts), " and "),
                              ", repeat their turns after ", period,
                              "; expected numbers with a common divisor, so that ", "it is ",
                              QuotaSequence::kMostPeriod, " or less"));
}

/// Throws where a sample would occur more often than `most`. By default that is for a proportion kMostByProportion,
/// because it does not say how often samples occur; repeat and choose do.
void check_most(const Spec& spec, const std::vector<Part>& parts, const std::vector<uint64_t>& counts) {
  const int most = spec.get("most", spec.has("proportion") ? kMostByProportion : kMostCopies);
  if (most < 1 || most > kMostCopies)
    throw config_error(concat(spec.where(), ": most is ", most, "; expected 1 to ", kMostCopies, " times"));
  for (size_t i = 0; i < parts.size(); ++i)
    if (counts[i] > parts[i].size * static_cast<uint64_t>(most))
      throw config_error(concat(spec.where(), ": ", counts[i], " rows of ", parts[i].folder, ", whose ", parts[i].size,
                                " samples may occur ", most, " times; expected fewer rows, or another most"));
}

enum class Batches { kRandom, kStratified, kPerSource };

Batches batches_of(const Spec& spec) {
  const std::string name = spec.get("batches", "stratified");
  if (name == "random") return Batches::kRandom;
  if (name == "stratified") return Batches::kStratified;
  if (name == "per-source") return Batches::kPerSource;
  throw config_error(
      concat(spec.where(), ": ", unknown_name("kind of batches", name, {"per-source", "random", "stratified"})));
}

/// Whole batches: each part's rows as a multiple of the batch size, at least one where it has rows.
std::vector<uint64_t> in_batches(std::vector<uint64_t> counts, uint64_t batch_size) {
  for (uint64_t& count : counts)
    if (count > 0) count = std::max<uint64_t>(1, (count + batch_size / 2) / batch_size) * batch_size;
  return counts;
}

class Mix final : public Sampler {
 public:
  Mix(const SamplerContext& context, std::vector<Part> parts, std::vector<uint64_t> counts, Batches batches)
      : parts_(std::move(parts)),
        counts_(std::move(counts)),
        batches_(batches),
        turn_rows_(batches == Batches::kPerSource ? static_cast<uint64_t>(context.batch_size) : 1),
        turns_(turns_of(counts_, turn_rows_)),
        rows_(std::accumulate(counts_.begin(), counts_.end(), uint64_t{0})),
        seed_(context.seed),
        is_shuffled_(context.is_shuffled) {}

  uint64_t rows() const override { return rows_; }

  std::string text() const override {
    std::string text;
    for (size_t i = 0; i < parts_.size(); ++i)
      text += concat(i == 0 ? "" : ", ", counts_[i], " of ", parts_[i].folder, " (", parts_[i].size, " samples",
                     most_times(i) > 1 ? concat(", up to ", most_times(i), " times each") : "", ")");
    return text;
  }

  std::unique_ptr<const SampledEpoch> epoch(int64_t epoch) const override {
    return std::make_unique<Epoch>(*this, static_cast<uint64_t>(epoch));
  }

 private:
  struct Epoch final : SampledEpoch {
    Epoch(const Mix& sampler, uint64_t epoch)
        : mix(sampler),
          places(sampler.is_shuffled_ && sampler.batches_ == Batches::kRandom
                     ? Order::shuffled(sampler.rows_, sampler.seed_, epoch)
                     : Order::sequential(sampler.rows_)) {
      for (size_t i = 0; i < mix.parts_.size(); ++i) {
        const uint64_t size = mix.parts_[i].size, key = detail::keyed_bits(mix.seed_, i + 1, 0x313);
        // A data set that is mixed in twice has two orders: the key is the part's number.
        ticks.push_back({mix.counts_[i], size, detail::scaled_below(detail::keyed_bits(key, epoch), size)});
        rows.push_back(shuffled(mix.counts_[i], key, epoch));
        elements.push_back(shuffled(size, key + 1, epoch));
      }
    }

    Order shuffled(uint64_t size, uint64_t key, uint64_t epoch) const {
      return mix.is_shuffled_ ? Order::shuffled(size, key, epoch) : Order::sequential(size);
    }

    Draw at(uint64_t position) const override {
      const uint64_t row = places.at(position);
      const auto turn = mix.turns_.at(row / mix.turn_rows_);
      // Copies of a sample that comes twice must not be neighbours, so that the part's rows are shuffled again.
      const uint64_t tick = rows[turn.part].at(turn.number * mix.turn_rows_ + row % mix.turn_rows_);
      const uint64_t place = ticks[turn.part].unit_of(tick);
      // Other parts may have samples of the same id, whose random numbers are others.
      const auto copy =
          static_cast<uint32_t>(tick - ticks[turn.part].first_at(place)) + static_cast<uint32_t>(turn.part << 24);
      return {mix.parts_[turn.part].begin + elements[turn.part].at(place), copy};
    }

    const Mix& mix;
    Order places;
    std::vector<Ticks> ticks;           // one entry per part, as the two below
    std::vector<Order> rows, elements;  // of its rows in the epoch, and of its elements
  };

  uint64_t most_times(size_t part) const {
    return (counts_[part] + parts_[part].size - 1) / std::max<uint64_t>(parts_[part].size, 1);
  }

  std::vector<Part> parts_;
  std::vector<uint64_t> counts_;
  Batches batches_;
  uint64_t turn_rows_;
  QuotaSequence turns_;
  uint64_t rows_, seed_;
  bool is_shuffled_;
};

const Registered<SamplerKind> kMix{
    "mix",
    {"proportion", "repeat", "choose", "rows", "batches", "most"},
    "of several data sets, a number for each in their order: proportion=3:1 of rows=ROWS per epoch (default: as many "
    "as samples), repeat=1:2.5 times all its samples, or choose=5000:800 rows; batches=stratified: every batch, and "
    "every "
    "first so many rows, have these shares to one row (default); random: they are shuffled; per-source: a batch has "
    "samples of one data set; most=TIMES: refuse more of a sample (default with proportion: 1000)",
    [](const Spec& spec, const SamplerContext& context) -> std::unique_ptr<Sampler> {
      auto parts = parts_of(spec, context);
      auto counts = counts_of(spec, context, parts);
      const Batches batches = batches_of(spec);
      const uint64_t turn_rows = batches == Batches::kPerSource ? static_cast<uint64_t>(context.batch_size) : 1;
      if (batches == Batches::kPerSource) counts = in_batches(std::move(counts), turn_rows);
      check_turns(spec, counts, turn_rows);
      check_most(spec, parts, counts);
      return std::make_unique<Mix>(context, std::move(parts), std::move(counts), batches);
    }};

}  // namespace
}  // namespace penstock
