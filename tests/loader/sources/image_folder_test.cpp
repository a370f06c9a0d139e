// image-folder: which files are samples, which folders are splits, and which classes a data set has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/text.h"
#include "tests/loader/make_source.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing_data::Bytes;
using testing_data::error_of;
using testing_data::error_of_source;
using testing_data::golden_picture;
using testing_data::make_source;
using testing_data::TemporaryFolder;
using testing_data::write_bytes;
namespace fs = std::filesystem;

const Bytes& png() { return golden_picture("png rgb").file; }
const Bytes& jpeg() { return golden_picture("jpeg grey").file; }

std::vector<std::string> listing(const Source& source) {
  std::vector<std::string> lines;
  for (uint64_t i = 0; i < source.size(); ++i)
    lines.push_back(source.class_names().at(static_cast<size_t>(source.label(i))) + " " +
                    fs::path(source.where(i)).filename().string());
  return lines;
}

TEST(ImageFolderTest, ClassesAndFilesAreSorted) {
  const TemporaryFolder folder;
  for (const char* name : {"dog/b.png", "dog/a.jpg", "cat/z.png", "cat/deep/a.png", "Zebra/1.jpg"})
    write_bytes(folder / name, png());
  write_bytes(folder / ".cache/x.png", png());
  for (const char* split : {"train", "all"}) {
    const auto source = make_source("image-folder", folder.path(), split);
    EXPECT_EQ(source->class_names(), (std::vector<std::string>{"Zebra", "cat", "dog"}));
    EXPECT_EQ(listing(*source),
              (std::vector<std::string>{"Zebra 1.jpg", "cat a.png", "cat z.png", "dog a.jpg", "dog b.png"}));
  }
  EXPECT_THAT(
      error_of_source("image-folder", folder.path(), "test"),
      testing::AllOf(StartsWith("3 "), HasSubstr("no folder for split test; expected test, val, valid or validation")));
}

TEST(ImageFolderTest, SplitsHaveFoldersOfTheirOwn) {
  for (const char* test_name : {"test", "val", "valid", "validation"}) {
    const TemporaryFolder folder;
    write_bytes(folder / "train/b/1.png", png());
    write_bytes(folder.path() / test_name / "b/2.png", png());
    EXPECT_EQ(listing(*make_source("image-folder", folder.path())), std::vector<std::string>{"b 1.png"});
    EXPECT_EQ(listing(*make_source("image-folder", folder.path(), "test")), std::vector<std::string>{"b 2.png"});
    EXPECT_EQ(listing(*make_source("image-folder", folder.path(), "all")),
              (std::vector<std::string>{"b 1.png", "b 2.png"}));
  }
}

TEST(ImageFolderTest, ALabelMeansTheSameInEverySplit) {
  const TemporaryFolder folder;
  for (const char* name : {"train/a/1.png", "train/b/2.png", "train/c/3.png", "val/a/4.png", "val/c/5.png"})
    write_bytes(folder / name, png());
  fs::create_directories(folder / "val/.cache");
  const std::vector<std::string> classes{"a", "b", "c"};
  for (const char* split : {"train", "test", "all"})
    EXPECT_EQ(make_source("image-folder", folder.path(), split)->class_names(), classes) << split;
  EXPECT_EQ(make_source("image-folder", folder.path(), "test")->label(1), 2);
  const std::string lacking = make_source("image-folder", folder.path(), "test")->fingerprint();
  write_bytes(folder / "train/0/6.png", png());
  const auto test = make_source("image-folder", folder.path(), "test");
  EXPECT_EQ(test->label(1), 3);
  EXPECT_NE(test->fingerprint(), lacking);  // no file of the split has changed, but its labels have
}

TEST(ImageFolderTest, AClassThatTrainLacksIsNamed) {
  const TemporaryFolder folder;
  for (const char* name : {"train/a/1.png", "train/c/2.png", "val/a/3.png", "val/b/4.png", "val/d/5.png"})
    write_bytes(folder / name, png());
  EXPECT_EQ(error_of_source("image-folder", folder.path()),
            concat("3 ", (folder / "val/b").string(), ": a class that ", (folder / "train").string(),
                   " lacks (and 1 more); expected pictures of it there too, or no such folder"));
  const std::vector<std::string> classes{"a", "b", "c", "d"};
  for (const char* split : {"test", "all"})  // the model of split all is trained with pictures of all four
    EXPECT_EQ(make_source("image-folder", folder.path(), split)->class_names(), classes) << split;
  write_bytes(folder / "test/a/6.png", png());  // now val is not split test, unless it is chosen
  EXPECT_EQ(make_source("image-folder", folder.path())->class_names(), (std::vector<std::string>{"a", "c"}));
  EXPECT_THAT(error_of_source("image-folder(test=val)", folder.path()), HasSubstr("val/b: a class that "));
}

