// The sources that this program was built from; source_id.cpp is written by cmake/SourceId.cmake at every build.
#pragma once

namespace penstock {

extern const char* const kVersion;   ///< The project's, "0.1.0".
extern const char* const kSourceId;  ///< 8 hex digits: equal for equal files under core, augment, loader, train, tools.

}  // namespace penstock
