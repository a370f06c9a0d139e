// penstock._native: the module itself, and errors as Python's exceptions.
#include "python/src/module.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <new>
#include <string>
#include <thread>

#include "core/error.h"
#include "core/limits.h"
#include "core/text.h"
#include "core/version.h"

namespace penstock::python {
namespace {

/// The thread that ends the interpreter; none: it goes on.
std::atomic<std::thread::id> ending_thread{};

/// Threads between their look at ending_thread and the GIL.
std::atomic<int> returning_count = 0;

bool is_ending_elsewhere() {
  const auto thread = ending_thread.load();
  return thread != std::thread::id() && thread != std::this_thread::get_id();
}

const char* class_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kConfig:
      return "ConfigError";
    case ErrorKind::kIo:
      return "IoError";
    case ErrorKind::kCorrupt:
      return "CorruptError";
    case ErrorKind::kDevice:
      return "DeviceError";
    case ErrorKind::kBug:
      break;
  }
  return "BugError";
}

/// A message may quote a file name that is not UTF-8.
void raise(const Error& error) {
  const std::string line = error_line(error.what());
  const nb::module_ errors = nb::module_::import_("penstock.errors");
  const nb::object text = nb::steal(PyUnicode_DecodeUTF8(line.data(), static_cast<Py_ssize_t>(line.size()), "replace"));
  PyErr_SetObject(errors.attr(class_of(error.kind())).ptr(), errors.attr("in_python")(text).ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    raise(error);
  } catch (const std::filesystem::filesystem_error& error) {
    raise(io_error(concat(error.path1().string(), ": ", error.code().message(), "; expected a path that can be used")));
  } catch (const std::bad_alloc&) {
    raise(
        memory_error("penstock", "what is to be done", "fewer workers or jobs, a smaller batch, or smaller pictures"));
  }
}

}  // namespace

nb::str path_text(const std::filesystem::path& path) {
  const std::string& bytes = path.native();
  return nb::steal<nb::str>(PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
}

void define_errors() { nb::register_exception_translator(translate); }

Unlocked::~Unlocked() {
  ++returning_count;
  if (is_ending_elsewhere()) {
    --returning_count;
    for (;;) pause();
  }
  PyEval_RestoreThread(state_);
  --returning_count;
}

/// A thread that has seen nobody end the interpreter gets the GIL before the end begins: PyEval_RestoreThread() would
/// unwind it.
void begin_to_end() {
  ending_thread = std::this_thread::get_id();
  PyThreadState* const state = PyEval_SaveThread();
  while (returning_count > 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  PyEval_RestoreThread(state);
}

/// In the child of a fork, which has one thread.
void forget_other_threads() { returning_count = 0; }

void check_signals() {
  if (is_ending_elsewhere()) return;
  const nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace penstock::python

NB_MODULE(_native, module) {
  // A program that deletes penstock from sys.modules and imports it again gets another module with the same classes:
  // nanobind ends the process if they are defined twice.
  static PyObject* first = nullptr;  // lives as long as the process
  if (first != nullptr) {
    nanobind::cast<nanobind::dict>(module.attr("__dict__")).update(nanobind::borrow(first).attr("__dict__"));
    return;
  }
  first = module.inc_ref().ptr();
  pthread_atfork(nullptr, nullptr, penstock::python::forget_other_threads);
  // A daemon thread that stopped while the interpreter ended still holds its loader, and nanobind would report it.
  nanobind::set_leak_warnings(false);
  module.doc() = "The C++ side of penstock. Use the package penstock.";
  module.attr("version") = PENSTOCK_VERSION;
  module.def("begin_to_end", penstock::python::begin_to_end);
  penstock::python::define_errors();
  penstock::python::define_dataset(module);
  penstock::python::define_loader(module);
  penstock::python::define_limit(module);
  penstock::python::define_pack(module);
  penstock::python::define_plan(module);
}
