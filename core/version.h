// The version of these headers and of the library behind them. CMakeLists.txt reads it from here.
#pragma once

#define PENSTOCK_VERSION "0.1.0"
