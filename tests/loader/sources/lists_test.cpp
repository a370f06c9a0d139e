// Lists, folders without classes and several inputs: ids, labels and how classes are dealt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/text.h"
#include "loader/pack/pack.h"
#include "loader/shards/dataset.h"
#include "loader/sources/class_list.h"
#include "loader/sources/joined_source.h"
#include "loader/sources/tar_names.h"
#include "tests/loader/make_source.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_data::error_of;
using testing_data::error_of_source;
using testing_data::golden_picture;
using testing_data::make_source;
using testing_data::TemporaryFolder;
using testing_data::write_bytes;

TEST(ClassListTest, NumbersAreLabelsAndNamesAreSorted) {
  detail::ClassList numbers;
  for (const char* name : {"3", "0", "3", "10"}) numbers.add(name);
  numbers.finish("x", {});
  EXPECT_EQ(numbers.names().size(), 11U);
  EXPECT_THAT((std::vector{numbers.label(0), numbers.label(1), numbers.label(3)}), ElementsAre(3, 0, 10));
  detail::ClassList names;
  for (const char* name : {"b", "03", "a", "b"}) names.add(name);  // 03 is no number, or two names would be one class
  names.finish("x", {});
  EXPECT_THAT(names.names(), ElementsAre("03", "a", "b"));
  EXPECT_THAT((std::vector{names.label(0), names.label(1), names.label(3)}), ElementsAre(2, 0, 2));
  detail::ClassList large;
  large.add("4000000000");
  EXPECT_THAT(error_of([&] { large.finish("x.csv", {}); }),
              HasSubstr("x.csv: class 4000000000; expected numbers below"));
}

std::vector<int64_t> labels_of(const std::vector<std::string>& names) {
  detail::ClassList list;
  for (const auto& name : names) list.add(name);
  list.finish("x", [](uint64_t sample) { return concat("row ", sample + 1); });
  std::vector<int64_t> labels;
  for (size_t i = 0; i < names.size(); ++i) labels.push_back(list.label(i));
  return labels;
}

TEST(ClassListTest, NumbersAreReadAsNumbersInEveryForm) {
  EXPECT_THAT(labels_of({"0.0", "2.0", "10.0", "1"}), ElementsAre(0, 2, 10, 1));
  EXPECT_THAT(labels_of({" 0", "2 ", "\t10"}), ElementsAre(0, 2, 10));
  EXPECT_THAT(labels_of({"-1", "10", "2"}), ElementsAre(0, 2, 1));       // none is a label, but they are numbers
  EXPECT_THAT(labels_of({"0.5", "10.5", "2.5"}), ElementsAre(0, 2, 1));  // as are these
  EXPECT_THAT(labels_of({"002", "010", "2b"}), ElementsAre(0, 1, 2));
}

TEST(ClassListTest, ALabelThatIsMissingAmongNumbersIsRefused) {
  for (const char* missing : {"nan", "NaN", "None", " "})
    EXPECT_EQ(error_of([&] {
                labels_of({"0", "2", missing});
              }),
              concat("4 row 3: label is \"", missing, "\"; expected a number, as the others are"));
  EXPECT_THAT(labels_of({"nan", "cat"}), ElementsAre(1, 0));  // a word among words
}

TEST(ClassListTest, IntegersAreThoseOfPython) {
  for (const auto& [text, number] : std::map<std::string, int64_t>{
           {" 1\n", 1}, {"007", 7}, {"+3", 3}, {"-4", -4}, {"1_000", 1000}, {"123456789012345678", 123456789012345678}})
    EXPECT_EQ(detail::int_of(text), number) << text;
  for (const char* text : {"", "-", "1.0", "_1", "1_", "1__0", "- 4", "x", "1e3",
                           "\xEF\xBB\xBF"
                           "1"})
    EXPECT_FALSE(detail::int_of(text)) << text;
}

TEST(TarNamesTest, KeysEndAtTheFirstDotOfTheName) {
  EXPECT_EQ(detail::key_and_ending("a.b/c.Seg.PNG"), (std::pair<std::string, std::string>{"a.b/c", "seg.png"}));
  EXPECT_EQ(detail::key_and_ending("./a.cls"), (std::pair<std::string, std::string>{"a", "cls"}));
  EXPECT_EQ(detail::key_and_ending("a/.hidden").second, "");
  EXPECT_EQ(detail::key_and_ending("readme").second, "");
}

