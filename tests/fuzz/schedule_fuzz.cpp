// A schedule file of a user: what is accepted is written and read again as the same schedule.
#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "train/parallel/pipeline/schedule_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  try {
    const auto first = detail::parse_schedule("x.csv", {reinterpret_cast<const char*>(data), size});
    const auto again = detail::parse_schedule("x.csv", detail::csv_of(first));
    if (again.ranks != first.ranks || again.micro_batches != first.micro_batches) std::abort();
    for (const auto& schedule : first.ranks)
      for (const auto& one : schedule)
        if (one.micro_batch < 0 || one.micro_batch >= first.micro_batches) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConfig || std::string_view(error.what()).find('\n') != std::string_view::npos)
      std::abort();
  }
  return 0;
}
