// train: parses the command line, runs, and returns the exit code.
//
// Lives here: the program `train`, a folder per subcommand besides a run itself.
// Not here: what a run is (train/run), and what all tools share (tools/cli.h).
#include <torch/version.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tools/cli.h"
#include "tools/plugins.h"
#include "tools/train/flags/config_flags.h"
#include "tools/train/flags/flags.h"
#include "tools/train/plan/plan_modes.h"
#include "tools/train/study/study.h"
#include "tools/train/verify/verify_modes.h"
#include "train/run/program.h"
#include "train/tensor/allocator.h"

int main(int argc, char** argv) {
  penstock::keep_freed_memory();
  const int exit_code = penstock::run_tool("train", [&] {
    const std::string command = argc > 1 ? argv[1] : "";
    const bool is_run = command != "study" && command != "verify-modes" && command != "plan-modes";
    std::vector<std::string> words{argv, argv + argc};
    if (is_run) words = penstock::with_config(words);
    penstock::load_plugins(words, TORCH_VERSION);
    if (command == "study") return penstock::run_study(argc - 1, argv + 1);
    if (command == "plan-modes") return penstock::run_plan_modes(argc - 1, argv + 1);
    if (command == "verify-modes") return penstock::run_verify_modes(argc - 1, argv + 1);
    std::vector<char*> pointers;
    for (auto& word : words) pointers.push_back(word.data());
    const auto options = penstock::parse_flags(static_cast<int>(words.size()), pointers.data());
    return penstock::run_program(options, {words.begin() + 1, words.end()});
  });
  std::fflush(stderr);         // run_tool() has flushed stdout
  std::quick_exit(exit_code);  // without the destructors of LibTorch's statics: core/at_end.h
}
