// Version and checksum of the sources that this program was built from. cmake/SourceId.cmake writes source_id.cpp at
// every build.
#pragma once

namespace penstock {

extern const char* const kVersion;   ///< PENSTOCK_VERSION of core/version.h.
extern const char* const kSourceId;  ///< 8 hex digits: equal for equal files under core, augment, loader, train, tools.

}  // namespace penstock
