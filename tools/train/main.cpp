// train: command line in, exit code out.
#include "tools/cli.h"
#include "tools/train/flags.h"
#include "train/run/program.h"

int main(int argc, char** argv) {
  return penstock::run_tool("train", [&] {
    const auto options = penstock::parse_flags(argc, argv);
    return penstock::run_program(options, {argv + 1, argv + argc});
  });
}
