# Writes OUTPUT, a source file with the text of the device's kernels and of the headers that they include:
# cmake -DROOT= -DOUTPUT= -DSOURCES= -P. The first of SOURCES (separated by commas) is the one to compile.
string(REPLACE "," ";" SOURCES "${SOURCES}")
set(list "")
foreach(source ${SOURCES})
  file(READ ${ROOT}/${source} text)
  string(APPEND list "    {\"${source}\", R\"kernel(${text})kernel\"},\n")
endforeach()
# What a run-time compiler lacks of the standard library, on a system whose long has 64 bits.
string(APPEND list "    {\"cstdint\", R\"kernel(#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
)kernel\"},
    {\"cstddef\", R\"kernel(#pragma once
typedef long ptrdiff_t;
typedef unsigned long size_t;
)kernel\"},
")
set(content "// Written by cmake/KernelSources.cmake.
#include \"loader/device/device_renderer.h\"

namespace penstock {
namespace {

constexpr KernelSource kKernelSources[] = {
${list}};

}  // namespace

std::span<const KernelSource> kernel_sources() { return kKernelSources; }

}  // namespace penstock
")
file(WRITE ${OUTPUT} "${content}")
