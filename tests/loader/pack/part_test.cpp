// Parts: together they have the bytes of one packing, whoever makes them and however often; and only what belongs
// together is merged.
#include "loader/pack/part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "loader/pack/codebook_file.h"
#include "loader/pack/list.h"
#include "loader/pack/merge.h"
#include "loader/pack/pack.h"
#include "loader/shards/dataset.h"
#include "tests/loader/make_source.h"
#include "tests/loader/raster_source.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using testing_data::Bytes;
using testing_data::error_of;
using testing_data::files_below;
using testing_data::make_source;
using testing_data::names_in;
using testing_data::TemporaryFolder;
using testing_data::write_bytes;
namespace fs = std::filesystem;

/// Pictures of all kinds, of which `broken_count` are cut off.
PackOptions pictures(const TemporaryFolder& folder, const std::string& out, int broken_count = 0) {
  testing_data::write_pictures(folder / "in");
  Bytes cut = testing_data::golden_picture("jpeg 420").file;
  cut.resize(cut.size() / 2);
  for (int i = 0; i < broken_count; ++i) write_bytes(folder / "in/a" / ("cut" + std::to_string(i) + ".jpg"), cut);
  auto options = testing_data::pictures(folder);
  options.output = folder / out;
  options.shard_count = 6;
  options.skip_corrupt = broken_count > 0;
  options.storage.encode = Encode::kCoefficients;
  return options;
}

void pack_part(PackOptions options, int index, int count) {
  options.part = PackPart{index, count};
  pack(options);
}

void pack_parts(const PackOptions& options, int count) {
  for (int index = 0; index < count; ++index) pack_part(options, index, count);
}

void merge(const PackOptions& options, bool force = false) {
  merge_parts({.output = options.output, .split = options.split, .force = force});
}

TEST(PartTest, PartsHaveTheBytesOfOnePackingForAnyNumberOfThem) {
  const TemporaryFolder folder;
  for (const int64_t seed : {-1, 3}) {
    auto options = pictures(folder, "one", 9);
    options.shuffle_seed = seed;
    options.force = true;
    pack(options);
    const auto expected = files_below(folder / "one");
    EXPECT_EQ(expected.size(), 8u);  // 6 shards, the manifest, what was left out
    for (const int count : {1, 2, 4, 6}) {
      options.output = folder / "parts";
      pack_parts(options, count);
      merge(options, true);
      EXPECT_EQ(files_below(folder / "parts"), expected) << count << " parts, seed " << seed;
      EXPECT_EQ(names_in(folder / "parts"), std::vector<std::string>{"train"});
    }
  }
}

TEST(PartTest, APartOfBrokenPicturesAloneIsAPart) {
  const TemporaryFolder folder;
  auto options = pictures(folder, "one", 1);
  fs::remove_all(folder / "in/b");
  options.shard_count = 5;  // as many as pictures in class a, so that one shard has only the broken one
  pack(options);
  const auto expected = files_below(folder / "one");
  options.output = folder / "parts";
  pack_parts(options, 5);
  merge(options);
  EXPECT_EQ(files_below(folder / "parts"), expected);
}

TEST(PartTest, AFinishedPartIsLeftAsItIsAndReadsNoPicture) {
  const TemporaryFolder folder;
  const auto options = pictures(folder, "out");
  pack_part(options, 1, 3);
  const auto before = files_below(folder / "out");
  const auto time = fs::last_write_time(folder / "out/.train.parts/part-1.json");
  PackOptions again = options;
  again.part = PackPart{1, 3};
  PackProgress last;
  pack(again, [&](const PackProgress& progress) { last = progress; });
  EXPECT_EQ(last.reused_count, last.total_count);
  EXPECT_EQ(last.done_count, 4u);  // of 13 pictures in 6 shards: those of shards 1 and 4
  EXPECT_EQ(files_below(folder / "out"), before);
  EXPECT_EQ(fs::last_write_time(folder / "out/.train.parts/part-1.json"), time);
}

