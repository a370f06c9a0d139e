// Timeline: what a page draws of one run, read from its trace.json and gpu.csv.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace penstock {

/// The lowest rank of a Chrome trace: {rank_count, lanes: [{name, bars: [[start_us, end_us, name, step, epoch],
/// ...]}]}. `rank_count` are the ranks in the trace. The lanes are those of the loader's workers in order, whose bars
/// are called "batch 123", then that of the trainer, whose bars are phases. Steps and epochs count from 1; 0 where the
/// trace has none. The bars of a lane are in order, take some time and lie between the begin and the end of the
/// trainer's.
///
/// Reads the complete events ("ph": "X") of the categories `step` and `loader`. Throws io_error if there is no such
/// file, and corrupt_error if it is no such trace.
nlohmann::json read_timeline(const std::filesystem::path& trace);

/// How busy the GPU was and how full its memory: {points: [[seconds, busy percent, memory percent], ...], text}, where
/// `text` says it in words; null if there is no such file or no row in it. Throws corrupt_error if a row is not as the
/// sink gpu writes it.
nlohmann::json read_gpu_use(const std::filesystem::path& csv);

}  // namespace penstock