TEST(TarNamesTest, BracesAreRangesOrNames) {
  EXPECT_THAT(detail::expand_braces("s", "x-{08..11}.tar"),
              ElementsAre("x-08.tar", "x-09.tar", "x-10.tar", "x-11.tar"));
  EXPECT_THAT(detail::expand_braces("s", "{0..1}-{3..4}"), ElementsAre("0-3", "0-4", "1-3", "1-4"));
  EXPECT_THAT(detail::expand_braces("s", "{a,b}/{7..8}{,.x}"),
              ElementsAre("a/7", "a/7.x", "a/8", "a/8.x", "b/7", "b/7.x", "b/8", "b/8.x"));
  for (const char* wrong : {"{1}", "{2..1}", "{a..b}", "x{", "x}", "{{1..2}}", "{a,{b}}", "{0..9999999}"})
    EXPECT_THAT(error_of([&] { detail::expand_braces("source webdataset", wrong); }),
                HasSubstr("2 source webdataset: the pattern "))
        << wrong;
}

/// A list of `count` pictures in `class_count` classes, one after the other.
void write_numbered_list(const TemporaryFolder& folder, int count, int class_count) {
  std::string list = "path,label,n\n";
  for (int i = 0; i < count; ++i) {
    write_bytes(folder / concat(i, ".png"), golden_picture("png rgb").file);
    list += concat(i, ".png,", i * class_count / count, ",", i, "\n");
  }
  write_bytes(folder / "train.csv", list);
}

TEST(ListSourceTest, ClassesAreDealtOverTheShards) {
  const TemporaryFolder folder;
  write_numbered_list(folder, 24, 3);
  pack({.source = "csv", .input = folder.path(), .output = folder / "out", .shard_count = 4});
  const auto dataset = Dataset::open(folder / "out");
  for (int shard = 0; shard < 4; ++shard) {
    std::vector<int> counts(3);
    for (uint64_t i = dataset->shard_begin(shard); i < dataset->shard_begin(shard + 1); ++i)
      ++counts[static_cast<size_t>(dataset->at(i).label)];
    EXPECT_THAT(counts, ElementsAre(2, 2, 2)) << shard;
  }
  const size_t field = dataset->field_number("n");
  for (uint64_t i = 0; i < dataset->size(); ++i) EXPECT_EQ(dataset->field(i, field).bytes[0], dataset->at(i).id);
}

TEST(FlatTest, PicturesHaveNoClassAndAreDealtInTurn) {
  const TemporaryFolder folder;
  for (const char* name : {"in/b/1.png", "in/a/2.png", "in/3.png", "in/.hidden/4.png", "in/.5.png", "in/6.txt"})
    write_bytes(folder / name, golden_picture("png rgb").file);
  const auto source = make_source("flat", folder / "in");
  EXPECT_EQ(source->size(), 4U);  // a PNG is one whatever it is called
  EXPECT_TRUE(source->class_names().empty());
  EXPECT_EQ(source->path(0), "3.png");
  EXPECT_EQ(source->ignored().text(), "2 files ignored (no pictures, or outside of class folders): " +
                                          source->ignored().first[0] + ", " + source->ignored().first[1]);
  EXPECT_THAT(source->ignored().first, testing::UnorderedElementsAre(".5.png", ".hidden"));
  pack({.source = "flat", .input = folder / "in", .output = folder / "out", .shard_count = 2});
  const auto dataset = Dataset::open(folder / "out");
  EXPECT_EQ(dataset->shard_begin(1), 2U);
  EXPECT_EQ(dataset->at(0).label, -1);
  EXPECT_THAT(error_of_source("flat", folder / "in", "test"), HasSubstr("no folder for split test"));
}

TEST(JoinedSourceTest, IdsFollowAndLabelsAreThoseOfAllClasses) {
  const TemporaryFolder folder;
  for (const char* name : {"x/b/1.png", "x/c/2.png", "y/a/3.png", "y/b/4.png"})
    write_bytes(folder / name, golden_picture("png rgb").file);
  const std::vector<std::filesystem::path> inputs{folder / "x", folder / "y"};
  std::vector<std::unique_ptr<Source>> sources;
  for (const auto& input : inputs) sources.push_back(make_source("image-folder", input));
  const auto joined = detail::join_sources(std::move(sources), inputs);
  EXPECT_EQ(joined->size(), 4U);
  EXPECT_THAT(joined->class_names(), ElementsAre("a", "b", "c"));
  EXPECT_THAT((std::vector{joined->label(0), joined->label(1), joined->label(2), joined->label(3)}),
              ElementsAre(1, 2, 0, 1));
  EXPECT_EQ(joined->path(2), "y/a/3.png");
  EXPECT_EQ(joined->read(3).extent, golden_picture("png rgb").extent);
  sources.clear();
  sources.push_back(make_source("image-folder", folder / "x"));
  sources.push_back(make_source("flat", folder / "y"));
  EXPECT_THAT(error_of([&] { detail::join_sources(std::move(sources), inputs); }),
              HasSubstr("y has no classes, unlike "));
}

}  // namespace
}  // namespace penstock
