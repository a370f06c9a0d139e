// The report: a table for people, and JSON.
#include "tools/loadbench/report.h"

#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/json_text.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/far/link_json.h"
#include "tools/out_file.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

Json stage_json(const LoaderStatistics::StageTime& stage) {
  return {{"count", stage.count}, {"mean_us", stage.mean_us()}, {"p99_us", stage.p99_us}, {"total_ms", stage.total_ms}};
}

double ready_share(const LoaderStatistics& statistics) {
  if (statistics.batch_count == 0) return 0;
  return static_cast<double>(statistics.ready_count) / static_cast<double>(statistics.batch_count);
}

Json run_json(const BenchRun& run) {
  return {{"workers", run.workers},
          {"images_per_second", run.images_per_second},
          {"epoch_images_per_second", run.epoch_images_per_second},
          {"first_batch_ms", run.first_batch_ms},
          {"ready_share", ready_share(run.statistics)},
          {"masked_count", run.statistics.masked_count},
          {"substituted_count", run.statistics.substituted_count},
          {"storage_bytes", run.statistics.all_workers().storage_bytes},
          {"read_ahead_count", run.statistics.read_ahead_count},
          {"dropped_count", run.statistics.dropped_count},
          {"other_cores", run.other_cores},
          {"link", nlohmann::ordered_json::parse(link_json(run.statistics.link))},
          {"slot_bytes", run.slot_bytes},
          {"resident_bytes", run.resident_bytes},
          {"stages",
           {{"read", stage_json(run.statistics.read)},
            {"plan", stage_json(run.statistics.plan)},
            {"decode", stage_json(run.statistics.decode)},
            {"render", stage_json(run.statistics.render)},
            {"storage", stage_json(run.statistics.storage())},
            {"wait", stage_json(run.statistics.wait)}}}};
}

/// `mean/p99` of a stage, in us.
std::string times(const LoaderStatistics::StageTime& stage) {
  std::ostringstream out;
  const auto put = [&](double us) { out << std::fixed << std::setprecision(us < 10 ? 2 : us < 100 ? 1 : 0) << us; };
  put(stage.mean_us());
  out << '/';
  put(stage.p99_us);
  return out.str();
}

}  // namespace

std::string report_table(const Dataset& dataset, const BenchOptions& options, const std::vector<BenchRun>& runs) {
  const auto machine = this_machine();
  std::ostringstream out;
  const auto count = [](auto number, const char* noun) { return count_text(static_cast<uint64_t>(number), noun); };
  out << dataset.folder().string() << ": " << count(dataset.size(), "image") << " in "
      << count(dataset.shard_count(), "shard") << "; "
      << (options.augment.empty() ? "no augmentation" : options.augment)
      << (options.loader.size_schedule.empty() ? "" : "; sizes " + options.loader.size_schedule) << "; batch "
      << options.loader.batch_size << ", prefetch " << options.loader.prefetch << ", median of "
      << count(options.epochs, "epoch") << "; " << machine.cpu << ", " << count(machine.cores, "core") << ", "
      << machine.simd << '\n';
  if (options.loader.world_size > 1)
    out << "rank " << options.loader.rank << " of " << options.loader.world_size
        << " only: images/s are those of this rank\n";
  out << "read, plan, decode, render: time per image, mean/p99 in us; storage: mean time per image that workers waited "
         "for\nthe storage, in us, part of the four before it; wait: time per batch that the consumer waited, mean/p99 "
         "in "
         "us\n\n";
  const auto cell = [&](int width) -> std::ostream& { return out << std::setw(width); };
  out << "workers   images/s         read         plan       decode       render  storage             wait  ready  "
         "slots MB  "
         "RSS MB  first ms\n";
  for (const auto& run : runs) {
    const auto& statistics = run.statistics;
    out << std::fixed << std::setprecision(0);
    cell(7) << run.workers;
    cell(11) << run.images_per_second;
    for (const auto* stage : {&statistics.read, &statistics.plan, &statistics.decode, &statistics.render})
      cell(13) << times(*stage);
    cell(9) << std::setprecision(0) << statistics.storage().mean_us();
    cell(17) << times(statistics.wait);
    cell(6) << std::setprecision(0) << 100 * ready_share(statistics) << '%';
    cell(10) << std::setprecision(1) << static_cast<double>(run.slot_bytes) * 1e-6;
    cell(8) << std::setprecision(0) << static_cast<double>(run.resident_bytes) * 1e-6;
    cell(10) << std::setprecision(1) << run.first_batch_ms << '\n';
  }
  for (const auto& run : runs)
    if (const auto text = link_text(run.statistics.link); !text.empty())
      out << run.workers << " workers, " << text << '\n';
  return out.str();
}

void write_report(const Dataset& dataset, const BenchOptions& options, const std::vector<BenchRun>& runs,
                  const std::vector<std::string>& digests) {
  const auto machine = this_machine();
  Json report = {{"data", dataset.folder().string()},
                 {"samples", dataset.size()},
                 {"augment", options.augment},
                 {"size_schedule", options.loader.size_schedule},
                 {"batch_size", options.loader.batch_size},
                 {"prefetch", options.loader.prefetch},
                 {"rank", options.loader.rank},
                 {"world_size", options.all_ranks > 0 ? options.all_ranks : options.loader.world_size},
                 {"seed", options.loader.seed},
                 {"layout", layout_name(options.loader.layout)},
                 {"epochs", options.epochs},
                 {"machine", {{"cpu", machine.cpu}, {"cores", machine.cores}, {"simd", machine.simd}}},
                 {"runs", Json::array()},
                 {"digests", digests}};
  for (const auto& run : runs) report["runs"].push_back(run_json(run));
  write_out_file("--json", options.json, json_text(report, 2) + "\n");
}

}  // namespace penstock