TEST(PartTest, HalfAPartIsFinishedByTheNextTry) {
  const TemporaryFolder folder;
  auto options = pictures(folder, "one");
  pack(options);
  const auto expected = files_below(folder / "one");
  options.output = folder / "out";
  options.part = PackPart{0, 2};
  // Killed after its shards, before it was published: nothing says that they count.
  pack(options);
  const auto parts = folder / "out/.train.parts";
  const std::string attempt = detail::read_part(parts / "part-0.json").folder;
  fs::remove(parts / "part-0.json");
  write_bytes(parts / attempt / "shard-00000-of-00006.safetensors", std::string("half"));
  write_bytes(parts / ("." + attempt + ".partial") / "split/shard-00000-of-00006.safetensors", std::string("half"));
  options.part.reset();
  pack_parts(options, 2);
  merge(options);
  EXPECT_EQ(files_below(folder / "out"), expected);
}

TEST(PartTest, TwoAttemptsAtOnceGiveOnePart) {
  const TemporaryFolder folder;
  auto options = pictures(folder, "one");
  pack(options);
  const auto expected = files_below(folder / "one");
  options.output = folder / "out";
  std::vector<std::thread> attempts;
  std::atomic<int> failed{0};
  for (int i = 0; i < 8; ++i) {
    attempts.emplace_back([&, i] {
      if (!error_of([&] { pack_part(options, i % 2, 2); }).empty()) ++failed;
    });
  }
  for (auto& attempt : attempts) attempt.join();
  EXPECT_EQ(failed, 0);
  std::vector<std::string> links;
  for (const auto& name : names_in(folder / "out/.train.parts"))
    if (name.ends_with(".json")) links.push_back(name);
  EXPECT_EQ(links, (std::vector<std::string>{"part-0.json", "part-1.json"}));
  EXPECT_EQ(names_in(folder / "out/.train.parts").size(), 5u);  // two folders, two links, the codebook
  merge(options);
  EXPECT_EQ(files_below(folder / "out"), expected);
}

TEST(PartTest, ACodebookFromAFileIsThatWhichIsTrained) {
  const TemporaryFolder folder;
  auto options = pictures(folder, "one");
  pack(options);
  const auto expected = files_below(folder / "one");
  write_codebook(*make_source("image-folder", folder / "in"), options.storage, 1, folder / "codebook");
  options.codebook = folder / "codebook";
  options.output = folder / "out";
  pack_parts(options, 2);
  EXPECT_THAT(names_in(folder / "out/.train.parts"), testing::Not(testing::Contains(StartsWith("codebook"))));
  merge(options);
  EXPECT_EQ(files_below(folder / "out"), expected);
  options.storage.encode = Encode::kKeep;
  EXPECT_THAT(error_of([&] { pack(options); }), HasSubstr("with encode keep, which stores no coefficients; expected"));
  options.storage.encode = Encode::kAuto;
  options.output = folder / "other";
  write_bytes(folder / "codebook", std::string("no codebook"));
  EXPECT_THAT(error_of([&] { pack(options); }), AllOf(StartsWith("4 "), HasSubstr("codebook: ")));
}

std::string merge_error(const PackOptions& options) {
  return error_of([&] { merge(options); });
}

