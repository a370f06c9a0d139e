// Test views: one evaluation of a strategy per view.
#include "train/loop/tta.h"

#include "train/parallel/strategy/strategy.h"
#include "train/tensor/device_batch.h"

namespace penstock {
namespace {

struct View {
  double weight = 1;
  int shift = 0;  // pixels by which rows and columns are moved up and left
  bool is_mirrored = false;
};

std::vector<View> list_of(TestViews views) {
  if (views == TestViews::kFlip) return {{0.5, 0, false}, {0.5, 0, true}};
  return {{0.25, 0, false}, {0.25, 0, true},    {0.125, 1, false},
          {0.125, 1, true}, {0.125, -1, false}, {0.125, -1, true}};
}

torch::Tensor seen(const torch::Tensor& images, const View& view) {
  if (!images.defined()) return images;  // at a rank that is not fed
  auto seen = images;
  if (view.shift != 0) {
    const int64_t height = images.size(2), width = images.size(3), first = 1 + view.shift;
    seen = at::reflection_pad2d(images, {1, 1, 1, 1}).narrow(2, first, height).narrow(3, first, width);
  }
  return view.is_mirrored ? seen.flip({3}) : seen.contiguous();
}

}  // namespace

torch::Tensor evaluate_views(Strategy& strategy, DeviceBatch& batch, TestViews views) {
  if (views == TestViews::kNone) return strategy.evaluate(batch);
  const auto images = batch.images;
  torch::Tensor mean;
  for (const View& view : list_of(views)) {
    batch.images = seen(images, view);
    const auto logits = strategy.evaluate(batch);
    if (logits.defined()) mean = mean.defined() ? mean.add_(logits, view.weight) : logits * view.weight;
  }
  batch.images = images;
  return mean;
}

}  // namespace penstock
