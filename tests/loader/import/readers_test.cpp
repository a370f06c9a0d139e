// Readers of foreign formats: what they give, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "core/text.h"
#include "loader/codecs/npy.h"
#include "loader/import/json_records.h"
#include "loader/import/picture_formats.h"
#include "loader/import/table.h"
#include "loader/import/tar.h"
#include "loader/import/tar_writer.h"
#include "loader/import/xml.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_data::Bytes;
using testing_data::error_of;
using testing_data::from_hex;
using testing_data::read_bytes;
using testing_data::TemporaryFolder;
using testing_data::write_bytes;

Bytes text_bytes(const std::string& text) { return {text.begin(), text.end()}; }

// tar

/// The archive that TarWriter makes of two members.
Bytes two_members() {
  const TemporaryFolder folder;
  detail::TarWriter tar(folder / "x.tar");
  tar.add("a/1.txt", text_bytes("one"));
  tar.add("a/2.bin", Bytes(600, 7));
  tar.finish();
  return read_bytes(folder / "x.tar");
}

std::vector<std::string> members_of(const Bytes& archive) {
  std::vector<std::string> members;
  detail::for_each_member(archive, "x.tar", [&](const detail::TarMember& member) {
    members.push_back(concat(member.path, " ", member.offset, " ", member.size));
  });
  return members;
}

TEST(TarTest, MembersAreThoseThatWereWritten) {
  EXPECT_THAT(members_of(two_members()), ElementsAre("a/1.txt 512 3", "a/2.bin 1536 600"));
}

TEST(TarTest, EveryArchiveThatIsCutShortIsRefused) {
  const Bytes whole = two_members();
  for (size_t size = 0; size < 2560; size += 97)  // where the second member ends
    EXPECT_THAT(error_of([&] {
                  members_of({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
                }),
                HasSubstr("4 x.tar: byte "))
        << size;
}

TEST(TarTest, AWholeLastMemberNeedsNoEnd) {
  const Bytes whole = two_members();
  for (const ptrdiff_t size : {2560, 2561, 3072, 3583, 3584}) {
    std::vector<std::string> paths;
    const bool has_end =
        detail::for_each_member(Bytes{whole.begin(), whole.begin() + size}, "x.tar",
                                [&](const detail::TarMember& member) { paths.push_back(member.path); });
    EXPECT_THAT(paths, ElementsAre("a/1.txt", "a/2.bin")) << size;
    EXPECT_EQ(has_end, size == 3584) << size;
  }
}

TEST(TarTest, EveryChangedByteOfAHeaderIsNoticed) {
  const Bytes whole = two_members();
  for (size_t i = 0; i < 500; i += 7) {
    if (i >= 148 && i < 156) continue;  // the checksum itself, in whose spelling a space or zero may change
    Bytes changed = whole;
    changed[i] ^= 1;
    EXPECT_THAT(error_of([&] { members_of(changed); }), HasSubstr("the checksum of the header is ")) << i;
  }
}

// npy

TEST(NpyTest, AnArrayComesBack) {
  std::vector<float> values(6);
  std::iota(values.begin(), values.end(), 0.5F);
  const std::span<const uint8_t> data(reinterpret_cast<const uint8_t*>(values.data()), 24);
  for (const auto& shape : std::vector<std::vector<int64_t>>{{6}, {2, 3}, {3, 1, 2}}) {
    const Bytes file = detail::npy_file({Dtype::kF32, shape, data});
    EXPECT_EQ(file.size() % 64, 24U);
    const auto array = detail::parse_npy(file);
    EXPECT_EQ(array.dtype, Dtype::kF32);
    EXPECT_EQ(array.shape, shape);
    EXPECT_TRUE(std::equal(array.data.begin(), array.data.end(), data.begin(), data.end()));
  }
}

TEST(NpyTest, WhatIsNoPlainArrayIsRefused) {
  const auto with_header = [](const std::string& header) {
    Bytes file{0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<uint8_t>(header.size()), 0};
    file.insert(file.end(), header.begin(), header.end());
    file.resize(file.size() + 16);
    return error_of([&] { detail::parse_npy(file); });
  };
  EXPECT_EQ(with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }"), "");
  EXPECT_THAT(with_header("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }"), HasSubstr("which is a pickle"));
  EXPECT_THAT(with_header("{'descr': '>f8', 'fortran_order': False, 'shape': (2,), }"), HasSubstr("little-endian"));
  EXPECT_THAT(with_header("{'descr': '<f8', 'fortran_order': True, 'shape': (1, 2), }"), HasSubstr("Fortran"));
  EXPECT_THAT(with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }"), HasSubstr("24 by its shape"));
  EXPECT_THAT(with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-2,), }"), HasSubstr("numbers from 0"));
  EXPECT_THAT(with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"),
              HasSubstr("beyond 64 bits"));
  EXPECT_THAT(with_header("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,), }"),
              HasSubstr("a plain dtype"));
}

// Lists

TEST(TableTest, CsvIsThatOfRfc4180) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.csv", std::string("\xEF\xBB\xBF"
                                            "a,\"b,c\"\r\n1,\"two \"\"2\"\"\nlines\"\r\n\r\n,\n3,4"));
  const auto table = detail::open_csv(folder / "x.csv", ',');
  EXPECT_THAT(table->columns(), ElementsAre("a", "b,c"));
  ASSERT_EQ(table->size(), 3U);
  EXPECT_EQ(table->row(0), (nlohmann::json{{"a", "1"}, {"b,c", "two \"2\"\nlines"}}));
  EXPECT_EQ(table->row(1), (nlohmann::json{{"a", ""}, {"b,c", ""}}));
  EXPECT_EQ(table->row(2), (nlohmann::json{{"a", "3"}, {"b,c", "4"}}));
  EXPECT_THAT(table->where(2), HasSubstr("x.csv: line 6"));
}