TEST(ImageFolderTest, SplitsWithoutClassFoldersAreOfOneClass) {
  const TemporaryFolder folder;
  for (const char* name : {"train/1.png", "val/2.png"}) write_bytes(folder / name, png());
  for (const char* split : {"train", "test", "all"})
    EXPECT_EQ(make_source("image-folder", folder.path(), split)->class_names(), std::vector<std::string>{"train"});
  write_bytes(folder / "train/a/3.png", png());  // val has no labels, which is no reason to refuse train
  fs::remove(folder / "train/1.png");
  EXPECT_EQ(make_source("image-folder", folder.path())->class_names(), std::vector<std::string>{"a"});
  EXPECT_EQ(make_source("image-folder", folder.path(), "test")->class_names(), (std::vector<std::string>{"a", "val"}));
}

TEST(ImageFolderTest, AFlatFolderIsOneClass) {
  const TemporaryFolder folder;
  write_bytes(folder / "flowers/2.png", png());
  write_bytes(folder / "flowers/1.png", png());
  const auto source = make_source("image-folder", folder / "flowers", "all");
  EXPECT_EQ(listing(*source), (std::vector<std::string>{"flowers 1.png", "flowers 2.png"}));
}

TEST(ImageFolderTest, ContentDecidesNotTheName) {
  const TemporaryFolder folder;
  write_bytes(folder / "c/1.jpg", png());
  write_bytes(folder / "c/2.PNG", jpeg());
  write_bytes(folder / "c/3", png());
  write_bytes(folder / "c/notes.txt", std::string("not a picture"));
  write_bytes(folder / "c/4.jpg", std::string("RIFF99"));
  write_bytes(folder / "c/5.jpeg", Bytes{});
  const auto source = make_source("image-folder", folder.path());
  ASSERT_EQ(source->size(), 5u);
  EXPECT_EQ(source->ignored().count, 1u);
  EXPECT_EQ(source->read(0).encoding, Encoding::kPng);
  EXPECT_EQ(source->read(1).encoding, Encoding::kJpeg);
  EXPECT_EQ(source->read(1).bytes, jpeg());
  EXPECT_EQ(source->read(1).extent, (Extent{9, 13, 1}));
  EXPECT_EQ(source->read(2).encoding, Encoding::kPng);
  EXPECT_THAT(error_of([&] { source->read(3); }),
              testing::AllOf(StartsWith("4 "), HasSubstr("c/4.jpg: 6 bytes that begin with")));
  EXPECT_THAT(error_of([&] { source->read(4); }), HasSubstr("c/5.jpeg: 0 bytes"));
}

TEST(ImageFolderTest, NothingIsPassedOverInSilence) {
  using Make = std::function<void(const fs::path&)>;
  const std::vector<Make> makes{[](const fs::path& path) { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); },
                                [](const fs::path& path) { fs::create_symlink("nowhere", path); },
                                [](const fs::path& path) { fs::create_symlink(path.filename(), path); }};
  for (const auto& make : makes) {
    const TemporaryFolder folder;
    write_bytes(folder / "c/1.png", png());
    make(folder / "c/2");
    EXPECT_EQ(make_source("image-folder", folder.path())->ignored().count, 1u);
    make(folder / "c/3.jpg");
    EXPECT_THAT(error_of_source("image-folder", folder.path()),
                testing::AllOf(StartsWith("3 "), HasSubstr("c/3.jpg: no regular file; expected a picture")));
  }
}

TEST(ImageFolderTest, LinkedFoldersInsideOfAClassAreFollowed) {
  const TemporaryFolder folder;
  for (const char* name : {"in/cat/1.png", "in/dog/deep/1.png", "more/2.png", "more/sub/3.png"})
    write_bytes(folder / name, png());
  for (const char* link : {"in/cat/a", "in/cat/b"}) fs::create_directory_symlink("../../more", folder / link);
  fs::create_directory_symlink("../cat", folder / "in/dog/cats");  // which leads to `more` again
  EXPECT_EQ(listing(*make_source("image-folder", folder / "in")),
            (std::vector<std::string>{"cat 1.png", "cat 2.png", "cat 3.png", "cat 2.png", "cat 3.png", "dog 1.png",
                                      "dog 2.png", "dog 3.png", "dog 2.png", "dog 3.png", "dog 1.png"}));
  EXPECT_EQ(make_source("image-folder", folder / "in")->path(1), "cat/a/2.png");
}

TEST(ImageFolderTest, ALinkToAFolderThatItLiesInIsRefused) {
  for (const char* target : {".", "..", "../..", "../deep"}) {
    const TemporaryFolder folder;
    write_bytes(folder / "in/c/deep/1.png", png());
    fs::create_directory_symlink(target, folder / "in/c/deep/loop");
    EXPECT_THAT(error_of_source("image-folder", folder / "in"),
                testing::AllOf(StartsWith("3 "), HasSubstr("in which it lies; expected links to other folders")))
        << target;
  }
}

