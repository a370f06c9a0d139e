// How many cases of a long test a build with a sanitizer runs.
#pragma once

namespace penstock {

/// Tests that compare results over many random cases or files run every kCaseStride-th of them. ThreadSanitizer makes
/// them 20 times as slow and finds nothing where one thread works; AddressSanitizer makes them 6 times as slow. The
/// strides are prime, so that kinds which take turns all come.
#if defined(__SANITIZE_THREAD__)
inline constexpr int kCaseStride = 11;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr int kCaseStride = 5;
#else
inline constexpr int kCaseStride = 1;
#endif

}  // namespace penstock