TEST(TableTest, JsonLinesAreObjects) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.jsonl", std::string("{\"a\": 1}\n\n{\"a\": 2}\n[3]\n{\"a\": 1, \"a\": 2}\n"));
  const auto table = detail::open_json_lines(folder / "x.jsonl");
  EXPECT_EQ(table->row(1), (nlohmann::json{{"a", 2}}));
  EXPECT_THAT(error_of([&] { table->row(2); }), HasSubstr("line 4: [3]; expected a JSON object"));
  EXPECT_THAT(error_of([&] { table->row(3); }), HasSubstr("line 5: key \"a\" occurs twice"));
}

// JSON records

TEST(JsonRecordsTest, RecordsAreTheObjectsInTheArraysOfTheRoot) {
  std::vector<std::string> seen;
  const auto see = [&](const std::string& key, const nlohmann::json& record) { seen.push_back(key + record.dump()); };
  detail::for_each_record(
      R"({"info": {"x": [{"no": 1}]}, "a": [{"b": [1, {"c": 2}]}, {}], "n": 3, "z": [5, [{}], {}], "d": [{"e": 1}]})",
      "x.json", {"a", "d", "none"}, see);
  EXPECT_THAT(seen, ElementsAre(R"(a{"b":[1,{"c":2}]})", "a{}", R"(d{"e":1})"));
  for (const char* text : {"[1]", "{\"a\": [", "{\"a\": 1, \"a\": 2}", "3", "{\"a\": [{\"b\": 1, \"b\": 1}]}"})
    EXPECT_THAT(error_of([&] { detail::for_each_record(text, "x.json", {}, see); }), HasSubstr("4 x.json: ")) << text;
  const std::string deep = "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_THAT(error_of([&] { detail::for_each_record(deep, "x.json", {}, see); }), HasSubstr("nested deeper than 16"));
}

TEST(JsonRecordsTest, WhatIsNoListOfObjectsIsRefused) {
  const auto see = [](const std::string&, const nlohmann::json&) {};
  for (const auto& [text, found] :
       std::vector<std::pair<std::string, std::string>>{{R"({"a": {"b": 1}})", "is an object"},
                                                        {R"({"a": 5})", "is 5"},
                                                        {R"({"a": null})", "is null"},
                                                        {R"({"a": [{}, 5]})", "has 5"},
                                                        {R"({"a": [[{}]]})", "has a list"}})
    EXPECT_THAT(error_of([&] { detail::for_each_record(text, "x.json", {"a"}, see); }),
                HasSubstr(concat("4 x.json: \"a\" ", found, "; expected a list of objects")));
}

// XML

TEST(XmlTest, ElementsAndTheirText) {
  const auto root = detail::parse_xml(text_bytes("<a><b x='1'> one &amp; 2 </b><c/><b>3</b></a>"));
  EXPECT_EQ(root.name, "a");
  EXPECT_EQ(root.children.size(), 3U);
  EXPECT_EQ(root.child("b")->text, "one & 2");
  EXPECT_EQ(root.child("d"), nullptr);
}

TEST(XmlTest, EntitiesAreNeverDeclared) {
  EXPECT_THAT(error_of([] { detail::parse_xml(text_bytes("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>")); }),
              HasSubstr("a document type"));
  EXPECT_THAT(error_of([] { detail::parse_xml(text_bytes("<!DOCTYPE a SYSTEM \"/etc/passwd\"><a/>")); }),
              HasSubstr("a document type"));
}

// Pictures

TEST(ForeignPictureTest, AHeaderThatLiesIsRefusedBeforeAllocation) {
  // A GIF of 60,000 x 4,000 pixels in 25 bytes, whose pixels would take 720 MB.
  const Bytes gif = from_hex("47494638396160eaa00f0000002c0000000060eaa00f000800");
  const auto* format = detail::foreign_format_of(gif);
  ASSERT_NE(format, nullptr);
  EXPECT_THAT(error_of([&] { format->decode(gif, kMaxPixels); }),
              HasSubstr("picture of 4000 x 60000 pixels in 25 bytes; expected a file that can hold them"));
  EXPECT_THAT(error_of([&] { format->decode(gif, 1000); }), HasSubstr("expected at most 1000 pixels"));
}

