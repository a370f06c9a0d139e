// Keys that several modes have: their limits.
#include "train/parallel/modes/mode_keys.h"

#include <iterator>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "train/optimizers/optimizer.h"

namespace penstock::detail {
namespace {

constexpr int kMost = 65'536;  // products of copies, micro-batches and the parts of a model stay in an int

/// The multiples of `step` next to `count` that divide `rows`: "4 or 8". "" if there is none.
std::string divisors_text(int64_t rows, int64_t count, int64_t step) {
  std::set<int64_t> divisors;
  for (int64_t small = 1; small * small <= rows; ++small)
    if (rows % small == 0)
      for (const int64_t divisor : {small, rows / small})
        if (divisor % step == 0) divisors.insert(divisor);
  if (divisors.empty()) return "";
  const auto above = divisors.upper_bound(count);
  if (above == divisors.begin()) return std::to_string(*above);
  const int64_t below = *std::prev(above);
  return above == divisors.end() ? std::to_string(below) : concat(below, " or ", *above);
}

}  // namespace

std::string flag(const Spec& spec) { return concat("--mode ", spec.name()); }

int at_least_one(const Spec& spec, const char* key, int fallback) {
  const int value = spec.get(key, fallback);
  if (value < 1 || value > kMost)
    throw config_error(concat(flag(spec), ": ", key, " is ", value, "; expected 1 to ", kMost));
  return value;
}

void check_divides(const Spec& spec, const std::string& what, const std::string& copies, const Division& division) {
  const auto [batch_size, copy_count, count, step] = division;
  const int64_t rows = batch_size / copy_count;
  const bool is_even = batch_size % copy_count == 0;
  if (batch_size == 0 || (is_even && rows % count == 0)) return;
  const std::string divisors = is_even ? divisors_text(rows, count, step) : std::string();
  throw config_error(concat(flag(spec), ": ", what, " for --batch-size ", batch_size,
                            copy_count > 1 ? concat(" over ", copy_count, " ", copies) : "",
                            "; expected micro-batches of equal size, as ",
                            divisors.empty() ? concat("a batch that ", copy_count * step, " divides") : divisors));
}

int micro_batches_of_shards(const Spec& spec, const char* key, int micro_shards, int copies,
                            const std::string& copies_name) {
  if (copies > micro_shards || micro_shards % copies != 0)
    throw config_error(concat(flag(spec), ": ", copies, " ", copies_name, " with --exact ", micro_shards,
                              "; expected a number of ", copies_name, " that divides ", micro_shards));
  const int count = micro_shards / copies;
  if (const int given = key == nullptr ? count : spec.get(key, count); given != count)
    throw config_error(concat(flag(spec), ": ", key, " is ", given, " with --exact ", micro_shards,
                              copies > 1 ? concat(" over ", copies, " ", copies_name) : "", "; expected ", count,
                              ", a shard each, or no ", key));
  return count;
}

int accumulate_of(const Spec& spec, int64_t batch_size, int ranks, int micro_shards) {
  if (micro_shards > 0) return micro_batches_of_shards(spec, "accumulate", micro_shards, ranks, "ranks");
  const int count = at_least_one(spec, "accumulate", 1);
  if (count > 1)
    check_divides(spec, concat("accumulate is ", count), "ranks",
                  {.batch_size = batch_size, .copies = ranks, .count = count});
  return count;
}

bool syncs_batch_norm(const Spec& spec, int micro_shards) {
  const bool is_on = spec.get("sync-bn", false);
  if (is_on && micro_shards > 0)
    throw config_error(concat(flag(spec), ": sync-bn is true with --exact ", micro_shards,
                              "; expected one of them: with --exact BatchNorm normalises by a shard"));
  const int count = spec.get("accumulate", 1);
  if (is_on && count > 1)
    throw config_error(concat(flag(spec), ": sync-bn is true and accumulate is ", count,
                              "; expected one of them: BatchNorm would see a micro-batch of all ranks, not the batch"));
  if (is_on && spec.get("deferred-bn", false))
    throw config_error(concat(flag(spec), ": sync-bn is true and deferred-bn is true; expected one of them: with ",
                              "sync-bn the running statistics are those of the batch"));
  return is_on;
}

bool defers_batch_norm(const Spec& spec, int micro_shards) {
  const bool is_on = spec.get("deferred-bn", false);
  if (is_on && micro_shards > 0)
    throw config_error(
        concat(flag(spec), ": deferred-bn is true with --exact ", micro_shards,
               "; expected one of them: with --exact running statistics move by the mean of the shards"));
  return is_on;
}

void check_takes_slices(const Spec& spec, const MeshRequest& request) {
  if (request.clip.needs_whole_tensors())
    throw config_error(concat("--mode ", spec.text(), " with --clip-grad ", request.clip.text,
                              ", which needs whole parameters; expected a mode that does not cut them into slices, "
                              "such as ddp"));
  if (!request.optimizer) return;
  const std::string name = request.optimizer->name();
  if (!OptimizerRegistry::entry(name).traits.needs_whole_tensors) return;
  throw config_error(concat("--mode ", spec.text(), " with --optimizer ", name, ", which needs whole parameters; ",
                            "expected a mode that does not cut them into slices, such as ddp"));
}

}  // namespace penstock::detail
