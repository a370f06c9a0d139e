// The version of these headers and of their library. CMakeLists.txt reads it from here.
#pragma once

#define PENSTOCK_VERSION "0.1.0"
