// render(): gives equal bits on every instruction set, reads only pixels of the footprint, and refuses bad arguments.
#include "augment/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "augment/kernels/render_job.h"
#include "augment/plan/footprint.h"
#include "core/error.h"
#include "tests/augment/pictures.h"
#include "tests/augment/reference.h"
#include "tests/support/case_stride.h"
#include "tests/support/forced_target.h"

namespace penstock {
namespace {

using test::cut_out;
using test::ForcedTarget;
using test::kNormalization;
using test::noise_picture;
using test::OwnedPicture;
using test::random_plan;
using test::reference_render;
using test::rendered;

constexpr Layout kLayouts[] = {Layout::kF32Nchw, Layout::kU8Nhwc,  Layout::kF16Nchw, Layout::kBf16Nchw,
                               Layout::kF32Nhwc, Layout::kF16Nhwc, Layout::kBf16Nhwc};

/// The index of the first byte that differs, or -1.
ptrdiff_t first_difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return at.first == a.end() && at.second == b.end() ? -1 : at.first - a.begin();
}

class RenderTargetTest : public testing::TestWithParam<std::string> {};

TEST_P(RenderTargetTest, BitsEqualThePlainRenderer) {
  const ForcedTarget target(GetParam());
  for (uint64_t trial = 0; trial < 3000; trial += kCaseStride) {
    Rng rng(11, 0, trial, 0);
    const int height = rng.between(1, 40), width = rng.between(1, 40), channels = rng.chance(0.5) ? 1 : 3;
    const OwnedPicture picture = noise_picture(height, width, channels, rng);
    const Plan plan = random_plan(height, width, rng);
    for (const Layout layout : kLayouts) {
      ASSERT_EQ(first_difference(rendered(picture.view, plan, kNormalization, layout),
                                 reference_render(picture.view, plan, kNormalization, layout)),
                -1)
          << "trial " << trial << ", filter " << static_cast<int>(plan.filter) << ", layout "
          << static_cast<int>(layout) << ", picture " << width << "x" << height << "x" << channels << " to "
          << plan.output_width << "x" << plan.output_height;
    }
  }
}

TEST_P(RenderTargetTest, BitsOfEveryWidthAndStepEqualThePlainRenderer) {
  // Rows of one vector and rows of several overlapping ones, for reductions around the one at which the taps of four
  // pixels no longer fit one load.
  const ForcedTarget target(GetParam());
  Rng rng(16, 0, 0, 0);
  for (int width = 15; width <= 34; ++width) {
    for (double step = 0.4; step < 4.2; step += 0.13) {
      const int input_width = static_cast<int>(step * width) + 1;
      const OwnedPicture picture = noise_picture(7, input_width, 3, rng);
      Plan plan = Plan::identity(7, input_width);
      plan.resample(Affine::scaling(static_cast<double>(input_width) / width, 7.0 / 5), 5, width);
      if (rng.chance(0.5)) plan.resample({-1, 0, static_cast<double>(width), 0, 1, 0}, 5, width);
      for (const Filter filter : {Filter::kAntialias, Filter::kAntialiasBicubic, Filter::kAntialiasLanczos}) {
        plan.filter = filter;
        ASSERT_EQ(rendered(picture.view, plan, kNormalization, Layout::kF32Nchw),
                  reference_render(picture.view, plan, kNormalization, Layout::kF32Nchw))
            << input_width << " to " << width << ", filter " << static_cast<int>(filter);
      }
    }
  }
}

TEST_P(RenderTargetTest, WindowOfTheFootprintIsEnough) {
  const ForcedTarget target(GetParam());
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    Rng rng(12, 0, trial, 0);
    const int height = rng.between(1, 60), width = rng.between(1, 60), channels = rng.chance(0.5) ? 1 : 3;
    const OwnedPicture whole = noise_picture(height, width, channels, rng);
    const Plan plan = random_plan(height, width, rng);
    const OwnedPicture window = cut_out(whole.view, footprint(plan));
    ASSERT_EQ(rendered(window.view, plan, kNormalization, Layout::kF32Nchw),
              rendered(whole.view, plan, kNormalization, Layout::kF32Nchw))
        << "trial " << trial;
  }
}

