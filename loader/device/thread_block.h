// ThreadBlock: the threads of one block of a kernel, which is the same source for a CUDA device and for the CPU.
//
// A kernel is a function of (block, task). It consists of phases: each() runs a function for every thread of the block,
// and all threads have finished it before anything after it begins. What threads hand over from phase to phase is in a
// struct of the block, which on a device lies in shared memory. Everything outside of a phase must be the same in every
// thread, because on a device each thread computes it for itself and on the CPU it is computed once.
//
// Two rules that no test on the CPU can check. The barrier at the end of each() waits for every thread of the block, so
// that a branch or a loop around it must not depend on the thread, and a phase ends early with a return from its own
// function alone. And what the code between two phases reads, the second of them must not write: on a device one thread
// may be in that phase already while another one still reads.
#pragma once

namespace penstock {

/// Headers that a device compiles use no standard library except <cstdint> and <cstddef>, and need no annotations,
/// because the run-time compiler takes every function for one of the device (-default-device).
struct ThreadBlock {
  int size = 1;  // threads
  /// The CPU only: whether the threads of a phase run from the last one to the first. A kernel whose threads depend on
  /// each other within a phase gives other results then, which is how tests find a missing barrier.
  bool is_reversed = false;

  template <class Body>
  void each(const Body& body) const {
#if defined(__CUDACC_RTC__)
    body(static_cast<int>(threadIdx.x));
    __syncthreads();
#else
    for (int i = 0; i < size; ++i) body(is_reversed ? size - 1 - i : i);
#endif
  }
};

}  // namespace penstock
