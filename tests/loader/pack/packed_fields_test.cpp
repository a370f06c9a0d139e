// Fields: what a source gives is what a data set has, and what is no value of its type is refused.
#include "loader/pack/packed_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "loader/pack/pack.h"
#include "loader/pack/verify.h"
#include "loader/shards/dataset.h"
#include "tests/loader/field_source.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing_data::error_of;
using testing_data::FieldSource;
using testing_data::value_of;
using testing_data::write_bytes;

PackOptions options_for(const std::filesystem::path& output) { return {.output = output, .shard_count = 3, .jobs = 1}; }

std::string text_at(const std::filesystem::path& path) {
  const auto bytes = testing_data::read_bytes(path);
  return {bytes.begin(), bytes.end()};
}

std::string text_of(FieldBytes bytes) { return {bytes.begin(), bytes.end()}; }

TEST(PackedFieldsTest, EverySampleHasTheFieldsThatItsSourceGave) {
  const testing_data::TemporaryFolder folder;
  const FieldSource source(20, {"a", "b"});
  pack(source, "memory", options_for(folder.path()));
  const auto dataset = Dataset::open(folder.path());
  std::vector<std::string> names;
  for (const auto& type : dataset->manifest().fields) names.push_back(type.name);
  EXPECT_EQ(names, (std::vector<std::string>{"age", "boxes", "caption", "kinds", "tags"}));
  EXPECT_EQ(dataset->manifest().fields[4].most, 3u);
  for (uint64_t index = 0; index < dataset->size(); ++index) {
    const uint64_t id = dataset->at(index).id;
    const auto expected = source.read(id).fields;
    for (size_t number = 0; number < source.types.size(); ++number) {
      const FieldBytes found = dataset->field(index, dataset->field_number(source.types[number].name)).bytes;
      EXPECT_EQ(FieldValue(found.begin(), found.end()), expected[number]) << source.types[number].name << " of " << id;
    }
  }
  EXPECT_EQ(verify(folder / "train", 1).count, 0u);
}

TEST(PackedFieldsTest, ADataSetWithoutClassesHasTheLabelMinusOne) {
  const testing_data::TemporaryFolder folder;
  pack(FieldSource(10), "memory", options_for(folder.path()));
  const auto dataset = Dataset::open(folder.path());
  EXPECT_TRUE(dataset->manifest().class_names.empty());
  EXPECT_EQ(dataset->manifest().sample_count, 10u);
  for (uint64_t index = 0; index < dataset->size(); ++index) EXPECT_EQ(dataset->at(index).label, -1);
  EXPECT_EQ(verify(folder / "train", 1).count, 0u);
}

TEST(PackedFieldsTest, ADamagedValueIsFoundWhereItIsAskedFor) {
  const testing_data::TemporaryFolder folder;
  pack(FieldSource(9), "memory", options_for(folder.path()));
  std::filesystem::path shard;
  std::string bytes;
  size_t at = std::string::npos;
  const auto whole = Dataset::open(folder.path());
  for (const auto& entry : whole->manifest().shards) {
    const auto path = folder / "train" / entry.file;
    const std::string text = text_at(path);
    if (text.find("sample 4") == std::string::npos) continue;
    shard = path;
    bytes = text;
    at = text.find("sample 4");
  }
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 'S';
  write_bytes(shard, bytes);
  const auto dataset = Dataset::open(folder.path());
  const size_t caption = dataset->field_number("caption");
  for (uint64_t index = 0; index < dataset->size(); ++index) {
    const uint64_t id = dataset->checked_at(index).id;  // the picture is whole
    if (id != 4) {
      EXPECT_EQ(text_of(dataset->field(index, caption).bytes), "sample " + std::to_string(id));
      continue;
    }
    EXPECT_THAT(error_of([&] { dataset->field(index, caption); }), HasSubstr("field \"caption\": crc32c is"));
    EXPECT_NO_THROW(dataset->field(index, dataset->field_number("age")));
  }
  EXPECT_EQ(verify(folder / "train", 1).count, 2u);  // the value, and the file
}

std::string error_of_spoilt(const std::function<void(SourceSample&)>& spoil) {
  const testing_data::TemporaryFolder folder;
  FieldSource source(9);
  source.spoil = [&](uint64_t id, SourceSample& sample) {
    if (id == 5) spoil(sample);  // with one tag and two boxes
  };
  return error_of([&] { pack(source, "memory", options_for(folder / "out")); });
}

