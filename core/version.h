// The version of these headers and of their library. CMakeLists.txt and pyproject.toml read it from here.
#pragma once

#define PENSTOCK_VERSION "0.2.0"