TEST(PartTest, WhatDoesNotBelongTogetherIsNotMerged) {
  const TemporaryFolder folder;
  const auto options = pictures(folder, "out");
  const fs::path parts = folder / "out/.train.parts";
  EXPECT_THAT(merge_error(options), AllOf(StartsWith("3 "), HasSubstr("no finished part of split train; expected")));
  pack_part(options, 0, 4);
  pack_part(options, 2, 4);
  EXPECT_THAT(merge_error(options), AllOf(StartsWith("2 "), HasSubstr(": parts 1, 3 of 4 are not finished; expected"),
                                          HasSubstr("--part 1/4")));
  pack_part(options, 3, 4);
  EXPECT_THAT(merge_error(options), HasSubstr(": part 1 of 4 is not finished; expected"));

  auto other = options;
  other.storage.encode = Encode::kAuto;
  pack_part(other, 1, 4);
  EXPECT_THAT(merge_error(options), AllOf(HasSubstr("part-1.json: storage is encode=auto"),
                                          HasSubstr(", and that of part-0.json is encode=coef"),
                                          HasSubstr("; expected parts of one data set")));
  EXPECT_THAT(error_of([&] { pack_part(options, 1, 4); }),
              AllOf(StartsWith("2 "), HasSubstr("part-1.json: is part 1/4 of a packing with another source or other "
                                                "options; expected that of this one, or --force")));
  other = options;
  other.force = true;
  other.shard_count = 8;
  pack_part(other, 1, 4);
  EXPECT_THAT(merge_error(options), HasSubstr("part-1.json: is of other pictures or options than part-0.json"));
  other.shard_count = options.shard_count;
  pack_part(other, 1, 3);
  EXPECT_THAT(merge_error(options), HasSubstr("part-1.json: is one of 3 parts, and part-0.json is one of 4"));
  pack_part(other, 1, 4);
  fs::copy_file(parts / "part-1.json", parts / "part-1 copy.json");
  EXPECT_THAT(merge_error(options), AllOf(StartsWith("2 "), HasSubstr("is part 1, as "), HasSubstr("only once")));
  fs::remove(parts / "part-1 copy.json");

  const auto shard = parts / detail::read_part(parts / "part-1.json").folder / "shard-00001-of-00006.safetensors";
  const Bytes whole = testing_data::read_bytes(shard);
  write_bytes(shard, Bytes(whole.begin(), whole.end() - 1));
  EXPECT_THAT(merge_error(options), AllOf(StartsWith("4 "), HasSubstr("bytes; expected ")));
  fs::remove(shard);
  EXPECT_THAT(merge_error(options), AllOf(StartsWith("3 "), HasSubstr("expected a shard of that part")));
  write_bytes(shard, whole);
  EXPECT_FALSE(fs::exists(folder / "out/train"));
  merge(options);
  EXPECT_THAT(merge_error(options), HasSubstr("exists already"));
}

TEST(PartTest, APartFileThatIsNoneIsRefused) {
  const TemporaryFolder folder;
  const auto options = pictures(folder, "out");
  pack_parts(options, 1);
  const auto link = folder / "out/.train.parts/part-0.json";
  const auto text = nlohmann::json::parse(testing_data::read_bytes(link));
  for (const auto& [key, value] : std::vector<std::pair<std::string, nlohmann::json>>{
           {"folder", "../../x"}, {"folder", ".x"}, {"index", 1}, {"index", -1}, {"tally", "x"}, {"tally", {1, 2}}}) {
    auto changed = text;
    changed[key] = value;
    write_bytes(link, changed.dump());
    EXPECT_THAT(merge_error(options), AllOf(StartsWith("4 "), HasSubstr("expected to remove it and to pack that part")))
        << key << value;
  }
  write_bytes(link, std::string("{"));
  EXPECT_THAT(merge_error(options), StartsWith("4 "));
}

