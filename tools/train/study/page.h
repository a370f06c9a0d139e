// Page: report.html, the whole study on one page that needs no other file.
#pragma once

#include <filesystem>
#include <string>

#include "tools/train/study/results.h"

namespace penstock {

/// The page with the table, the charts (inlined, as far as they are in `out`) and a timeline of each row. If
/// `charts_note` is not empty, it says why charts are missing. For a row whose trace cannot be read the page says so.
std::string page(const StudyResults& results, const std::filesystem::path& out, const std::string& charts_note);

}  // namespace penstock
