// The column `field`: values of the samples of a batch, in every form, at any number of workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "loader/batch/digest.h"
#include "loader/batch/loader.h"
#include "loader/pack/pack.h"
#include "tests/loader/field_source.h"
#include "tests/loader/storage_test_data.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

using testing::AllOf, testing::HasSubstr;
using testing_data::error_of;
using testing_data::FieldSource;

class FieldColumnTest : public testing::Test {
 protected:
  FieldColumnTest() {
    pack(FieldSource(23), "memory", {.output = folder_.path(), .shard_count = 2, .jobs = 1});
    dataset_ = Dataset::open(folder_.path());
  }

  Loader loader(const std::string& columns, int workers = 2) const {
    LoaderOptions options;
    options.batch_size = 5;
    options.workers = workers;
    options.columns = columns;
    return Loader(dataset_, Pipeline("", dataset_->manifest().statistics), options);
  }

  template <class See>
  static void each_batch(Loader loader, const See& see) {
    loader.start_epoch(0);
    while (auto batch = loader.next()) see(*batch);
  }

  std::string digest_of(const std::string& columns, int workers = 0) const {
    Digest digest;
    each_batch(loader(columns, workers), [&](const Batch& batch) { digest.add(batch); });
    return digest.hex();
  }

  template <class Element>
  static std::vector<Element> row_of(const Batch& batch, size_t number, int64_t row) {
    const size_t row_bytes = batch.columns()[number].row_bytes();
    std::vector<Element> values(row_bytes / sizeof(Element));
    std::memcpy(values.data(), batch.column(number).data() + static_cast<size_t>(row) * row_bytes, row_bytes);
    return values;
  }

  const testing_data::TemporaryFolder folder_;
  std::shared_ptr<const Dataset> dataset_;
};

TEST_F(FieldColumnTest, GivesNumbersPaddedListsAndMultiHotRows) {
  const std::string columns = "field(name=age),field(name=tags),field(name=tags,column=hot,as=multi-hot,classes=30)";
  size_t row_count = 0;
  each_batch(loader(columns), [&](const Batch& batch) {
    ASSERT_EQ(batch.columns().size(), 8u);
    EXPECT_EQ(batch.columns()[5].name, "tags");
    EXPECT_EQ(batch.columns()[6].name, "tags.count");
    for (int64_t row = 0; row < batch.count(); ++row, ++row_count) {
      const uint64_t id = batch.ids()[static_cast<size_t>(row)];
      const auto tags = FieldSource::tags_of(id);
      EXPECT_EQ(row_of<float>(batch, 4, row), std::vector{static_cast<float>(id) / 2});
      auto padded = tags;
      padded.resize(3);
      EXPECT_EQ(row_of<int64_t>(batch, 5, row), padded);
      EXPECT_EQ(row_of<int64_t>(batch, 6, row), std::vector{static_cast<int64_t>(tags.size())});
      std::vector<float> hot(30);
      for (const int64_t tag : tags) hot[static_cast<size_t>(tag)] = 1;
      EXPECT_EQ(row_of<float>(batch, 7, row), hot);
    }
  });
  EXPECT_EQ(row_count, 23u);
}

TEST_F(FieldColumnTest, IsPartOfTheDigestWhichWorkersDoNotChange) {
  EXPECT_EQ(digest_of("field(name=tags)", 0), digest_of("field(name=tags)", 3));
  EXPECT_NE(digest_of("field(name=tags)", 0), digest_of("", 0));
  EXPECT_NE(digest_of("field(name=age)", 0), digest_of("field(name=tags)", 0));
}

TEST_F(FieldColumnTest, ANumberOutsideOfTheRangeIsASampleThatIsCorrupt) {
  EXPECT_EQ(digest_of("field(name=age,range=0:11)"), digest_of("field(name=age)"));
  const auto says = [&](const std::string& columns) {
    return message_of(ErrorKind::kCorrupt, [&] { each_batch(loader(columns, 0), [](const Batch&) {}); });
  };
  EXPECT_THAT(says("field(name=age,range=0:10.5)"),
              AllOf(HasSubstr("(id 22)"), HasSubstr(": field \"age\": number 0 is 11; expected 0 to 10.5")));
  EXPECT_THAT(says("field(name=age,range=0.5:11)"), HasSubstr("number 0 is 0; expected 0.5 to 11"));
}

