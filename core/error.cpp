// Error: one constructor function for each kind.
#include "core/error.h"

#include <cerrno>
#include <cstring>

namespace penstock {

Error config_error(const std::string& message) { return {ErrorKind::kConfig, message}; }
Error io_error(const std::string& message) { return {ErrorKind::kIo, message}; }
Error corrupt_error(const std::string& message) { return {ErrorKind::kCorrupt, message}; }
Error device_error(const std::string& message) { return {ErrorKind::kDevice, message}; }
Error bug_error(const std::string& message) { return {ErrorKind::kBug, message}; }

Error errno_error(const std::string& where, const std::string& advice) {
  const int code = errno;
  return io_error(where + ": " + std::strerror(code) + "; " + advice);
}

}  // namespace penstock