TEST(PackedFieldsTest, WhatIsNoValueOfItsTypeIsRefusedInOneLine) {
  const auto with = [](size_t number, FieldValue value) {
    return [number, value](SourceSample& sample) { sample.fields[number] = value; };
  };
  EXPECT_THAT(error_of_spoilt([](SourceSample& sample) { sample.fields.pop_back(); }),
              HasSubstr("sample 5: has 4 fields; expected 5"));
  EXPECT_THAT(error_of_spoilt(with(1, FieldValue(5))), HasSubstr("field \"age\": 5 bytes; expected 4, for F32 []"));
  EXPECT_THAT(error_of_spoilt(with(0, FieldValue(9))), HasSubstr("field \"tags\": 9 bytes; expected a multiple of 8"));
  EXPECT_THAT(error_of_spoilt(with(3, {0xFF})), HasSubstr("field \"caption\": is no UTF-8"));
  EXPECT_THAT(error_of_spoilt(with(2, {})),
              HasSubstr("field \"kinds\": 0 entries; expected 2, one for each of \"boxes\""));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& box : {std::vector<float>{3, 0, 2, 1}, {0, 0, 8, 1}, {0, 0, nan, 1}, {-3, 0, 1, 1}})
    EXPECT_THAT(error_of_spoilt([&](SourceSample& sample) {
                  sample.fields[4] = value_of(box);
                  sample.fields[2] = value_of(std::vector<int64_t>{0});
                }),
                HasSubstr("field \"boxes\": box 0 is"));
}

TEST(PackedFieldsTest, TypesThatNoManifestCanHaveAreRefused) {
  const auto error_with = [](FieldType type) {
    const testing_data::TemporaryFolder folder;
    FieldSource source(3);
    source.types[1] = std::move(type);
    return error_of([&] { pack(source, "memory", options_for(folder / "out")); });
  };
  EXPECT_THAT(error_with({.name = "a/b"}), HasSubstr("field \"a/b\": expected a name"));
  EXPECT_THAT(error_with({.name = "boxes"}), HasSubstr("field \"boxes\" occurs twice"));
  EXPECT_THAT(error_with({.name = "x", .shape = {0}}), HasSubstr("shape is [0]"));
  EXPECT_THAT(error_with({.name = "x", .shape = std::vector<int64_t>(9, 1)}),
              HasSubstr("a shape of 9 dimensions; expected at most 8"));
  EXPECT_THAT(error_with({.name = "x", .kind = FieldKind::kText}), HasSubstr("dtype is F32; expected U8 for text"));
  EXPECT_THAT(error_with({.name = "x", .shape = {-1}, .of = "tags"}),
              HasSubstr("is of \"tags\"; expected a field of boxes"));
}

TEST(PackedFieldsTest, BatchesHaveNoRoomForMoreThanTheShardsHold) {
  const testing_data::TemporaryFolder folder;
  pack(FieldSource(20), "memory", options_for(folder.path()));
  const auto file = folder / "train/manifest.json";
  const std::string text = text_at(file);
  const auto error_with = [&](const std::string& most, Opening opening) {
    std::string changed = text;
    const auto at = changed.find("\"most\": 3");
    EXPECT_NE(at, std::string::npos) << text;
    changed.replace(at, 9, "\"most\": " + most);
    write_bytes(file, testing_data::Bytes(changed.begin(), changed.end()));
    return error_of([&] { Dataset::open(folder.path(), "train", {}, opening); });
  };
  for (const char* most : {"4", "1000000000"})
    EXPECT_THAT(error_with(most, Opening::kAuto),
                HasSubstr("manifest.json: fields: \"tags\": most is " + std::string(most) + "; expected "));
  EXPECT_THAT(error_with("1000000000", Opening::kWhenAsked), HasSubstr("most is 1000000000; expected at most "));
  EXPECT_THAT(error_with("2", Opening::kAuto), HasSubstr("a sample has 3 entries; expected at most 2"));
}

TEST(PackedFieldsTest, AShardWithAFieldThatTheManifestLacksIsRefused) {
  const testing_data::TemporaryFolder folder;
  pack(FieldSource(3), "memory", options_for(folder.path()));
  std::string text = text_at(folder / "train/manifest.json");
  const size_t at = text.find("\"caption\"");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 9, "\"caption2\"");
  write_bytes(folder / "train/manifest.json", text);
  EXPECT_THAT(error_of([&] { Dataset::open(folder.path()); }), HasSubstr("tensor \"field.caption\" is of no field"));
}

}  // namespace
}  // namespace penstock
