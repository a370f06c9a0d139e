// pack_again OUT: packs digits in place of what is in OUT, which removes folders.
#include <filesystem>
#include <iostream>

#include "loader/pack/pack.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (int time = 0; time < 2; ++time)
    penstock::pack({.source = "digits(count=20)", .split = "train", .output = argv[1], .force = true});
  std::cout << std::filesystem::remove_all(argv[1]) << " removed\n";
}
