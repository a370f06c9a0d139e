// Mixed batches: which rows are blended, what the labels are, and what happens with corrupt partners and padding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "augment/render/mix_rows.h"
#include "core/error.h"
#include "tests/loader/loader_test_data.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

using testing_data::consume;
using testing_data::pipeline_for;
using testing_data::TestData;

constexpr int64_t kBatch = 8;
constexpr const char* kPlain = "affine(degrees=20),flip";
const std::string kMixup = std::string(kPlain) + ",mixup(alpha=1)";
const std::string kCutmix = std::string(kPlain) + ",cutmix";

/// One row of an epoch, by its position.
struct Row {
  uint64_t id;
  int64_t label, second_label;
  float weight, mix_weight;
  std::vector<float> pixels;
};
using Rows = std::map<uint64_t, Row>;

Rows rows_of(const TestData& data, const std::string& spec, const LoaderOptions& options) {
  Rows rows;
  const auto dataset = data.open();
  Loader loader(dataset, pipeline_for(*dataset, spec), options);
  loader.start_epoch(2);
  consume(loader, [&](const Batch& batch) {
    const size_t count = batch.pixels().size() / static_cast<size_t>(batch.rows()) / sizeof(float);
    const bool is_mixed = !batch.second_labels().empty();
    for (size_t i = 0; i < static_cast<size_t>(batch.count()); ++i) {
      Row row{batch.ids()[i],
              batch.labels()[i],
              is_mixed ? batch.second_labels()[i] : -1,
              batch.weights()[i],
              is_mixed ? batch.mix_weights()[i] : -1,
              std::vector<float>(count)};
      std::memcpy(row.pixels.data(), batch.pixels().data() + i * count * sizeof(float), count * sizeof(float));
      rows[batch.first_position() + i] = row;
    }
  });
  return rows;
}

LoaderOptions options_of(int rank = 0, int world_size = 1) {
  return {.workers = 2, .batch_size = kBatch, .rank = rank, .world_size = world_size, .seed = 3};
}

/// A data set of 43 samples: 6 batches, of which the last has 3 samples.
class MixTest : public testing::TestWithParam<std::string> {
 protected:
  BatchPlan plan_of(uint64_t batch) const {
    const auto mix = Pipeline(GetParam(), {}).batch_mix();
    return batch_plan(mix, 3, 2, batch, batch < 5 ? kBatch : 3, kExtent.height, kExtent.width);
  }
  uint64_t partner_of(uint64_t position) const {
    const uint64_t batch = position / kBatch;
    return batch * kBatch + static_cast<uint64_t>(plan_of(batch).partner(static_cast<int64_t>(position % kBatch)));
  }

  static constexpr Extent kExtent{12, 12, 1};
  const TestData data_{{20, 23}, {kExtent}};
};
INSTANTIATE_TEST_SUITE_P(Mixes, MixTest, testing::Values(kMixup, kCutmix),
                         [](const auto& info) { return std::string(info.param == kMixup ? "mixup" : "cutmix"); });

TEST_P(MixTest, EveryRowIsItsOwnAndItsPartnersOfAnyRank) {
  const Rows plain = rows_of(data_, kPlain, options_of());
  for (const int ranks : {1, 3}) {
    Rows mixed;
    for (int rank = 0; rank < ranks; ++rank) mixed.merge(rows_of(data_, GetParam(), options_of(rank, ranks)));
    ASSERT_EQ(mixed.size(), 43u);
    for (const auto& [position, row] : mixed) {
      const BatchPlan plan = plan_of(position / kBatch);
      const Row& own = plain.at(position);
      const Row& partner = plain.at(partner_of(position));
      auto expected = own.pixels;
      mix_row(plan, Layout::kF32Nchw, kExtent, partner.pixels.data(), expected.data());
      EXPECT_EQ(row.pixels, expected) << position;
      EXPECT_EQ(row.id, own.id);
      EXPECT_EQ(row.label, own.label);
      EXPECT_EQ(row.mix_weight, plan.mix_weight);
      EXPECT_EQ(row.second_label, plan.mix_weight < 1 ? partner.label : own.label);
    }
  }
}

TEST_P(MixTest, ARowWithACorruptPartnerIsSubstituted) {
  data_.corrupt(17);
  auto options = options_of();
  options.on_corrupt = OnCorrupt::kMask;
  const Rows plain = rows_of(data_, kPlain, options);
  const Rows mixed = rows_of(data_, GetParam(), options);
  int masked_count = 0;
  for (const auto& [position, row] : mixed) {
    const bool is_lost = row.id == 1017 || (row.mix_weight < 1 && plain.at(partner_of(position)).id == 1017);
    EXPECT_EQ(row.weight, is_lost ? 0 : 1) << position;
    if (!is_lost) continue;
    ++masked_count;
    EXPECT_EQ(row.pixels, std::vector<float>(row.pixels.size(), 0));
    EXPECT_EQ(row.label, plain.at(position).label);
  }
  EXPECT_EQ(masked_count, 2);
}

TEST_P(MixTest, ACorruptPartnerFailsTheBatchAndIsNamed) {
  const Rows plain = rows_of(data_, kPlain, options_of());
  const uint64_t lost = 0, id = plain.at(lost).id;  // in a full batch, of which every rank has a row
  data_.corrupt(id - 1000);
  // The rank that does not have the sample meets it as a partner.
  uint64_t meets = 0;
  while (partner_of(meets) != lost) ++meets;
  const int world_size = kBatch;  // one row per rank
  const auto rank = static_cast<int>(meets % kBatch);
  ASSERT_NE(rank, static_cast<int>(lost % kBatch));
  const auto message =
      message_of(ErrorKind::kCorrupt, [&] { rows_of(data_, GetParam(), options_of(rank, world_size)); });
  EXPECT_THAT(message, testing::HasSubstr("(id " + std::to_string(id) + ")"));
}

TEST_P(MixTest, PaddingHasAMixWeightAndNoLabel) {
  const auto dataset = data_.open();
  Loader loader(dataset, pipeline_for(*dataset, GetParam()), options_of());
  loader.start_epoch(0, 5);
  const auto batch = loader.next();
  ASSERT_EQ(batch->count(), 3);
  for (size_t i = 3; i < kBatch; ++i) {
    EXPECT_EQ(batch->second_labels()[i], 0);
    EXPECT_EQ(batch->mix_weights()[i], 1);
    EXPECT_EQ(batch->weights()[i], 0);
  }
}

TEST_P(MixTest, ABatchOfOneIsLeftAlone) {
  auto options = options_of();
  options.batch_size = 1;
  const Rows plain = rows_of(data_, kPlain, options), mixed = rows_of(data_, GetParam(), options);
  for (const auto& [position, row] : mixed) {
    EXPECT_EQ(row.pixels, plain.at(position).pixels);
    EXPECT_EQ(row.mix_weight, 1);
    EXPECT_EQ(row.second_label, row.label);
  }
}

TEST(MixSlotTest, WithoutAMixThereIsNoSecondLabel) {
  const TestData data({16});
  const auto dataset = data.open();
  Loader loader(dataset, pipeline_for(*dataset, kPlain), options_of());
  loader.start_epoch(0);
  const auto batch = loader.next();
  EXPECT_TRUE(batch->second_labels().empty());
  EXPECT_TRUE(batch->mix_weights().empty());
}

}  // namespace
}  // namespace penstock
