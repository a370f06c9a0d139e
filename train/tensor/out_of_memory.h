// Out of memory: turns LibTorch's errors about memory into a device_error that names a flag to lower the need.
#pragma once

#include <new>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/limits.h"
#include "core/text.h"

namespace penstock {

/// The amount of memory that LibTorch could not get on the host or on a device, taken from its message: "4.1 GB".
/// Nothing if the message is about something else.
std::optional<std::string> missing_memory(const std::string& message);

/// Returns what `body` returns. If memory runs out in it, throws `<where>: no memory for 4.1 GB of <what> ...; expected
/// <advice>`.
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
