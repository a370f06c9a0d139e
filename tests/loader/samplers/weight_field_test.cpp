// Weights that are a field of the data set; samplers of samples without a class.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "loader/batch/loader.h"
#include "loader/pack/pack.h"
#include "tests/loader/field_source.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

class WeightFieldTest : public ::testing::Test {
 protected:
  WeightFieldTest() {
    pack(testing_data::FieldSource(24), "memory", {.output = folder.path(), .shard_count = 2, .jobs = 1});
    dataset = Dataset::open(folder.path());
  }
  std::string refusal(const std::string& sampler) const {
    try {
      SampleOrder(*dataset, {.sampler = sampler});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  const testing_data::TemporaryFolder folder;
  std::shared_ptr<const Dataset> dataset;
};

TEST_F(WeightFieldTest, SamplesOccurAsOftenAsTheFieldSays) {
  // The field age is id / 2: 0, 0.5, ..., 11.5, which is 138 in all.
  const SampleOrder order(*dataset, {.sampler = "weighted(field=age,rows=276)"});
  const auto places = order.order_of(3);
  std::map<uint64_t, int> counts;
  for (uint64_t position = 0; position < order.rows(); ++position)
    ++counts[dataset->at(order.place_at(places, position).index).id];
  for (uint64_t id = 0; id < 24; ++id) EXPECT_EQ(counts[id], static_cast<int>(id)) << id;
}

TEST_F(WeightFieldTest, AFieldThatIsNoNumberIsOneLine) {
  EXPECT_THAT(refusal("weighted(field=caption)"), HasSubstr("field \"caption\" of "));
  EXPECT_THAT(refusal("weighted(field=caption)"), HasSubstr("is of kind text; expected one number"));
  EXPECT_THAT(refusal("weighted(field=boxes)"), HasSubstr("expected one number"));
  EXPECT_THAT(refusal("weighted(field=aeg)"), HasSubstr("unknown field \"aeg\"; did you mean \"age\"?"));
  EXPECT_THAT(refusal("weighted(field=age,file=w)"), HasSubstr("has several kinds of weights"));
  EXPECT_THAT(refusal("class-balanced"), HasSubstr("has no classes; expected a data set with some"));
}

TEST_F(WeightFieldTest, SubsetsOfSamplesWithoutAClass) {
  EXPECT_EQ(SampleOrder(*dataset, {.subset = "percent(0-25)"}).size(), 6U);
  EXPECT_THAT(SampleOrder(*dataset, {.subset = "percent(0-25)", .sampler = "uniform(rows=12)"}).text(),
              HasSubstr("12 rows per epoch of 6 samples; a sample occurs 2 times"));
}

}  // namespace
}  // namespace penstock