TEST(PartTest, WrongPartsAreRefusedBeforeAnythingIsWritten) {
  const TemporaryFolder folder;
  const auto options = pictures(folder, "out");
  EXPECT_EQ(error_of([&] { pack_part(options, 4, 4); }), "2 pack: part is 4/4; expected 0/N to N-1/N");
  EXPECT_EQ(error_of([&] { pack_part(options, -1, 4); }), "2 pack: part is -1/4; expected 0/N to N-1/N");
  EXPECT_THAT(error_of([&] { pack_part(options, 0, 7); }),
              HasSubstr("one of 7 with shards 6; expected as many shards"));
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(PartTest, PartsWithRowsOfTheirOwnAreMergedByTheNamesOfTheirAttempts) {
  const TemporaryFolder folder;
  PackOptions options = testing_data::digits(folder / "out", 20, 2);
  for (const auto& [index, attempt] : std::vector<std::pair<int, std::string>>{{7, "b"}, {2, "a"}, {2, "lost"}}) {
    options.part = PackPart{index, 0, attempt};
    pack(options);
  }
  MergeOptions merge{.output = folder / "out", .attempts = {"part-7.b", "part-2.lost", "part-2.a"}};
  EXPECT_THAT(error_of([&] { merge_parts(merge); }), HasSubstr("is part 2, as "));
  merge.attempts.pop_back();
  merge_parts(merge);
  const auto dataset = Dataset::open(folder / "out");
  ASSERT_EQ(dataset->size(), 40u);
  EXPECT_EQ(dataset->shard_count(), 4);
  EXPECT_EQ(dataset->at(0).id, uint64_t{2} << 32);
  EXPECT_EQ(dataset->at(39).id, (uint64_t{7} << 32) + 19);
  const auto whole = read_manifest(folder / "out/train");
  options = testing_data::digits(folder / "half", 20, 2);
  pack(options);
  const auto half = read_manifest(folder / "half/train");
  EXPECT_EQ(whole.statistics.mean, half.statistics.mean);  // the same 20 digits twice
  EXPECT_EQ(whole.statistics.deviation, half.statistics.deviation);
  options.part = PackPart{0, 0, "../x"};
  EXPECT_THAT(error_of([&] { pack(options); }), HasSubstr("pack: attempt is \"../x\"; expected"));
}

TEST(PartTest, PartsOfDifferentPicturesNameTheFirstThatDiffers) {
  const TemporaryFolder folder;
  PackOptions options = testing_data::raster_options(folder / "out", PixelType::kU8);
  MergeOptions merge{.output = folder / "out", .attempts = {}};
  for (const int channels : {5, 6}) {
    const auto sample = testing_data::raster_sample(PixelType::kU8, {4, 4, channels}, 1);
    options.part = PackPart{channels, 0, "a"};
    pack(testing_data::RasterSource({sample, sample}), "rasters", options);
    merge.attempts.push_back("part-" + std::to_string(channels) + ".a");
  }
  const std::string shard = "/part-6.a/shard-00000-of-00003.safetensors: id " + std::to_string(uint64_t{6} << 32);
  EXPECT_THAT(error_of([&] { merge_parts(merge); }),
              AllOf(HasSubstr(shard + ": pictures have "), HasSubstr("expected all of one kind")));
}

TEST(PartTest, AShardThatDoesNotOpenIsNotMergedAndNoPartIsLost) {
  const TemporaryFolder folder;
  const auto options = pictures(folder, "out");
  pack_parts(options, 2);
  const auto before = files_below(folder / "out");
  for (const auto& [name, bytes] : before) {
    if (name.find("shard-00003") == std::string::npos) continue;
    Bytes damaged = bytes;
    std::fill_n(damaged.begin(), 20, uint8_t{0xFF});
    write_bytes(folder / "out" / name, damaged);
  }
  EXPECT_NE(error_of([&] { merge(options); }), "");
  EXPECT_FALSE(fs::exists(folder / "out/train"));
  EXPECT_EQ(files_below(folder / "out").size(), before.size());
}

TEST(PartTest, WhatPartsWithRowsOfTheirOwnLeaveOutHasIdsOfItsOwn) {
  const TemporaryFolder folder;
  PackOptions options = pictures(folder, "out", 1);
  options.shard_count = 1;
  for (const int index : {0, 3}) {
    options.part = PackPart{index, 0, "a"};
    pack(options);
  }
  merge_parts({.output = folder / "out", .attempts = {"part-0.a", "part-3.a"}});
  const auto lines = testing_data::read_bytes(folder / "out/train/skipped.jsonl");
  const std::string text(lines.begin(), lines.end());
  const auto second = text.find('\n') + 1;
  ASSERT_EQ(text.find('\n', second), text.size() - 1) << text;
  const auto id_in = [&](size_t begin) { return std::stoull(text.substr(text.find(':', begin) + 1)); };
  EXPECT_EQ(id_in(second), id_in(0) + (uint64_t{3} << 32)) << text;
}

/// The bytes of a data set that is packed from a list.
std::map<std::string, Bytes> packed_from_list(const TemporaryFolder& folder, PackOptions options) {
  options.output = folder / "listed";
  options.force = true;
  const auto head = read_list_head(folder / "list");
  pack(*read_list(folder / "list", {}), head.source, options);
  return files_below(folder / "listed");
}

TEST(ListTest, WhatIsListedIsPackedAsItWouldBe) {
  const TemporaryFolder folder;
  const auto options = pictures(folder, "one", 2);
  pack(options);
  write_list(*make_source("image-folder", folder / "in"), {"image-folder", "train", folder / "in"}, folder / "list");
  EXPECT_EQ(packed_from_list(folder, options), files_below(folder / "one"));
  auto digits = testing_data::digits(folder / "digits", 30, 2);
  pack(digits);
  write_list(*make_source(digits.source), {digits.source, "train", {}}, folder / "list");
  EXPECT_EQ(packed_from_list(folder, digits), files_below(folder / "digits"));
}

TEST(ListTest, AListThatIsBrokenIsRefusedWithItsLine) {
  const TemporaryFolder folder;
  pictures(folder, "one");
  write_list(*make_source("image-folder", folder / "in"), {"image-folder", "train", folder / "in"}, folder / "list");
  const Bytes bytes = testing_data::read_bytes(folder / "list");
  const std::string text(bytes.begin(), bytes.end());
  const auto error = [&](const std::string& changed) {
    write_bytes(folder / "list", changed);
    return error_of([&] { read_list(folder / "list", {}); });
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    return changed.replace(changed.find(from), from.size(), to);
  };
  EXPECT_EQ(error(text), "");
  EXPECT_THAT(error(""), AllOf(StartsWith("4 "), HasSubstr("no penstock_list 1 in the first line; expected")));
  EXPECT_THAT(error("{}\n"), HasSubstr("no penstock_list"));
  EXPECT_THAT(error(text.substr(0, text.rfind('\n', text.size() - 2) + 1)), HasSubstr("12 samples; expected 13"));
  EXPECT_THAT(error(text.substr(0, text.size() - 5)), HasSubstr("list: line 14: "));
  EXPECT_THAT(error(text + std::string(size_t{1} << 26, ' ')), HasSubstr("list: line 15: more than 67108863 bytes"));
  EXPECT_THAT(error(with("\"a/", "\"../")), AllOf(HasSubstr("line 2: path is \"../"), HasSubstr("below the input")));
  EXPECT_THAT(error(with("\"a/", "\"/")), HasSubstr("line 2: path is \"/"));
  EXPECT_THAT(error(with("\"label\":0", "\"label\":2")), HasSubstr("line 2: label is 2; expected 0 to 1"));
  EXPECT_THAT(error(with("\"label\":0", "\"label\":\"a\"")), HasSubstr("line 2: has no label, or one of another type"));
  EXPECT_THAT(error(with("\"split\":\"train\"", "\"split\":\"x\"")), HasSubstr("line 1: split is \"x\""));
  write_bytes(folder / "list", text);
  const auto listed = read_list(folder / "list", {});
  write_bytes(listed->where(0), std::string("longer than it was") + std::string(100000, 'x'));
  EXPECT_THAT(error_of([&] { listed->read(0); }),
              testing::AnyOf(HasSubstr("as in the list"), HasSubstr("expected at")));
}

}  // namespace
}  // namespace penstock
