// few_threads: preloaded into a tool, it gives the main thread no more than the first PENSTOCK_TEST_THREADS threads
// that it starts, as a system that runs out of memory or threads meanwhile.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                              void* argument) {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  static int left = std::atoi(std::getenv("PENSTOCK_TEST_THREADS"));
  if (gettid() == getpid() && --left < 0) return EAGAIN;
  return real(thread, attributes, body, argument);
}
