// What the files of penstock._native share: how errors and names cross the border to Python.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace penstock::python {

namespace nb = nanobind;

void define_errors();
void define_dataset(nb::module_& module);
void define_limit(nb::module_& module);
void define_loader(nb::module_& module);
void define_pack(nb::module_& module);
void define_plan(nb::module_& module);

/// A path as Python's str, whatever its bytes are (os.fsdecode).
nb::str path_text(const std::filesystem::path& path);

/// Whole numbers of 64 bits as bytes, for memoryview(...).cast("q").
template <class Number>
nb::bytes bytes_of(const std::vector<Number>& numbers) {
  return nb::bytes(numbers.data(), numbers.size() * sizeof(Number));
}

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
void forget_other_threads();

/// Throws what a signal handler of Python has raised, for example KeyboardInterrupt. For threads without the GIL.
void check_signals();

}  // namespace penstock::python
