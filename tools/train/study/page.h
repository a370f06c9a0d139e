// Page: report.html, a study on one page that needs nothing else.
#pragma once

#include <filesystem>
#include <string>

#include "tools/train/study/results.h"

namespace penstock {

/// Tables, charts (those that are in `out`, inlined) and a timeline of each row. `charts_note`, when it is not empty,
/// says why charts are missing; a row whose trace cannot be read says so.
std::string page(const StudyResults& results, const std::filesystem::path& out, const std::string& charts_note);

}  // namespace penstock
