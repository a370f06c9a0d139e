# Writes OUTPUT with a hash of all sources under ROOT, when that has changed: cmake -DROOT= -DOUTPUT= -DVERSION= -P.
set(text "")
foreach(folder core augment loader train tools)
  file(GLOB_RECURSE sources RELATIVE ${ROOT} ${ROOT}/${folder}/*.cpp ${ROOT}/${folder}/*.h ${ROOT}/${folder}/*.cu)
  list(SORT sources)
  foreach(source ${sources})
    file(SHA256 ${ROOT}/${source} hash)
    string(APPEND text "${source} ${hash}\n")
  endforeach()
endforeach()
string(SHA256 id "${text}")
string(SUBSTRING ${id} 0 8 id)
set(content "// Written by cmake/SourceId.cmake.
#include \"train/run/source_id.h\"

namespace penstock {
const char* const kVersion = \"${VERSION}\";
const char* const kSourceId = \"${id}\";
}  // namespace penstock
")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${content}" @ONLY)  # leaves an equal file as it is
