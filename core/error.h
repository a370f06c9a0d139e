// Error: the one exception type, its five kinds, and the exit code that each kind gives a tool.
#pragma once

#include <stdexcept>
#include <string>

namespace penstock {

/// The value is the exit code of a tool that ends with such an error. Exit code 1 stands for anything unforeseen.
enum class ErrorKind { kConfig = 2, kIo = 3, kCorrupt = 4, kDevice = 5, kBug = 6 };

/// The only exception type that the library throws. The message reads `<where>: <fact, with the value>; <what was
/// expected>`.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

Error config_error(const std::string& message);   ///< An option, key, name or combination that is not allowed.
Error io_error(const std::string& message);       ///< A file that is missing, unreadable or unwritable, or a full disk.
Error corrupt_error(const std::string& message);  ///< Bytes that violate their format.
Error device_error(const std::string& message);   ///< A device or a communicator that failed.
Error bug_error(const std::string& message);      ///< A mistake inside of Penstock itself.

/// `io_error("<where>: <strerror(errno)>; <advice>")`; errno is read before anything else can change it.
Error errno_error(const std::string& where, const std::string& advice);

}  // namespace penstock
