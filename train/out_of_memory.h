// Out of memory: what LibTorch says where memory ends, as a device error with the flag that lowers the need.
#pragma once

#include <new>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/limits.h"
#include "core/text.h"

namespace penstock {

/// "4.1 GB", the amount that LibTorch could not get on the host or on a device, of its message; nothing where the
/// message is about something else.
std::optional<std::string> missing_memory(const std::string& message);

/// What `body` gives. A lack of memory in it becomes `<where>: no memory for 4.1 GB of <what> ...; expected <advice>`.
template <class Body>
auto naming_memory(const std::string& where, const std::string& what, const std::string& advice, const Body& body) {
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw memory_error(where, what, advice);
  } catch (const std::exception& error) {
    const auto missing = missing_memory(error.what());
    if (missing) throw memory_error(where, concat(*missing, " of ", what), advice);
    throw;
  }
}

}  // namespace penstock
