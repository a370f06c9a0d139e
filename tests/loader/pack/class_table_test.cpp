// Class tables: a label means the same in every split of a data set, in whichever order the splits are packed.
#include "loader/pack/class_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text.h"
#include "loader/pack/pack.h"
#include "loader/pack/verify.h"
#include "loader/shards/dataset.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing_data::error_of;
using testing_data::TemporaryFolder;
namespace fs = std::filesystem;
using Names = std::vector<std::string>;

/// A source of grey pictures of 1 x 1, two per class, whose level says the name of their class.
class Letters final : public Source {
 public:
  explicit Letters(Names names) : names_(std::move(names)) {}
  uint64_t size() const override { return 2 * names_.size(); }
  Names class_names() const override { return names_; }
  int64_t label(uint64_t index) const override { return static_cast<int64_t>(index % names_.size()); }
  std::string fingerprint() const override { return ""; }
  SourceSample read(uint64_t index) const override {
    return {{static_cast<uint8_t>(names_[index % names_.size()][0])}, Encoding::kRaw, {1, 1, 1}};
  }

 private:
  Names names_;
};

void pack_letters(const fs::path& output, const std::string& split, const Names& names, const Names& packed_next = {},
                  const std::function<void(const PackProgress&)>& on_progress = {}) {
  pack(Letters(names), "letters",
       {.input = {}, .split = split, .output = output, .shard_count = 2, .force = true, .packed_next = packed_next},
       on_progress);
}

/// The letters of all samples by the names that their labels have: "aabb" where every label is right.
std::string letters_of(const Dataset& dataset) {
  std::string letters, named;
  for (uint64_t i = 0; i < dataset.size(); ++i) {
    const Sample sample = dataset.at(i);
    letters += static_cast<char>(sample.bytes[0]);
    named += dataset.manifest().class_names.at(static_cast<size_t>(sample.label));
  }
  EXPECT_EQ(letters, named);
  std::sort(letters.begin(), letters.end());
  return letters;
}

TEST(ClassTableTest, ALaterSplitHasTheLabelsOfTheFirst) {
  const TemporaryFolder folder;
  pack_letters(folder.path(), "train", {"a", "c", "b"});
  pack_letters(folder.path(), "test", {"b", "a"});
  const auto test = Dataset::open(folder.path(), "test");
  EXPECT_EQ(test->manifest().class_names, (Names{"a", "c", "b"}));
  EXPECT_EQ(test->manifest().class_counts, (std::vector<uint64_t>{2, 0, 2}));
  EXPECT_EQ(letters_of(*test), "aabb");
  pack_letters(folder.path(), "all", {"a", "b", "c"});
  EXPECT_EQ(Dataset::open(folder.path(), "all")->manifest().class_names, (Names{"a", "c", "b"}));
  EXPECT_EQ(letters_of(*Dataset::open(folder.path(), "all")), "aabbcc");
  EXPECT_EQ(verify(folder / "test").lines, Names{});
}

TEST(ClassTableTest, AClassThatTheOtherSplitLacksIsRefused) {
  for (const auto& [first, second] : {std::pair{"train", "test"}, std::pair{"test", "train"}}) {
    const TemporaryFolder folder;
    pack_letters(folder.path(), first, {"a", "c"});
    const std::string there = (folder / first).string();
    EXPECT_EQ(error_of([&] {
                pack_letters(folder.path(), second, {"a", "b", "c", "d"});
              }),
              concat("2 ", (folder / second).string(), ": class \"b\" (and 1 more) is not among the 2 classes of ",
                     there, "; expected the same classes in all splits: remove ", there,
                     ", then pack train with every class, and then test"));
    EXPECT_EQ(testing_data::names_in(folder.path()), Names{first});
    fs::remove_all(there);
    pack_letters(folder.path(), "train", {"a", "b", "c", "d"});
    pack_letters(folder.path(), "test", {"a", "c"});
    EXPECT_EQ(letters_of(*Dataset::open(folder.path(), "test")), "aacc");
  }
}

