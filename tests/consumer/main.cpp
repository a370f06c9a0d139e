// consumer: counts the samples of one epoch with the installed loader.
#include <cstdint>
#include <iostream>

#include "loader/batch/loader.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto dataset = penstock::Dataset::open(argv[1]);
  const penstock::Pipeline pipeline("affine(degrees=10),normalize", dataset->manifest().statistics);
  penstock::LoaderOptions options;
  options.workers = 2;
  options.batch_size = 32;
  penstock::Loader loader(dataset, pipeline, options);
  int64_t count = 0;
  loader.start_epoch(0);
  while (const auto batch = loader.next()) count += batch->count();
  std::cout << count << " samples\n";
}
