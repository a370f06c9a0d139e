// Subsets, lists of ids and weights: what users write, and one line for what is wrong with it.
#include "loader/samplers/subset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>

#include "loader/samplers/id_list.h"
#include "loader/samplers/weights.h"
#include "tests/loader/loader_test_data.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_data::TestData;

std::string said_by(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class SubsetTest : public ::testing::Test {
 protected:
  std::vector<uint64_t> chosen(const std::string& subset, const std::string& exclude = "") const {
    return subset_of(*dataset, subset, exclude);
  }
  std::string written(const std::string& text) const {
    const auto path = data.folder() / "list.txt";
    std::ofstream(path) << text;
    return path.string();
  }

  TestData data{{35, 0, 65}};  // ids from 1000 on; labels 0 to 9 in turn
  std::shared_ptr<const Dataset> dataset = data.open();
};

TEST_F(SubsetTest, PercentTakesTheSameShareOfEveryClassAndRangesShareNoSample) {
  const auto tenth = chosen("percent(0-10)"), rest = chosen("percent(10-100)");
  std::vector<uint64_t> first(10);
  std::iota(first.begin(), first.end(), uint64_t{0});
  EXPECT_EQ(tenth, first) << "the first of the ten samples of each class";
  EXPECT_EQ(rest.size(), 90U);
  EXPECT_EQ(rest.front(), 10U);
  EXPECT_EQ(chosen("percent(range=25:35)").size(), 10U);
  EXPECT_EQ(chosen("percent(0-100)").size(), 100U);
}

TEST_F(SubsetTest, FractionChoosesByIdAndSeed) {
  const auto one = chosen("fraction(0.3,seed=1)");
  EXPECT_EQ(one.size(), 30U);
  EXPECT_EQ(chosen("fraction(share=0.3,seed=1)"), one);
  EXPECT_NE(chosen("fraction(0.3,seed=2)"), one);
  const auto fewer = chosen("fraction(0.1,seed=1)");
  EXPECT_TRUE(std::includes(one.begin(), one.end(), fewer.begin(), fewer.end())) << "a smaller share is part of it";
}

TEST_F(SubsetTest, SamplesDoNotDependOnHowTheyAreDealtOverShards) {
  const TestData other({20, 20, 60});
  EXPECT_EQ(subset_of(*other.open(), "fraction(0.3),percent(0-50)", ""), chosen("fraction(0.3),percent(0-50)"));
}

TEST_F(SubsetTest, ClassesIdsAndExcludedOnes) {
  EXPECT_EQ(chosen("classes(3:7)").size(), 20U);
  EXPECT_THAT(chosen("classes(3),percent(0-20)"), ElementsAre(3, 13));
  const auto list = written("1005\n\n 1000 \n1099\n");
  EXPECT_THAT(chosen("ids(" + list + ")"), ElementsAre(0, 5, 99));
  EXPECT_THAT(chosen("ids(file=" + list + "),classes(5)"), ElementsAre(5));
  EXPECT_EQ(chosen("", list).size(), 97U);
  const auto quarantine = written(R"({"split":"train","id":1001,"error":"x"})"
                                  "\n"
                                  R"({"split":"test","id":1002})"
                                  "\n");
  EXPECT_EQ(chosen("", quarantine).size(), 99U) << "a line of another split is none of these samples";
}

TEST_F(SubsetTest, WhatIsWrongIsSaidInOneLine) {
  const auto says = [&](const std::string& subset) { return said_by([&] { chosen(subset); }); };
  EXPECT_THAT(says("classes(10)"), HasSubstr("unknown class \"10\""));
  EXPECT_THAT(says("percent(10-10)"), HasSubstr("range is 10 to 10; expected 0 to 100 per cent"));
  EXPECT_THAT(says("percent(0-101)"), HasSubstr("range is 0 to 101"));
  EXPECT_THAT(says("percent(0-1)"), HasSubstr("subset percent(0-1): leaves 0 of the 100 samples"));
  EXPECT_THAT(says("percent"), HasSubstr("has no range"));
  EXPECT_THAT(says("fraction(0)"), HasSubstr("share is 0; expected more than 0"));
  EXPECT_THAT(says("fraction(nan)"), HasSubstr("expected a finite number"));
  EXPECT_THAT(says("fraction(0.5,sed=1)"), HasSubstr("did you mean \"seed\""));
  EXPECT_EQ(says("ids(1,2,3)"),
            "subset \"ids(1,2,3)\": has several values; expected ids(FILE), a file with an id per line");
  EXPECT_THAT(says("half(0.5=1)"), HasSubstr("unknown subset \"half\""));
  EXPECT_THAT(says("ids(" + written("1000\n77\n") + ")"), HasSubstr("id 77 is that of no sample"));
  EXPECT_THAT(says("ids(" + written("1000\nx1\n") + ")"), HasSubstr("list.txt, line 2: is \"x1\""));
  EXPECT_THAT(says("ids(" + written("{\"id\":-1}\n") + ")"), HasSubstr("line 1"));
  EXPECT_THAT(says("ids(/nowhere)"), HasSubstr("/nowhere"));
  std::string all;
  for (int id = 1000; id < 1100; ++id) all += std::to_string(id) + "\n";
  EXPECT_THAT(said_by([&] { chosen("", written(all)); }), HasSubstr("leaves 0 of the 100 samples"));
  for (const char* subset : {"classes(10)", "percent(0-1)", "half(0.5=1)"})
    EXPECT_EQ(says(subset).find('\n'), std::string::npos);
}

TEST_F(SubsetTest, TheChecksumIsThatOfIdsAndLabels) {
  EXPECT_EQ(checksum_of(*dataset, {1, 2, 3}), checksum_of(*TestData({100}).open(), {1, 2, 3}));
  EXPECT_NE(checksum_of(*dataset, {1, 2, 3}), checksum_of(*dataset, {1, 2, 4}));
}

TEST(WeightsTest, KeepProportionsAndNeverMakeSomethingOfNothing) {
  const auto name = [](uint64_t i) { return concat("sample ", i); };
  const auto whole = whole_weights(std::vector<double>{1, 0, 3, 0.5, 1e-300}, "here", name);
  EXPECT_EQ(whole[2], 3 * whole[0]);
  EXPECT_EQ(whole[0], 2 * whole[3]);
  EXPECT_EQ(whole[1], 0U);
  EXPECT_EQ(whole[4], 1U) << "a weight above 0 stays above 0";
  const auto says = [&](std::vector<double> weights) { return said_by([&] { whole_weights(weights, "here", name); }); };
  EXPECT_THAT(says({1, -1}), HasSubstr("here: the weight of sample 1 is -1; expected a number of 0 or more"));
  EXPECT_THAT(says({std::nan("")}), HasSubstr("the weight of sample 0 is nan"));
  EXPECT_THAT(says({std::numeric_limits<double>::infinity()}), HasSubstr("is inf"));
  EXPECT_THAT(says({0, 0}), HasSubstr("here: all 2 weights are 0"));
}

TEST(WeightsTest, PowersAreThoseOfTheLibraryButForRounding) {
  for (const double power : {0.0, 0.25, 0.5, 1.0, 1.7, 3.0, 15.9})
    for (const double base : {1.0, 2.0, 37.0, 1e5}) {
      const double expected = std::pow(base, power);
      EXPECT_NEAR(same_power(base, power), expected, 1e-7 * expected) << base << " to the power of " << power;
    }
  EXPECT_EQ(same_power(9, 0.5), 3);
}

TEST_F(SubsetTest, WeightsOfIdsAreReadLineByLine) {
  const auto weights = read_id_weights(written("1000,0.5\n1001 2\n\n1002,\t1e3\n"));
  EXPECT_EQ(weights.size(), 3U);
  EXPECT_EQ(weights.at(1002), 1000);
  EXPECT_THAT(said_by([&] { read_id_weights(written("1000,1\n1000,2\n")); }), HasSubstr("line 2: id 1000"));
  EXPECT_THAT(said_by([&] { read_id_weights(written("1000\n")); }), HasSubstr("expected the id of a sample and its"));
}

}  // namespace
}  // namespace penstock