TEST(ClassTableTest, ASplitThatIsTrainedOnMayNotLackAClass) {
  const TemporaryFolder folder;
  pack_letters(folder.path(), "test", {"a", "b", "c"});
  for (const char* split : {"train", "all"})
    EXPECT_THAT(error_of([&] {
                  pack_letters(folder.path(), split, {"a", "c"});
                }),
                HasSubstr(concat("/", split, ": lacks class \"b\" of ", (folder / "test").string(), "; expected ")));
  pack_letters(folder.path(), "train", {"c", "b", "a"});
  EXPECT_EQ(letters_of(*Dataset::open(folder.path())), "aabbcc");
}

TEST(ClassTableTest, ASplitThatTheSameCallReplacesDoesNotCount) {
  const TemporaryFolder folder;
  for (const char* split : {"train", "test"}) pack_letters(folder.path(), split, {"a", "c"});
  EXPECT_NE(error_of([&] { pack_letters(folder.path(), "train", {"a", "b", "c"}); }), "");
  pack_letters(folder.path(), "train", {"a", "b", "c"}, {"test"});
  EXPECT_EQ(error_of([&] { Dataset::open(folder.path(), "test"); }),
            concat("2 ", (folder / "test").string(), ": class 1 is \"c\"; expected \"b\", as in ",
                   (folder / "train").string(), "; pack it again"));
  pack_letters(folder.path(), "test", {"a", "c"});
  EXPECT_EQ(letters_of(*Dataset::open(folder.path(), "test")), "aacc");
}

TEST(ClassTableTest, ASplitThatIsPackedMeanwhileCounts) {
  const TemporaryFolder folder;
  bool is_first = true;
  const auto pack_train = [&](const PackProgress&) {
    if (std::exchange(is_first, false)) pack_letters(folder.path(), "train", {"a", "b", "c"});
  };
  EXPECT_THAT(error_of([&] {
                pack_letters(folder.path(), "test", {"a", "c"}, {}, pack_train);
              }),
              HasSubstr("/test: another split was packed in the meantime, with other classes; expected "));
  EXPECT_EQ(testing_data::names_in(folder.path()), Names{"train"});
}

/// What earlier versions packed.
void pack_splits_that_differ(const TemporaryFolder& folder, const Names& train, const Names& test) {
  pack_letters(folder / "data", "train", train);
  pack_letters(folder / "other", "test", test);
  fs::rename(folder / "other/test", folder / "data/test");
}

TEST(ClassTableTest, ATestSplitWithOtherClassesIsNotOpenedInSilence) {
  const TemporaryFolder folder;
  pack_splits_that_differ(folder, {"a", "b", "c"}, {"a", "c"});
  const std::string problem = concat((folder / "data/test").string(), ": class 1 is \"c\"; expected \"b\", as in ",
                                     (folder / "data/train").string(), "; pack it again");
  EXPECT_EQ(error_of([&] { Dataset::open(folder / "data", "test"); }), "2 " + problem);
  EXPECT_EQ(error_of([&] { Dataset::open(folder / "data/test"); }), "2 " + problem);
  EXPECT_EQ(verify(folder / "data/test").lines, Names{problem});
  EXPECT_EQ(Dataset::open(folder / "data")->size(), 6u);  // what is trained on is right by itself
  EXPECT_EQ(letters_of(*Dataset::open_alone(folder / "data/test")), "aacc");
  fs::rename(folder / "data/test", folder / "data/another");  // no split of the data set any more
  EXPECT_EQ(Dataset::open(folder / "data/another")->size(), 4u);
}

/// Letters that have a field of this type, with an empty value.
class WithField final : public Source {
 public:
  explicit WithField(FieldType type) : type_(std::move(type)) {}
  uint64_t size() const override { return 1; }
  Names class_names() const override { return {}; }
  int64_t label(uint64_t) const override { return -1; }
  std::string fingerprint() const override { return ""; }
  std::vector<FieldType> fields() const override { return {type_}; }
  SourceSample read(uint64_t) const override {
    return {.bytes = {0},
            .extent = {1, 1, 1},
            .fields = {FieldValue(type_.is_variable() ? 0 : type_.entry_bytes(), uint8_t{0})}};
  }

