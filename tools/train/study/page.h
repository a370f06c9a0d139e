// Page: report.html, the whole study on one page that needs no other file.
#pragma once

#include <string>
#include <string_view>

#include "tools/train/study/results.h"

namespace penstock {

/// page.html, which CMake writes into the program.
extern const std::string_view kPageTemplate;

/// The page with the tables, the charts and a timeline of each row: page.html, whose script draws them, with the
/// study's values as JSON. For a row whose trace cannot be read the page says so.
std::string page(const StudyResults& results);

}  // namespace penstock