/// A BMP of the header of 40 bytes, with a palette of two colours, 010203 and 0A0B0C.
Bytes small_bmp(int32_t width, int32_t height, int bits, uint32_t compression, const std::string& pixels_hex) {
  Bytes file{'B', 'M'};
  const auto add = [&](uint32_t number, int byte_count) {
    for (int i = 0; i < byte_count; ++i) file.push_back(static_cast<uint8_t>(number >> 8 * i));
  };
  for (const uint32_t number : {0U, 0U, 62U, 40U, static_cast<uint32_t>(width), static_cast<uint32_t>(height)})
    add(number, 4);
  add(1, 2);
  add(static_cast<uint32_t>(bits), 2);
  for (const uint32_t number : {compression, 0U, 0U, 0U, 2U, 0U, 0x010203U, 0x0A0B0CU}) add(number, 4);
  const Bytes pixels = from_hex(pixels_hex);
  file.insert(file.end(), pixels.begin(), pixels.end());
  return file;
}

Bytes decoded(const Bytes& file) { return detail::foreign_format_of(file)->decode(file, kMaxPixels).pixels; }

TEST(BmpTest, WhatRunsMoveOverAndLeaveOutIsColorZero) {
  // Top down: one pixel of colour 1, the end of the row, a move by 2 to the right, and one pixel more.
  const Bytes pixels = decoded(small_bmp(3, -2, 8, 1, "010100000002020001010001"));
  const Bytes zero{1, 2, 3}, one{10, 11, 12};
  Bytes expected;
  for (const auto& color : {one, zero, zero, zero, zero, one})
    expected.insert(expected.end(), color.begin(), color.end());
  EXPECT_EQ(pixels, expected);
}

TEST(BmpTest, AColorThatThePaletteLacksIsRefused) {
  EXPECT_THAT(error_of([] { decoded(small_bmp(1, 1, 8, 0, "02000000")); }),
              HasSubstr("4 BMP: a pixel has color 2, and the palette has 2; expected a whole BMP picture"));
  EXPECT_THAT(error_of([] { decoded(small_bmp(2, 1, 4, 2, "02130001")); }), HasSubstr("a pixel has color 3"));
}

TEST(BmpTest, RunsThatLeaveThePictureAreRefused) {
  for (const auto& [pixels, message] :
       std::map<std::string, std::string>{{"000003", "the coded pixels are cut short"},
                                          {"0003010101000001", "row 0 has coded pixels to column 3 of 2"},
                                          {"0002030001010001", "the coded pixels leave the picture"},
                                          {"0002000201010001", "the coded pixels leave the picture"},
                                          {"02010001", "the coded pixels end in row 0 of 2"}})
    EXPECT_THAT(error_of([&] { decoded(small_bmp(2, 2, 8, 1, pixels)); }), HasSubstr(message)) << pixels;
}

TEST(BmpTest, EveryFileThatIsCutShortIsRefused) {
  for (const auto& whole : {small_bmp(3, 2, 1, 0, "A000000040"), small_bmp(2, 2, 24, 0, "0102030405060000010203040506"),
                            small_bmp(2, 2, 8, 1, "020100000200"), small_bmp(1, 1, 16, 0, "FF7F")}) {
    decoded(whole);
    for (size_t size = 2; size < whole.size(); ++size)
      EXPECT_THAT(error_of([&] {
                    decoded({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
                  }),
                  HasSubstr("4 BMP: "))
          << size;
  }
}

TEST(PnmTest, WhatIsNoWholePictureIsRefused) {
  for (const auto& [file, message] :
       std::map<std::string, std::string>{{"P5 2 2 255\nabc", "PNM: 3 bytes of levels; at least 4 are needed"},
                                          {"P2 2 1 9\n1 12", "PNM: a level of 12 above the maximum of 9"},
                                          {"P2 2 1 9\n1 x9", "PNM: byte 11 is no digit"},
                                          {"P1 2 1\n12", "PNM: byte 8 is neither 0 nor 1"},
                                          {"P5 2 1 0\nab", "PNM: a maximum of 0"},
                                          {"P6 2 1 65536\nabcdef", "PNM: a maximum of 65536"},
                                          {"P4 70000 1\n", "picture of 1 x 70000 pixels"},
                                          {"P3 2 1 9\n1 2 3 4 5", "bytes, which are cut short"},
                                          {"P5 2", "PNM: 4 bytes, which are cut short"}})
    EXPECT_THAT(error_of([&] { decoded(text_bytes(file)); }), HasSubstr(message)) << file;
}

}  // namespace
}  // namespace penstock