/// Memory between two pages that must not be accessed. The hardware detects what AddressSanitizer cannot: gathers
/// outside of the memory.
class GuardedPage {
 public:
  GuardedPage() : size_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* mapped = mmap(nullptr, 3 * size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw errno_error("mmap of the guarded picture", "expected memory");
    base_ = static_cast<uint8_t*>(mapped);
    mprotect(base_ + size_, size_, PROT_READ | PROT_WRITE);
  }
  GuardedPage(const GuardedPage&) = delete;
  ~GuardedPage() { munmap(base_, 3 * size_); }
  uint8_t* begin() const { return base_ + size_; }
  uint8_t* end() const { return begin() + size_; }

 private:
  size_t size_;
  uint8_t* base_;
};

TEST_P(RenderTargetTest, NoByteOutsideThePictureIsRead) {
  const ForcedTarget target(GetParam());
  const GuardedPage page;
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    Rng rng(15, 0, trial, 0);
    const int height = rng.between(1, 30), width = rng.between(1, 30), channels = rng.chance(0.5) ? 1 : 3;
    const OwnedPicture whole = noise_picture(height, width, channels, rng);
    const Plan plan = random_plan(height, width, rng);
    const auto expected = rendered(whole.view, plan, kNormalization, Layout::kF32Nchw);
    for (OwnedPicture picture : {whole, cut_out(whole.view, footprint(plan))}) {
      for (uint8_t* at : {page.begin(), page.end() - picture.pixels.size()}) {
        std::copy(picture.pixels.begin(), picture.pixels.end(), at);
        picture.view.pixels = at;
        ASSERT_EQ(rendered(picture.view, plan, kNormalization, Layout::kF32Nchw), expected) << "trial " << trial;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTargets, RenderTargetTest, testing::ValuesIn(render_targets()),
                         [](const auto& info) { return info.param; });

TEST(RenderTest, ThisProcessorHasATargetThatGathersInHardware) {
  // Without AVX2 the suite above would compare less than its name says. Every processor since 2013 has AVX2.
  EXPECT_THAT(render_targets(), testing::Contains(testing::AnyOf("AVX2", "AVX3")));
  EXPECT_GE(render_targets().size(), 3u);
}

TEST(RenderTest, PixelsOutsideTheFootprintAreNotLookedAt) {
  for (uint64_t trial = 0; trial < 1000; ++trial) {
    Rng rng(13, 0, trial, 0);
    OwnedPicture picture = noise_picture(rng.between(1, 60), rng.between(1, 60), 1, rng);
    const Plan plan = random_plan(picture.view.height, picture.view.width, rng);
    const auto before = rendered(picture.view, plan, kNormalization, Layout::kF32Nchw);
    const Region region = footprint(plan);
    for (int row = 0; row < picture.view.height; ++row)
      for (int column = 0; column < picture.view.width; ++column)
        if (row < region.y || row >= region.y + region.height || column < region.x || column >= region.x + region.width)
          picture.pixels[static_cast<size_t>(row) * picture.view.width + column] ^= 0xFF;
    ASSERT_EQ(rendered(picture.view, plan, kNormalization, Layout::kF32Nchw), before) << "trial " << trial;
  }
}

TEST(RenderTest, RowsMayStandApart) {
  Rng rng(14, 0, 0, 0);
  const OwnedPicture whole = noise_picture(30, 50, 3, rng);
  Plan plan = Plan::identity(20, 24);
  plan.filter = Filter::kBilinear;
  plan.resample({0.9, 0.2, -1, -0.2, 0.9, 3}, 17, 21);
  Picture strided = whole.view;  // its upper left 24 x 20 pixels, in rows of 50 pixels
  strided.height = 20;
  strided.width = 24;
  const OwnedPicture packed = cut_out(whole.view, {0, 0, 24, 20});
  EXPECT_EQ(rendered(strided, plan, kNormalization, Layout::kU8Nhwc),
            rendered(packed.view, plan, kNormalization, Layout::kU8Nhwc));
}

TEST(RenderTest, NormalizesAsTorchvisionDoes) {
  const uint8_t level = 200;
  const Picture picture{.pixels = &level, .row_stride = 1, .height = 1, .width = 1, .channels = 1};
  float value = 0;
  render(picture, Plan::identity(1, 1), kNormalization, Layout::kF32Nchw, &value);
  EXPECT_NEAR(value, (200 / 255.0 - 0.1307) / 0.3081, 1e-6);
  render(picture, Plan::identity(1, 1), Normalization(), Layout::kF32Nchw, &value);
  EXPECT_NEAR(value, 200 / 255.0, 1e-7);
}

TEST(RenderTest, BytesAreRoundedAndClamped) {
  const std::vector<uint8_t> levels{10, 11, 250, 0};
  const Picture picture{.pixels = levels.data(), .row_stride = 4, .height = 1, .width = 4, .channels = 1};
  Plan plan = Plan::identity(1, 4);
  plan.color[0] = {1.5f, 0, 0, -15.f};
  EXPECT_EQ(rendered(picture, plan, kNormalization, Layout::kU8Nhwc), (std::vector<uint8_t>{0, 2, 255, 0}));
}

TEST(RenderTest, ErasedRectanglesAreWrittenInOrderAndClipped) {
  const std::vector<uint8_t> levels(9, 100);
  const Picture picture{.pixels = levels.data(), .row_stride = 3, .height = 3, .width = 3, .channels = 1};
  Plan plan = Plan::identity(3, 3);
  plan.erase({0, 0, 2, 2, {1, 1, 1}});
  plan.erase({1, 1, 9, 9, {2, 2, 2}});
  EXPECT_EQ(rendered(picture, plan, kNormalization, Layout::kU8Nhwc),
            (std::vector<uint8_t>{1, 1, 100, 1, 2, 2, 100, 2, 2}));
}

TEST(RenderTest, RenderedBytesCountsTheLayout) {
  EXPECT_EQ(rendered_bytes(Layout::kF32Nchw, {28, 27, 3}), 28u * 27 * 3 * 4);
  EXPECT_EQ(rendered_bytes(Layout::kU8Nhwc, {28, 27, 3}), 28u * 27 * 3);
  EXPECT_EQ(rendered_bytes(Layout::kF32Nhwc, {28, 27, 3}), 28u * 27 * 3 * 4);
  for (const Layout layout : {Layout::kF16Nchw, Layout::kBf16Nchw, Layout::kF16Nhwc, Layout::kBf16Nhwc})
    EXPECT_EQ(rendered_bytes(layout, {28, 27, 3}), 28u * 27 * 3 * 2);
}

TEST(RenderTest, PictureThatMissesTheFootprintIsRefused) {
  const std::vector<uint8_t> levels(12);
  Picture picture{.pixels = levels.data(), .row_stride = 4, .height = 3, .width = 4, .channels = 1, .x = 1};
  std::vector<float> output(25);
  try {
    render(picture, Plan::identity(3, 5), kNormalization, Layout::kF32Nchw, output.data());
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBug);
    EXPECT_STREQ(error.what(),
                 "render: the picture is 4x3 at (1, 0); expected it to cover the plan's footprint 5x3 at (0, 0)");
  }
  picture.channels = 2;
  EXPECT_THROW(render(picture, Plan::identity(3, 4), kNormalization, Layout::kF32Nchw, output.data()), Error);
}

}  // namespace
}  // namespace penstock
