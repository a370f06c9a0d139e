// penstock._native.begin_watch(), end_watch(), drop_watch() and foresee(): what limits a loop over a Loader.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "core/machine.h"
#include "loader/bottleneck/bottleneck.h"
#include "loader/bottleneck/cache_model.h"
#include "loader/bottleneck/observe.h"
#include "loader/bottleneck/watch.h"
#include "loader/cache/cache_options.h"
#include "loader/far/sim_link.h"
#include "python/src/module.h"
#include "python/src/native_loader.h"

namespace penstock::python {
namespace {

using nanobind::literals::operator""_a;

nb::dict bottleneck_dict(const LoopMeasurement& run, const Bottleneck& bottleneck) {
  nb::list predictions;
  for (const auto& one : bottleneck.predictions) {
    nb::dict prediction;
    prediction["workers"] = one.workers;
    prediction["images_per_second"] = one.images_per_second;
    prediction["low"] = one.low;
    prediction["high"] = one.high;
    predictions.append(prediction);
  }
  nb::list link_predictions;
  for (const auto& one : bottleneck.link_predictions) {
    nb::dict prediction;
    if (one.cache_bytes > 0)
      prediction["cache_bytes"] = one.cache_bytes;
    else
      prediction["link_factor"] = one.link_factor;
    prediction["images_per_second"] = one.images_per_second;
    link_predictions.append(prediction);
  }
  nb::dict dict;
  dict["link_predictions"] = link_predictions;
  dict["link_bytes_per_second"] = run.link_bytes_per_second;
  dict["cache_share"] = run.link_bytes_per_second > 0 ? run.cache_share : 1.0;
  dict["is_emulated"] = run.is_emulated;
  dict["sentence"] = bottleneck.sentence;
  dict["bound"] = bottleneck.predictions.empty() ? "" : name_of(bottleneck.bound);
  dict["workers"] = run.workers;
  dict["best_workers"] = bottleneck.best_workers;
  dict["speed_up"] = bottleneck.speed_up;
  dict["limit"] = bottleneck.limit;
  dict["images_per_second"] = run.images_per_second;
  dict["step_ms"] = run.step_ms;
  dict["wait_ms"] = run.wait_ms;
  dict["steps"] = run.step_count;
  dict["predictions"] = predictions;
  return dict;
}

/// A loop that waited for its storage costs half a second here.
Bottleneck judge(const NativeLoader& loader, LoopMeasurement& run) {
  ask_cache(run, loader.dataset(), loader.options());
  ask_storage(run, loader.dataset(), needed_shards(loader.options()));
  return find_bottleneck(run);
}

nb::dict end_watch(NativeLoader& loader, int ranks, double update_threads, bool is_async) {
  LoopMeasurement run{
      .times = {.update_threads = update_threads, .cores = usable_cores(), .ranks = ranks, .is_async = is_async}};
  Bottleneck bottleneck;
  {
    const Unlocked released;
    run = loader.end_watch(run);
    bottleneck.best_workers = run.workers;
    bottleneck.sentence = too_short_text(run);
    if (bottleneck.sentence.empty()) bottleneck = judge(loader, run);
  }
  return bottleneck_dict(run, bottleneck);
}

nb::dict foresee(NativeLoader& loader, double step_ms, double step_cpu_ms, int ranks) {
  LoopMeasurement run{.times = {.cores = usable_cores(), .ranks = ranks}};
  Bottleneck bottleneck;
  {
    const Unlocked released;
    run = loader.foresee(run, step_ms, step_cpu_ms);
    bottleneck = judge(loader, run);
  }
  return bottleneck_dict(run, bottleneck);
}

std::string promised(const std::string& who, const std::string& what, double images_per_second, double low, double high,
                     double measured, bool is_emulated) {
  return promise_text(who, what, {.images_per_second = images_per_second, .low = low, .high = high},
                      {.images_per_second = measured, .is_emulated = is_emulated});
}

/// Delay in ms and bytes per second of a text that sim_link has taken; 0 and 0 for "".
std::pair<double, double> link_speed(const std::string& text) {
  if (text.empty()) return {0, 0};
  const LinkSpeed speed = parse_link_speed(kSimLinkVariable, text);
  return {speed.delay_ms, speed.bytes_per_second};
}

/// Bytes of a limit of the cache that names bytes; 0 for "" and for a part of the disk.
uint64_t byte_limit(const std::string& text) {
  return text.empty() || text.ends_with("%") ? 0 : parse_byte_limit(kCacheLimitVariable, text, 0);
}

}  // namespace

void define_limit(nb::module_& module) {
  module.def("link_speed", link_speed, "text"_a);
  module.def("byte_limit", byte_limit, "text"_a);
  module.def(
      "behind_sim_link",
      [](const std::string& speed, const std::string& folder) {
        return behind_sim_link("loader: sim_link", speed, folder);
      },
      "speed"_a, "folder"_a);
  module.def("begin_watch", &NativeLoader::begin_watch, "loader"_a, Release());
  module.def("end_watch", end_watch, "loader"_a, "ranks"_a, "update_threads"_a, "is_async"_a);
  module.def("drop_watch", &NativeLoader::drop_watch, "loader"_a, Release());
  module.def("foresee", foresee, "loader"_a, "step_ms"_a, "step_cpu_ms"_a, "ranks"_a);
  module.def("usable_cores", usable_cores);
  module.def("promise_text", promised, "who"_a, "what"_a, "images_per_second"_a, "low"_a, "high"_a, "measured"_a,
             "is_emulated"_a);
}

}  // namespace penstock::python
