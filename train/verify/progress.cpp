// Progress: anonymous pages, shared over fork().
#include "train/verify/progress.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "core/error.h"
#include "core/text.h"

namespace penstock {
namespace {

template <size_t Size>
void copy_to(std::array<char, Size>& place, const std::string& text) {
  place = {};
  std::memcpy(place.data(), text.data(), std::min(text.size(), Size - 1));
}

}  // namespace

void RankProgress::begin(const std::string& what, const std::string& of_tensor) {
  ++begun_count;
  copy_to(operation, what);
  copy_to(tensor, of_tensor);
}

std::string text_of(const RankProgress& progress) {
  return concat(progress.step < 0 ? "" : concat("step ", progress.step, ", "), progress.operation.data(),
                progress.tensor[0] == 0 ? "" : concat(" (", progress.tensor.data(), ")"));
}

Progress::Progress(int ranks) : bytes_(sizeof(RankProgress) * static_cast<size_t>(ranks)) {
  void* pages = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw errno_error("verify: mmap", "expected free memory");
  ranks_ = static_cast<RankProgress*>(pages);
  for (int rank = 0; rank < ranks; ++rank) new (ranks_ + rank) RankProgress;
}

Progress::~Progress() { munmap(ranks_, bytes_); }

}  // namespace penstock
