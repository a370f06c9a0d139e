// Error: one constructor function for each kind.
#include "core/error.h"

#include <cerrno>
#include <cstring>

namespace penstock {
namespace {

/// what() ends at a byte 0, which names in files may have; here it becomes two characters.
std::string without_zeros(std::string message) {
  for (size_t at = 0; (at = message.find('\0', at)) != std::string::npos;) message.replace(at, 1, "\\0");
  return message;
}

}  // namespace

Error config_error(const std::string& message) { return {ErrorKind::kConfig, without_zeros(message)}; }
Error io_error(const std::string& message) { return {ErrorKind::kIo, without_zeros(message)}; }
Error corrupt_error(const std::string& message) { return {ErrorKind::kCorrupt, without_zeros(message)}; }
Error device_error(const std::string& message) { return {ErrorKind::kDevice, without_zeros(message)}; }
Error bug_error(const std::string& message) { return {ErrorKind::kBug, without_zeros(message)}; }

Error errno_error(const std::string& where, const std::string& advice) {
  const int code = errno;
  return io_error(where + ": " + std::strerror(code) + "; " + advice);
}

}  // namespace penstock