TEST(ImageFolderTest, WhatIsIgnoredIsNamed) {
  const TemporaryFolder folder;
  write_bytes(folder / "c/1.png", png());
  for (int i = 0; i < 7; ++i) write_bytes(folder / ("c/" + std::to_string(i) + ".txt"), std::string("no picture"));
  const std::string text = make_source("image-folder", folder.path())->ignored().text();
  EXPECT_THAT(text, testing::AllOf(StartsWith("7 files ignored (no pictures, or outside of class folders): c/"),
                                   testing::EndsWith(".txt and 2 more")));
}

TEST(ImageFolderTest, AClassWithoutPicturesIsRefusedButInTest) {
  const TemporaryFolder folder;
  for (const char* name : {"train/a/1.png", "train/c/2.png", "test/a/3.png"}) write_bytes(folder / name, png());
  write_bytes(folder / "train/b/notes.txt", std::string("not a picture"));
  fs::create_directories(folder / "test/c");
  EXPECT_THAT(error_of_source("image-folder", folder.path()),
              testing::AllOf(StartsWith("3 "), HasSubstr("train/b: a class folder without pictures; expected one")));
  fs::create_directories(folder / "train/d");
  EXPECT_THAT(error_of_source("image-folder", folder.path()),
              HasSubstr("train/b: a class folder without pictures (and 1 "
                        "more); expected one"));
  EXPECT_EQ(make_source("image-folder", folder.path(), "test")->class_names(),
            (std::vector<std::string>{"a", "b", "c", "d"}));
  for (const char* name : {"b", "d"}) fs::remove_all(folder / "train" / name);
  for (const char* split : {"test", "all"})
    EXPECT_EQ(make_source("image-folder", folder.path(), split)->class_names(), (std::vector<std::string>{"a", "c"}));
}

TEST(ImageFolderTest, ASplitHasOneFolder) {
  const TemporaryFolder folder;
  for (const char* name : {"train/a/1.png", "test/a/2.png", "val/a/3.png"}) write_bytes(folder / name, png());
  EXPECT_EQ(make_source("image-folder", folder.path())->size(), 1u);
  for (const char* split : {"test", "all"}) {
    EXPECT_THAT(
        error_of_source("image-folder", folder.path(), split),
        testing::AllOf(StartsWith("2 "), HasSubstr("has both test and val; expected one folder for split test")));
  }
  EXPECT_EQ(listing(*make_source("image-folder(test=val)", folder.path(), "test")),
            std::vector<std::string>{"a 3.png"});
  EXPECT_THAT(error_of_source("image-folder(test=dev)", folder.path(), "test"),
              testing::AllOf(StartsWith("3 "), HasSubstr("no folder for split test; expected dev in it")));
}

TEST(ImageFolderTest, AClassThatIsCalledAsASplitIsRefused) {
  for (const char* name : {"train", "all"}) {
    const TemporaryFolder folder;
    for (const char* other : {"plane", "car"}) write_bytes(folder.path() / other / "1.png", png());
    write_bytes(folder.path() / name / "2.png", png());
    EXPECT_THAT(error_of_source("image-folder", folder.path(), name),
                testing::AllOf(StartsWith("2 "), HasSubstr(std::string("has folders ") + name + " and ")));
    for (const char* other : {"test=..", "test=train", "test=a/b"}) {
      EXPECT_THAT(error_of_source(std::string("image-folder(") + other + ")", folder.path()),
                  testing::AllOf(StartsWith("2 "), HasSubstr("expected the name of a folder beside train")));
    }
    for (const char* other : {"plane", "car"}) {  // a folder without pictures is neither a class nor a split
      fs::remove_all(folder / other);
      write_bytes(folder.path() / other / "notes.txt", std::string("not a picture"));
    }
    fs::create_directory_symlink(".", folder / "loop");
    write_bytes(folder / ".cache/1.png", png());
    EXPECT_EQ(make_source("image-folder", folder.path(), name)->size(), 1u);
  }
}

TEST(ImageFolderTest, FoldersOfSplitsMayLieSideBySide) {
  const TemporaryFolder folder;
  for (const char* name : {"train/a/1.png", "all/a/1.png", "all/b/2.png"}) write_bytes(folder / name, png());
  EXPECT_EQ(make_source("image-folder", folder.path())->size(), 1u);
  EXPECT_EQ(make_source("image-folder", folder.path(), "all")->size(), 2u);
}

TEST(ImageFolderTest, FilesBesideClassesAreCounted) {
  const TemporaryFolder folder;
  for (const char* name :
       {"cat/1.png", "cat/._1.png", "dog/1.png", "beside.png", ".hidden/deep/1.png", ".hidden/2.png"})
    write_bytes(folder / name, png());
  fs::create_symlink("nowhere", folder / "link");
  const auto source = make_source("image-folder", folder.path());
  EXPECT_EQ(source->size(), 2u);
  EXPECT_EQ(source->ignored().count, 4u);  // the hidden folder counts as one
}

}  // namespace
}  // namespace penstock
