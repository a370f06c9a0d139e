// GPU chart: how busy the GPU was and how full its memory over a run, as SVG.
#pragma once

#include <filesystem>
#include <string>

namespace penstock {

/// The chart of a run's gpu.csv with its means in words; "" if there is no such file. Throws corrupt_error if a row is
/// not as the sink gpu writes it.
std::string gpu_chart(const std::filesystem::path& csv);

}  // namespace penstock