 private:
  FieldType type_;
};

TEST(ClassTableTest, FieldsOfOneNameMeanTheSameInAllSplits) {
  constexpr int64_t kAny = FieldType::kVariable;
  const FieldType number{.name = "age"},
      text{.name = "age", .kind = FieldKind::kText, .dtype = Dtype::kU8, .shape = {kAny}},
      pair{.name = "age", .shape = {2}}, three{.name = "age", .shape = {3}}, list{.name = "age", .shape = {kAny}},
      other{.name = "size"}, whole{.name = "age", .dtype = Dtype::kI64};
  const auto labels = [](const Names& names) {
    return FieldType{.name = "age", .kind = FieldKind::kLabels, .dtype = Dtype::kI64, .shape = {kAny}, .names = names};
  };
  const auto packed = [](const fs::path& folder, const char* split, const FieldType& type) {
    pack(WithField(type), "one", {.input = {}, .split = split, .output = folder, .shard_count = 1});
  };
  const auto problem = [&](const FieldType& train, const FieldType& test) {
    const TemporaryFolder folder;
    packed(folder / "a", "train", train);
    const std::string said = error_of([&] { packed(folder / "a", "test", test); });
    packed(folder / "b", "test", test);
    fs::create_directories(folder / "c");
    fs::rename(folder / "a/train", folder / "c/train");
    fs::rename(folder / "b/test", folder / "c/test");
    const std::string opened = error_of([&] { Dataset::open(folder / "c", "test"); });
    const auto verified = verify(folder / "c/test").lines;
    EXPECT_EQ(said.empty(), opened.empty());
    EXPECT_EQ(verified.empty(), opened.empty());
    if (opened.empty()) return said;
    EXPECT_EQ("2 " + verified.at(0), opened);
    const std::string begin = concat("2 ", (folder / "c/test").string(), ": field "), end = ", as in ";
    EXPECT_EQ(opened.substr(0, begin.size()), begin);
    return opened.substr(begin.size(), opened.find(end) - begin.size());
  };
  EXPECT_EQ(problem(number, text), R"("age": text U8 [n]; expected "age": number F32 [])");
  EXPECT_EQ(problem(pair, three), R"("age": number F32 [3]; expected "age": number F32 [2])");
  EXPECT_EQ(problem(labels({"cat", "dog"}), labels({"dog", "cat"})), R"("age": label 0 is "dog"; expected "cat")");
  EXPECT_EQ(problem(labels({"cat", "dog"}), labels({"cat"})), R"("age": label 1 is none; expected "dog")");
  for (const auto& [train, test] : {std::pair{number, whole}, {list, pair}, {pair, list}, {number, other}})
    EXPECT_EQ(problem(train, test), "");
}

TEST(ClassTableTest, AnotherSplitThatCannotBeReadIsNoReasonToRefuse) {
  const TemporaryFolder folder;
  for (const char* split : {"train", "test"}) pack_letters(folder.path(), split, {"a", "c"});
  testing_data::write_bytes(folder / "train/manifest.json", std::string("{"));
  EXPECT_EQ(Dataset::open(folder.path(), "test")->size(), 4u);
  EXPECT_THAT(error_of([&] { pack_letters(folder.path(), "test", {"a", "c"}); }), HasSubstr("train/manifest.json"));
}

TEST(ClassTableTest, OtherNamesOfTestAreTaken) {
  const TemporaryFolder folder;
  pack_letters(folder.path(), "test", {"a"});
  for (const char* name : {"test", "val", "valid", "validation"})
    EXPECT_EQ(Dataset::open(folder.path(), name)->manifest().split, "test");
}

}  // namespace
}  // namespace penstock