/// Two halves of all dtypes with a point: 0.5, and what is no number.
TEST(FieldRangeTest, ANaNIsOutsideOfEveryRange) {
  const testing_data::TemporaryFolder folder;
  FieldSource source(3);
  source.types = {{.name = "half", .kind = FieldKind::kNumber, .dtype = Dtype::kF16, .shape = {2}},
                  {.name = "one", .kind = FieldKind::kNumber, .dtype = Dtype::kF32},
                  {.name = "short", .kind = FieldKind::kNumber, .dtype = Dtype::kBf16, .shape = {2}}};
  source.spoil = [](uint64_t id, SourceSample& sample) {
    const bool is_bad = id == 1;
    sample.fields = {testing_data::value_of(std::vector<uint16_t>{0x3800, static_cast<uint16_t>(is_bad ? 0x7E00 : 0)}),
                     testing_data::value_of(std::vector{is_bad ? NAN : 0.5F}),
                     testing_data::value_of(std::vector<uint16_t>{0x3F00, static_cast<uint16_t>(is_bad ? 0x7FC0 : 0)})};
  };
  pack(source, "memory", {.output = folder.path(), .shard_count = 1, .jobs = 1});
  const auto dataset = Dataset::open(folder.path());
  for (const auto& [field, number] : {std::pair{"half", 1}, {"one", 0}, {"short", 1}}) {
    LoaderOptions options{.workers = 0, .batch_size = 3, .columns = concat("field(name=", field, ",range=0:1)")};
    options.shuffle = Shuffle::kNone;
    Loader loader(dataset, Pipeline("", dataset->manifest().statistics), options);
    loader.start_epoch(0);
    EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { loader.next(); }),
                AllOf(HasSubstr("(id 1)"), HasSubstr(concat("number ", number, " is "))));
    options.on_corrupt = OnCorrupt::kMask;
    Loader masking(dataset, Pipeline("", dataset->manifest().statistics), options);
    masking.start_epoch(0);
    EXPECT_EQ(masking.next()->corrupt_count(), 1);
  }
}

TEST_F(FieldColumnTest, RefusesWhatTheDataSetCannotGive) {
  const auto error_with = [&](const std::string& columns) {
    return error_of([&] { each_batch(loader(columns, 0), [](const Batch&) {}); });
  };
  EXPECT_THAT(error_with("field(name=tag)"), HasSubstr("unknown field \"tag\"; did you mean \"tags\"?"));
  EXPECT_THAT(error_with("field"), HasSubstr("no name; expected name=FIELD"));
  EXPECT_THAT(error_with("field(name=age,as=multi-hot,classes=3)"), HasSubstr("is of kind number; expected labels"));
  EXPECT_THAT(error_with("field(name=tags,as=hot)"), HasSubstr("as is \"hot\"; expected whole or multi-hot"));
  EXPECT_THAT(error_with("field(name=tags,as=multi-hot,classes=9)"), HasSubstr("expected 0 to 8"));
  EXPECT_THAT(error_with("field(name=tags,range=0:1)"), HasSubstr("is of kind labels; expected number"));
  EXPECT_THAT(error_with("field(name=tags,as=multi-hot,classes=30,range=0:1)"),
              HasSubstr("range is given with as=multi-hot"));
  EXPECT_THAT(error_with("field(name=age,most=3)"), HasSubstr("is of a fixed shape, []; expected no most"));
  EXPECT_THAT(error_with("field(name=tags,classes=3)"), HasSubstr("expected it with as=multi-hot alone"));
  EXPECT_THAT(error_with("field(name=age,range=1:0)"), HasSubstr("expected low:high with low <= high"));
  EXPECT_THAT(error_with("field(name=tags,most=2)"), HasSubstr("has 3 entries; expected most=3 or more, not 2"));
}

}  // namespace
}  // namespace penstock
