// compile_kernel(): loads NVRTC, gives it the kernel's sources, and takes the machine code.
#include "train/resident/kernel_compiler.h"

#ifdef PENSTOCK_HAS_CUDA
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nvrtc.h>
#endif

#include <algorithm>
#include <array>
#include <future>
#include <map>
#include <string>

#include "core/error.h"
#include "core/mutex.h"
#include "core/text.h"
#include "loader/device/device_renderer.h"

namespace penstock {

#ifdef PENSTOCK_HAS_CUDA

namespace {

/// The functions of NVRTC. They are looked up at run time: linked, the library would be loaded by every trainer.
struct Nvrtc {
  decltype(&nvrtcCreateProgram) create;
  decltype(&nvrtcCompileProgram) compile;
  decltype(&nvrtcDestroyProgram) destroy;
  decltype(&nvrtcGetErrorString) error_text;
  decltype(&nvrtcGetProgramLogSize) log_size;
  decltype(&nvrtcGetProgramLog) log;
  decltype(&nvrtcGetCUBINSize) code_size;
  decltype(&nvrtcGetCUBIN) code;

  Nvrtc() {
    const std::string name = concat("libnvrtc.so.", CUDART_VERSION / 1000);
    library_ = dlopen(name.c_str(), RTLD_NOW);
    if (library_ == nullptr)
      throw device_error(concat("device renderer: cannot load ", name, ": ", dlerror(),
                                "; expected it beside LibTorch for CUDA, or use no --resident"));
    find(create, "nvrtcCreateProgram"), find(compile, "nvrtcCompileProgram"), find(destroy, "nvrtcDestroyProgram");
    find(error_text, "nvrtcGetErrorString"), find(log_size, "nvrtcGetProgramLogSize"), find(log, "nvrtcGetProgramLog");
    find(code_size, "nvrtcGetCUBINSize"), find(code, "nvrtcGetCUBIN");
  }

 private:
  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr)
      throw device_error(
          concat("device renderer: NVRTC has no ", name, "; expected NVRTC of CUDA ", CUDART_VERSION / 1000));
  }

  void* library_;  // stays loaded
};

/// A program of the compiler, destroyed with this object.
class KernelProgram {
 public:
  explicit KernelProgram(const Nvrtc& nvrtc) : nvrtc_(nvrtc) {
    const auto sources = kernel_sources();
    std::vector<const char*> names, texts;
    for (const auto& header : sources.subspan(1)) names.push_back(header.name), texts.push_back(header.text);
    check(nvrtc.create(&program_, sources[0].text, sources[0].name, static_cast<int>(names.size()), texts.data(),
                       names.data()),
          "creating the program");
  }
  ~KernelProgram() { nvrtc_.destroy(&program_); }
  KernelProgram(const KernelProgram&) = delete;

  std::vector<char> compile(const std::string& architecture, size_t kernel) {
    const std::string target = concat("--gpu-architecture=", architecture),
                      wanted = concat("-DPENSTOCK_KERNEL=", kernel);
    const std::array options{target.c_str(), wanted.c_str(), "--std=c++20", "--device-as-default-execution-space",
                             "--fmad=false"};
    if (const auto result = nvrtc_.compile(program_, static_cast<int>(options.size()), options.data());
        result != NVRTC_SUCCESS)
      check(result, concat("compiling for ", architecture, ": ", first_complaint()));
    size_t byte_count = 0;
    check(nvrtc_.code_size(program_, &byte_count), "the size of the machine code");
    std::vector<char> code(byte_count);
    check(nvrtc_.code(program_, code.data()), "the machine code");
    return code;
  }

 private:
  void check(nvrtcResult result, const std::string& what) const {
    if (result == NVRTC_SUCCESS) return;
    throw device_error(concat("device renderer: ", what, ": NVRTC says ", nvrtc_.error_text(result),
                              "; expected machine code, or use no --resident"));
  }

  std::string first_complaint() const {
    size_t length = 0;
    if (nvrtc_.log_size(program_, &length) != NVRTC_SUCCESS || length == 0) return "no message";
    std::string log(length, '\0');
    nvrtc_.log(program_, log.data());
    return log.substr(0, std::min(log.find('\n'), log.find('\0')));
  }

  const Nvrtc& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

std::vector<char> compiled(int major, int minor, size_t kernel) {
  static const Nvrtc nvrtc;
  return KernelProgram(nvrtc).compile(concat("sm_", major, minor), kernel);
}

}  // namespace

std::vector<char> compile_kernel(int major, int minor, size_t kernel) {
  static Mutex mutex;
  static std::map<std::array<size_t, 3>, std::shared_future<std::vector<char>>> kernels PENSTOCK_GUARDED_BY(mutex);
  std::shared_future<std::vector<char>> code;
  {
    const MutexLock lock(mutex);
    auto& known = kernels[{static_cast<size_t>(major), static_cast<size_t>(minor), kernel}];
    // Deferred: whoever asks first compiles, and the others wait for it.
    if (!known.valid()) known = std::async(std::launch::deferred, compiled, major, minor, kernel).share();
    code = known;
  }
  return code.get();
}

#else

std::vector<char> compile_kernel(int, int, size_t) {
  throw device_error(concat("device renderer: this LibTorch has no CUDA; expected --device cpu"));
}

#endif

}  // namespace penstock
