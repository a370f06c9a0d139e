// What the files of penstock._native share: how errors and names cross the border to Python.
#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"

namespace penstock::python {

namespace nb = nanobind;

void define_errors();
void define_loader(nb::module_& module);
void define_pack(nb::module_& module);

/// Releases the GIL while it lives. A daemon thread that asks for the GIL while the interpreter ends would be unwound
/// by CPython through frames of C++, which ends the process with an abort. Such a thread stops here instead, until the
/// process is gone.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};
using Release = nb::call_guard<Unlocked>;

/// To be called when the interpreter begins to end, by the thread that ends it.
void begin_to_end();

/// Throws what a signal handler of Python has raised, for example KeyboardInterrupt. For threads without the GIL.
void check_signals();

/// What `text`, the value of argument `name`, stands for. Throws a config_error that lists the known values.
template <class Value>
Value choice(const char* name, const std::string& text, const std::map<std::string, Value>& known) {
  const auto found = known.find(text);
  if (found != known.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [word, value] : known) names.push_back(word);
  throw config_error(concat(name, ": ", unknown_name("value", text, names)));
}

}  // namespace penstock::python
