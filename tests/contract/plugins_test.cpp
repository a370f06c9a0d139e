// The contract of plug-ins: what a registered transform or source says of itself is true.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "augment/render.h"
#include "augment/transform.h"
#include "core/rng.h"
#include "core/text.h"
#include "loader/sources/source.h"
#include "tests/contract/spec_text.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

using testing::HasSubstr, testing::StartsWith;

constexpr Extent kExtent{20, 20, 3};  // more than 255 pixels: equalize leaves smaller pictures as they are

/// Rendered rows of one picture as 64 samples: how many different ones there are.
size_t different_rows(const std::string& spec) {
  std::vector<uint8_t> pixels(static_cast<size_t>(kExtent.height) * kExtent.width * kExtent.channels);
  Rng noise(1, 0, 0, 0);
  for (auto& level : pixels) level = static_cast<uint8_t>(noise.between(0, 255));
  const Picture picture{pixels.data(),
                        ptrdiff_t{kExtent.width} * kExtent.channels,
                        kExtent.height,
                        kExtent.width,
                        kExtent.channels,
                        0,
                        0};
  const Pipeline pipeline(spec, {.channels = kExtent.channels});
  const Box box{2, 3, 9, 8};  // for transforms that look at boxes
  std::set<std::string> rows;
  for (uint64_t id = 0; id < 64; ++id) {
    const Plan plan = pipeline.plan(Plan::identity(kExtent.height, kExtent.width), 1, 0, id, {&box, 1});
    std::string row(rendered_bytes(Layout::kU8Nhwc, {plan.output_height, plan.output_width, kExtent.channels}), '\0');
    render(picture, plan, pipeline.normalization(), Layout::kU8Nhwc, row.data());
    rows.insert(row);
  }
  return rows.size();
}

TEST(PluginsContract, ATransformIsDeterministicWhereItSaysSo) {
  for (const auto& [name, entry] : TransformRegistry::entries()) {
    const auto& spec = entry.traits.test_spec;
    const bool mixes = Pipeline(spec, {}).batch_mix().kind != BatchMix::Kind::kNone;
    const size_t rows = different_rows(spec);
    if (entry.traits.is_deterministic || mixes)
      EXPECT_EQ(rows, 1U) << spec;
    else
      EXPECT_GT(rows, 1U) << spec;
  }
}

TEST(PluginsContract, WhatAnEvaluationHasInPlaceOfATransformIsDeterministic) {
  for (const auto& [name, entry] : TransformRegistry::entries()) {
    const std::string kept = deterministic_part(entry.traits.test_spec);
    EXPECT_EQ(deterministic_part(kept), kept) << name;
    EXPECT_EQ(different_rows(kept), 1U) << name;
  }
}

TEST(PluginsContract, AnUnknownKeyIsNamedBeforeAnyValueOfATransform) {
  for (const auto& [name, entry] : TransformRegistry::entries()) {
    const Spec spec = parse_spec("transform", with_unknown_key(name, entry.keys));
    EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { TransformRegistry::make(spec, DataStatistics()); }),
                HasSubstr("unknown key \"zzz\""));
  }
}

TEST(PluginsContract, AnUnknownKeyIsNamedBeforeAnyValueOrFolderOfASource) {
  for (const auto& [name, entry] : SourceRegistry::entries()) {
    const Spec spec = parse_spec("source", with_unknown_key(name, entry.keys));
    EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { SourceRegistry::make(spec, "/nonexistent", "train"); }),
                HasSubstr("unknown key \"zzz\""));
  }
}

/// Each registered key is one that the plug-in reads: a value that nothing takes is refused, with the key's name.
TEST(PluginsContract, EveryRegisteredKeyOfATransformIsRead) {
  for (const auto& [name, entry] : TransformRegistry::entries()) {
    for (const auto& key : entry.keys) {
      const Spec spec = parse_spec("transform", with_value(entry.traits.test_spec, key, "?"));
      const std::string where = concat("transform ", name, ": ");
      const auto message = message_of(ErrorKind::kConfig, [&] { TransformRegistry::make(spec, DataStatistics()); });
      ASSERT_THAT(message, StartsWith(where));
      EXPECT_THAT(message.substr(where.size()), HasSubstr(key)) << name;
    }
  }
}

}  // namespace
}  // namespace penstock
