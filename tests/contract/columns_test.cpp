// The contract of column makers: what loader/rows/column.h says of them is true of each that is registered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "augment/transform.h"
#include "loader/pack/pack.h"
#include "loader/rows/column.h"
#include "tests/contract/spec_text.h"
#include "tests/loader/columns/object_source.h"
#include "tests/support/testing.h"

namespace penstock {
namespace {

using testing::HasSubstr;

/// ObjectSource with a number, key points that belong to no box, and a second picture.
class EveryField final : public testing_data::ObjectSource {
 public:
  using ObjectSource::ObjectSource;
  std::vector<FieldType> fields() const override {
    auto types = ObjectSource::fields();
    const int64_t any = FieldType::kVariable;
    types.push_back({.name = "age", .kind = FieldKind::kNumber, .dtype = Dtype::kF32});
    types.push_back({.name = "pose", .kind = FieldKind::kKeypoints, .dtype = Dtype::kF32, .shape = {any, 1, 3}});
    types.push_back({.name = "second", .kind = FieldKind::kPicture, .dtype = Dtype::kU8, .shape = {any}});
    return types;
  }
  SourceSample read(uint64_t id) const override {
    SourceSample sample = ObjectSource::read(id);
    sample.fields.push_back(testing_data::bytes_of(std::vector{static_cast<float>(id) / 16}));
    sample.fields.push_back(testing_data::bytes_of(std::vector{static_cast<float>(id), 5.0F, 2.0F}));
    sample.fields.push_back(sample.bytes);
    return sample;
  }
};

const std::map<std::string, std::string> kSpecs{{"boxes", "boxes(with=kinds:corners:shapes)"},
                                                {"field", "field(name=age)"},
                                                {"keypoints", "keypoints(field=pose)"},
                                                {"mask", "mask(field=segmentation)"},
                                                {"picture", "picture(field=second)"}};

class ColumnsContract : public testing::Test {
 protected:
  ColumnsContract() {
    pack(EveryField(8), "memory", {.output = folder_.path(), .shard_count = 1, .jobs = 1});
    dataset_ = Dataset::open(folder_.path());
  }

  std::unique_ptr<ColumnMaker> maker(const std::string& spec) const {
    return ColumnRegistry::make(parse_spec("column", spec), ColumnContext{*dataset_, kExtent, Layout::kF32Nchw});
  }

  /// The columns of the row of sample `index`, one after the other, in memory that was full of `before`.
  std::string made(const ColumnMaker& maker, uint64_t index, char before) const {
    const Sample sample = dataset_->at(index);
    const Pipeline pipeline("random-resized-crop(size=16),flip", dataset_->manifest().statistics);
    const Plan plan = pipeline.plan(Plan::identity(sample.extent.height, sample.extent.width), 1, 3, sample.id);
    const std::vector<std::byte> pixels(rendered_bytes(Layout::kF32Nchw, kExtent));
    size_t end = 0;
    std::vector<size_t> begins;
    for (const Column& column : maker.columns()) begins.push_back(std::exchange(end, end + column.row_bytes() + kGap));
    std::string memory(end, before);
    std::vector<std::byte*> cells;
    for (const size_t begin : begins) cells.push_back(reinterpret_cast<std::byte*>(&memory[begin]));
    maker.make({sample, index, 3, plan, pixels}, cells);
    for (size_t i = begins.size(); i-- > 0; end = begins[i]) {
      EXPECT_EQ(memory.substr(end - kGap, kGap), std::string(kGap, before)) << "behind column " << i;
      memory.erase(end - kGap, kGap);
    }
    return memory;
  }

  static constexpr Extent kExtent{16, 16, 1};
  static constexpr size_t kGap = 64;  // behind a column: the next one's row, which is not the maker's to write
  const TemporaryFolder folder_{"columns"};
  std::shared_ptr<const Dataset> dataset_;
};

std::vector<std::string> texts_of(const std::vector<Column>& columns) {
  std::vector<std::string> texts;
  for (const auto& column : columns) {
    texts.push_back(concat(column.name, " ", dtype_name(column.dtype)));
    for (const int64_t size : column.shape) texts.back() += concat(" ", size);
  }
  return texts;
}

TEST_F(ColumnsContract, EveryKindIsTriedAndSaysTheSameColumnsAtEveryCall) {
  for (const auto& [name, entry] : ColumnRegistry::entries()) {
    ASSERT_TRUE(kSpecs.contains(name)) << name;
    const auto made = maker(kSpecs.at(name));
    const auto columns = made->columns();
    EXPECT_GE(columns.size(), 1U) << name;
    EXPECT_LE(columns.size(), ColumnMaker::kMostColumns) << name;
    for (const auto& column : columns) EXPECT_GT(column.row_bytes(), 0U) << name;
    EXPECT_EQ(texts_of(made->columns()), texts_of(columns)) << name;
  }
}

TEST_F(ColumnsContract, MakeWritesEveryByteOfItsColumnsAndNoOtherFromSeveralThreads) {
  for (const auto& [name, spec] : kSpecs) {
    const auto made_by = maker(spec);
    std::vector<std::string> expected;
    for (uint64_t index = 0; index < dataset_->size(); ++index) {
      expected.push_back(made(*made_by, index, '\x55'));
      EXPECT_EQ(made(*made_by, index, '\xAA'), expected.back()) << name << ", sample " << index;
    }
    EXPECT_NE(expected[1], expected[2]) << name << ": of different samples";
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; ++thread)
      threads.emplace_back([&] {
        for (uint64_t index = 0; index < expected.size(); ++index)
          EXPECT_EQ(made(*made_by, index, '\0'), expected[index]) << name << ", sample " << index;
      });
    for (auto& thread : threads) thread.join();
  }
}

TEST_F(ColumnsContract, AnUnknownKeyIsNamedBeforeAnyValue) {
  for (const auto& [name, entry] : ColumnRegistry::entries())
    EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { maker(with_unknown_key(name, entry.keys)); }),
                HasSubstr("unknown key \"zzz\""));
}

/// A value that nothing takes is refused with the key's name or the value, or it is the name of the columns.
TEST_F(ColumnsContract, EveryRegisteredKeyIsRead) {
  for (const auto& [name, entry] : ColumnRegistry::entries())
    for (const auto& key : entry.keys) {
      const std::string spec = with_value(kSpecs.at(name), key, "?");
      if (key == "column") {
        EXPECT_THAT(texts_of(maker(spec)->columns()).front(), HasSubstr("?")) << spec;
        continue;
      }
      EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { maker(spec); }), HasSubstr("?")) << spec;
    }
}

}  // namespace
}  // namespace penstock
