// Limits: the errors for when the system gives no more threads, memory or files, and a check that it still gives
// threads.
#pragma once

#include <string>

#include "core/error.h"

namespace penstock {

/// The device_error `<where>: 4 threads are wanted and the system gives 2 (limits: ...); expected <advice>, or higher
/// limits`. The limits named are those of the user, of the control group and of the address space, as far as there are
/// any.
Error threads_error(const std::string& where, int wanted, int given, const std::string& advice);

/// Throws threads_error() unless this process can start `count` more threads now. It is for libraries that abort, exit
/// or wait for ever when they cannot start their threads. It starts as many threads and waits until they have ended,
/// which takes 30 us per thread.
void require_threads(const std::string& where, int count, const std::string& advice);

/// The device_error `<where>: no memory for <what> (1.2 GB of address space are used, 1.3 GB allowed by ulimit -v);
/// expected <advice>, or more memory`.
Error memory_error(const std::string& where, const std::string& what, const std::string& advice);

/// This process has as many files open as the system lets it; nothing was changed. Whoever holds some that it does not
/// need lets go of them and tries again. `where`: the file or the address that could not be opened.
class OutOfFiles : public Error {
 public:
  explicit OutOfFiles(const std::string& where);
};

/// Whether the system gives this process no further file now: sockets, resolvers and files of certificates then fail
/// with words of their own.
bool are_files_used_up();

}  // namespace penstock
