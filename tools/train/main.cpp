// train: parses the command line, runs, and returns the exit code.
#include <torch/version.h>

#include <cstring>

#include "tools/cli.h"
#include "tools/plugins.h"
#include "tools/train/flags.h"
#include "tools/train/study/study.h"
#include "tools/train/verify/verify_modes.h"
#include "train/run/program.h"
#include "train/tensor/allocator.h"

int main(int argc, char** argv) {
  penstock::keep_freed_memory();
  return penstock::run_tool("train", [&] {
    penstock::load_plugins({argv, argv + argc}, TORCH_VERSION);
    if (argc > 1 && std::strcmp(argv[1], "study") == 0) return penstock::run_study(argc - 1, argv + 1);
    if (argc > 1 && std::strcmp(argv[1], "verify-modes") == 0) return penstock::run_verify_modes(argc - 1, argv + 1);
    const auto options = penstock::parse_flags(argc, argv);
    return penstock::run_program(options, {argv + 1, argv + argc});
  });
}
