// TrainOptions: what texts mean, and default numbers of threads.
#include "train/options/options.h"

#include <algorithm>
#include <cmath>

#include "core/choice.h"
#include "core/number.h"
#include "loader/batch/option_names.h"

namespace penstock {
namespace {

/// The number before the unit times what `unit_of` says of the unit (0: none); none if `text` is anything else, or
/// below 0.
template <class UnitOf>
std::optional<double> quantity_in(std::string_view text, const UnitOf& unit_of) {
  const auto value = take_number<double>(text);
  const double unit = unit_of(text);
  return value && *value >= 0 && unit > 0 ? std::optional(*value * unit) : std::nullopt;
}

double nanoseconds_of_unit(std::string_view unit) {
  if (unit == "ns") return 1;
  if (unit == "us") return 1e3;
  if (unit == "ms") return 1e6;
  return unit == "s" ? 1e9 : 0;
}

constexpr double kMost_ns = 3600e9;

std::optional<double> nanoseconds_in(const std::string& text) {
  const auto ns = quantity_in(text, nanoseconds_of_unit);
  return ns && *ns <= kMost_ns ? ns : std::nullopt;
}

}  // namespace

SaveEvery parse_save_every(const std::string& text) {
  std::string_view unit = text;
  const int64_t count = take_number<int64_t>(unit).value_or(-1);
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  const bool is_step = unit.empty() || unit == "step" || unit == "steps";
  const bool is_epoch = unit == "epoch" || unit == "epochs";
  if (count < 0 || !(is_step || is_epoch)) {
    throw config_error(
        concat("--save-every is ", in_quotes(text), "; expected \"100 steps\", \"1 epoch\", or 0 for the end only"));
  }
  return is_step ? SaveEvery{count, 0} : SaveEvery{0, count};
}

Shuffle parse_shuffle(const std::string& name) { return parse_shuffle("--shuffle", name, "shuffle"); }
Tail parse_tail(const std::string& name) { return choice("--tail", name, tail_names(), "tail"); }
Layout parse_layout(const std::string& name) {
  return choice<Layout>("--layout", name, {{"f32", Layout::kF32Nchw}, {"u8", Layout::kU8Nhwc}}, "layout");
}
DecodePath parse_decode(const std::string& name) { return choice("--decode", name, decode_names(), "decode"); }
DctScale parse_dct_scale(const std::string& name) {
  return choice("--dct-scale", name, dct_scale_names(), "dct-scale");
}
OnCorrupt parse_on_corrupt(const std::string& name) {
  return choice("--on-corrupt", name, on_corrupt_names(), "on-corrupt");
}

SizeSchedule parse_size_schedule(const std::string& text) { return {"--size-schedule", text}; }

int64_t parse_duration_ns(const std::string& flag, const std::string& text) {
  if (text.empty()) return 0;
  const auto ns = nanoseconds_in(text);
  if (!ns)
    throw config_error(
        concat(flag, " is ", in_quotes(text), "; expected a time with its unit, such as 1.2ms or 100us, up to 3600s"));
  return std::llround(*ns);
}

std::optional<NetworkModel> parse_network(const std::string& flag, const std::string& text) {
  if (text.empty()) return std::nullopt;
  constexpr double kLeast = 1, kMost = 1e15;  // bytes per second
  const auto parts = split(text, ',');
  const auto delay_ns = parts.size() == 2 ? nanoseconds_in(parts[0]) : std::nullopt;
  const auto rate = parts.size() == 2 ? quantity_in(parts[1], bytes_of_rate) : std::nullopt;
  if (!delay_ns || !rate || *rate < kLeast || *rate > kMost)
    throw config_error(concat(flag, " is ", in_quotes(text),
                              "; expected a delay up to 3600s and a rate of 1B/s or more, ",
                              "with their units, such as 25us,10GB/s"));
  return NetworkModel{std::llround(*delay_ns), *rate, text};
}

std::string to_string(const SaveEvery& save_every) {
  if (save_every.steps > 0) return concat(save_every.steps, " steps");
  return save_every.epochs > 0 ? concat(save_every.epochs, " epochs") : "0";
}

ThreadCounts default_threads(int core_count, bool is_cuda) {
  if (is_cuda) return {std::clamp(core_count - 1, 1, 8), 1};
  constexpr int kWorkers = 1;
  return {kWorkers, std::max(1, core_count - kWorkers)};
}

void choose_schedule_form(ParallelOptions& options, const std::string& form) {
  if (form != "drawing" && form != "csv" && form != "true" && form != "false")
    throw config_error(concat("--print-schedule is ", in_quotes(form), "; expected csv, or nothing, which draws"));
  options.prints_schedule = form != "false";
  options.prints_csv = form == "csv";
}

DctScale training_dct_scale(const DataOptions& options) {
  return *options.dct_scale == DctScale::kAuto ? DctScale::kAlways : *options.dct_scale;
}

DctScale evaluation_dct_scale(const DataOptions& options) {
  return *options.dct_scale == DctScale::kAuto ? DctScale::kOff : *options.dct_scale;
}

}  // namespace penstock
