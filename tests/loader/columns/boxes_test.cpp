// The columns `boxes`, `keypoints` and `mask`: they follow the plan of their row, and what is left out is left out of
// all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "augment/targets/on_picture.h"
#include "loader/batch/digest.h"
#include "loader/batch/loader.h"
#include "loader/pack/pack.h"
#include "tests/loader/columns/object_source.h"
#include "tests/loader/storage_test_data.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_data::error_of;
using testing_data::ObjectSource;

constexpr const char* kAll = "boxes(with=kinds:corners:shapes),mask(field=segmentation)";
constexpr const char* kAugment = "random-resized-crop(size=24),flip,affine(degrees=15,fill=0),vflip(p=0.3)";

class ObjectColumnsTest : public testing::Test {
 protected:
  ObjectColumnsTest() : dataset_(packed(ObjectSource(24))) {}

  std::shared_ptr<const Dataset> packed(const ObjectSource& source) {
    pack(source, "memory", {.output = folder_.path(), .shard_count = 2, .jobs = 1, .force = true});
    return Dataset::open(folder_.path());
  }

  Loader loader(const std::string& columns, const std::string& augment, int workers = 0) const {
    LoaderOptions options;
    options.batch_size = 8;
    options.workers = workers;
    options.columns = columns;
    options.layout = Layout::kU8Nhwc;
    options.seed = 5;
    return Loader(dataset_, Pipeline(augment, dataset_->manifest().statistics), options);
  }

  template <class See>
  static void each_row(Loader loader, const See& see) {
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      loader.start_epoch(epoch);
      while (const auto batch = loader.next())
        for (int64_t row = 0; row < batch->count(); ++row) see(*batch, row);
    }
  }

  template <class Element>
  static std::vector<Element> row_of(const Batch& batch, const std::string& name, int64_t row) {
    const size_t number = batch.column_number(name), row_bytes = batch.columns()[number].row_bytes();
    std::vector<Element> values(row_bytes / sizeof(Element));
    std::memcpy(values.data(), batch.column(number).data() + static_cast<size_t>(row) * row_bytes, row_bytes);
    return values;
  }

  std::string error_with(const std::string& columns, const std::string& augment = "") const {
    return error_of([&] { each_row(loader(columns, augment), [](const Batch&, int64_t) {}); });
  }

  const testing_data::TemporaryFolder folder_;
  std::shared_ptr<const Dataset> dataset_;
};

TEST_F(ObjectColumnsTest, WithoutTransformsTheyAreWhatWasPacked) {
  size_t box_count = 0;
  each_row(loader(kAll, ""), [&](const Batch& batch, int64_t row) {
    const uint64_t id = batch.ids()[static_cast<size_t>(row)];
    const auto boxes = ObjectSource::boxes_of(id);
    box_count += boxes.size();
    EXPECT_THAT(row_of<int64_t>(batch, "boxes.count", row), ElementsAre(static_cast<int64_t>(boxes.size())));
    const auto shares = row_of<float>(batch, "boxes.share", row);
    const auto given = row_of<Box>(batch, "boxes", row);
    const auto kinds = row_of<int64_t>(batch, "boxes.kinds", row);
    ASSERT_EQ(given.size(), 3U);  // the most that a sample has
    for (size_t b = 0; b < 3; ++b) {
      EXPECT_EQ(given[b], b < boxes.size() ? boxes[b] : Box{});
      EXPECT_EQ(shares[b], b < boxes.size() ? 1 : 0);
      EXPECT_EQ(kinds[b], b < boxes.size() ? static_cast<int64_t>(10 * id + b) : 0);
    }
    EXPECT_EQ(row_of<uint8_t>(batch, "segmentation", row), ObjectSource::levels_of(id));
  });
  EXPECT_EQ(box_count, 3U * (6 * (0 + 1 + 2 + 3)));
}

TEST_F(ObjectColumnsTest, ARowWithMoreThanMostKeepsTheLargestAndCountsTheOthers) {
  const auto area = [](const Box& box) { return (box.x1 - box.x0) * (box.y1 - box.y0); };
  int64_t dropped = 0;
  each_row(loader("boxes(with=kinds,most=1,over=largest)", ""), [&](const Batch& batch, int64_t row) {
    const auto boxes = ObjectSource::boxes_of(batch.ids()[static_cast<size_t>(row)]);
    const int64_t count = row_of<int64_t>(batch, "boxes.count", row)[0];
    const int64_t left_out = row_of<int64_t>(batch, "boxes.dropped", row)[0];
    EXPECT_EQ(count + left_out, static_cast<int64_t>(boxes.size()));
    dropped += left_out;
    if (boxes.empty()) return;
    const int64_t index = row_of<int64_t>(batch, "boxes.index", row)[0];
    const Box& kept = boxes[static_cast<size_t>(index)];
    for (const Box& box : boxes) EXPECT_LE(area(box), area(kept));
    EXPECT_EQ(row_of<Box>(batch, "boxes", row)[0], kept);
    EXPECT_EQ(row_of<int64_t>(batch, "boxes.kinds", row)[0] % 10, index);
  });
  EXPECT_EQ(dropped, 3 * (6 * (1 + 2)));
  EXPECT_THAT(error_with("boxes(most=1)"), HasSubstr("or over=largest, which keeps the largest"));
  EXPECT_THAT(error_with("boxes(over=first)"), HasSubstr("expected error or largest"));
}

TEST_F(ObjectColumnsTest, OneListOfIndicesLeavesOutBoxesLabelsPointsAndMasks) {
  size_t left_out = 0, mirrored = 0;
  each_row(loader("boxes(with=kinds:corners:shapes,min-share=0.3)", kAugment), [&](const Batch& batch, int64_t row) {
    const uint64_t id = batch.ids()[static_cast<size_t>(row)];
    const auto count = static_cast<size_t>(row_of<int64_t>(batch, "boxes.count", row)[0]);
    const auto all = ObjectSource::boxes_of(id);
    left_out += all.size() - count;
    const auto boxes = row_of<Box>(batch, "boxes", row);
    const auto index = row_of<int64_t>(batch, "boxes.index", row), kinds = row_of<int64_t>(batch, "boxes.kinds", row);
    const auto shares = row_of<float>(batch, "boxes.share", row);
    const auto corners = row_of<std::array<float, 3>>(batch, "boxes.corners", row);
    const auto shapes = row_of<std::array<uint8_t, 24 * 24>>(batch, "boxes.shapes", row);
    for (size_t k = 0; k < count; ++k) {
      EXPECT_EQ(kinds[k], static_cast<int64_t>(10 * id) + index[k]);
      EXPECT_GE(shares[k], 0.3F - 1e-6F);
      // Corners and pixels lie in the box that has their number, or next to it.
      for (size_t c = 4 * k; c < 4 * k + 4; ++c) {
        if (corners[c][2] == 0) continue;
        EXPECT_GE(corners[c][0], boxes[k].x0 - 1e-3F);
        EXPECT_LE(corners[c][0], boxes[k].x1 + 1e-3F);
        EXPECT_GE(corners[c][1], boxes[k].y0 - 1e-3F);
        EXPECT_LE(corners[c][1], boxes[k].y1 + 1e-3F);
      }
      // Where the picture is mirrored, the upper left corner comes from the upper right one.
      const auto &a = corners[4 * k], &b = corners[4 * k + 1], &c = corners[4 * k + 2];
      const float turn = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
      EXPECT_GT(turn, 0);
      mirrored += a[1] > c[1];  // vflip
      for (size_t pixel = 0; pixel < shapes[k].size(); ++pixel) {
        if (shapes[k][pixel] == 0) continue;
        const auto x = static_cast<float>(pixel % 24), y = static_cast<float>(pixel / 24);
        EXPECT_TRUE(x >= boxes[k].x0 - 1 && x <= boxes[k].x1 && y >= boxes[k].y0 - 1 && y <= boxes[k].y1);
      }
    }
    for (size_t k = count; k < 3; ++k) {
      EXPECT_EQ(boxes[k], Box{});
      EXPECT_EQ(kinds[k], 0);
      EXPECT_EQ(std::count(shapes[k].begin(), shapes[k].end(), 0), 24 * 24);
    }
  });
  EXPECT_GT(left_out, 10U);
  EXPECT_GT(mirrored, 10U);
}

TEST_F(ObjectColumnsTest, APolygonAndRunsOfTheSameBoxAreTheSameMask) {
  ObjectSource both(8);
  both.spoil = [](uint64_t id, SourceSample& sample) {
    const auto boxes = ObjectSource::boxes_of(id);
    std::vector<InstanceMask> shapes;
    for (const auto& box : boxes) shapes.push_back({.runs = testing_data::runs_of_box(box, 30, 40)});
    sample.fields[3] = pack_instances(shapes);
  };
  const auto shapes_of = [&] {
    std::vector<std::vector<uint8_t>> shapes;
    each_row(loader("boxes(with=shapes)", "flip,resize(height=60,width=80,filter=nearest)"),
             [&](const Batch& batch, int64_t row) { shapes.push_back(row_of<uint8_t>(batch, "boxes.shapes", row)); });
    return shapes;
  };
  dataset_ = packed(ObjectSource(8));
  const auto polygons = shapes_of();
  dataset_ = packed(both);
  EXPECT_EQ(shapes_of(), polygons);
  EXPECT_GT(std::count(polygons.back().begin(), polygons.back().end(), 1) +
                std::count(polygons.front().begin(), polygons.front().end(), 1),
            0);
}

TEST_F(ObjectColumnsTest, AMaskShowsThePixelsThatThePictureShows) {
  for (const char* augment : {"crop(size=24,pad=4,fill=255),flip,rotate(degrees=90,fill=255)",
                              "resize(height=24,width=20,filter=nearest),flip,crop(pad=4,border=reflect)"}) {
    each_row(loader("mask(field=segmentation)", augment), [&](const Batch& batch, int64_t row) {
      const auto pixels = row_of<uint8_t>(batch, "images", row), mask = row_of<uint8_t>(batch, "segmentation", row);
      ASSERT_EQ(mask, pixels) << augment;
    });
  }
  each_row(loader("mask(field=segmentation,dtype=i32,column=wide),mask(field=segmentation)", kAugment),
           [&](const Batch& batch, int64_t row) {
             const auto wide = row_of<int32_t>(batch, "wide", row);
             const auto mask = row_of<uint8_t>(batch, "segmentation", row);
             ASSERT_TRUE(std::equal(wide.begin(), wide.end(), mask.begin(), mask.end()));
           });
}

TEST_F(ObjectColumnsTest, APictureThatLiesOnItsSideHasTheFieldsOfTheUprightOne) {
  const auto rows_of = [&](int orientation) {
    ObjectSource source(8);
    source.orientation = orientation;
    dataset_ = packed(source);
    std::vector<std::vector<uint8_t>> rows;
    each_row(loader(kAll, "random-resized-crop(size=24,filter=nearest),flip"), [&](const Batch& batch, int64_t row) {
      EXPECT_EQ(row_of<uint8_t>(batch, "segmentation", row), row_of<uint8_t>(batch, "images", row)) << orientation;
      for (const char* name : {"boxes", "boxes.kinds", "boxes.corners", "boxes.shapes"})
        rows.push_back(row_of<uint8_t>(batch, name, row));
    });
    return rows;
  };
  const auto upright = rows_of(1);
  for (int orientation = 2; orientation <= 8; ++orientation) {
    const auto rows = rows_of(orientation);
    ASSERT_EQ(rows.size(), upright.size());
    size_t differing = 0, bytes = 0;  // but for rounding: the maps are not the same numbers
    for (size_t i = 0; i < rows.size(); ++i)
      for (size_t k = 0; k < rows[i].size(); ++k, ++bytes) differing += rows[i][k] != upright[i][k];
    EXPECT_LT(differing, bytes / 200) << orientation;
  }
}

TEST_F(ObjectColumnsTest, AreTheSameForAnyNumberOfWorkers) {
  const auto digest_of = [&](int workers) {
    Digest digest;
    auto batches = loader(kAll, std::string(kAugment) + ",erase", workers);
    batches.start_epoch(1);
    while (const auto batch = batches.next()) digest.add(*batch);
    return digest.hex();
  };
  EXPECT_EQ(digest_of(0), digest_of(3));
}

TEST_F(ObjectColumnsTest, AColumnOfAViewFollowsItsPlan) {
  constexpr const char* kOther = "resize(height=10,width=14),vflip(p=1)";  // draws nothing that matters
  LoaderOptions options;
  options.batch_size = 8, options.layout = Layout::kU8Nhwc, options.seed = 5;
  options.views = {kAugment, kOther};
  options.columns = "mask(field=segmentation),boxes,mask(field=segmentation,view=2),boxes(view=2)";
  Loader both(dataset_, Pipeline(kAugment, dataset_->manifest().statistics), options);
  Loader other = loader("mask(field=segmentation),boxes", kOther), first = loader("boxes", kAugment);
  both.start_epoch(1), other.start_epoch(1), first.start_epoch(1);
  while (const auto batch = both.next()) {
    const auto second = other.next(), images = first.next();
    const auto same = [](const Batch& a, const std::string& name, const Batch& b, const std::string& other_name) {
      const auto left = a.column(a.column_number(name)), right = b.column(b.column_number(other_name));
      return std::equal(left.begin(), left.end(), right.begin(), right.end());
    };
    EXPECT_TRUE(same(*batch, "view2.segmentation", *second, "segmentation"));
    EXPECT_TRUE(same(*batch, "view2.boxes", *second, "boxes"));
    EXPECT_TRUE(same(*batch, "view2.boxes.count", *second, "boxes.count"));
    EXPECT_TRUE(same(*batch, "boxes", *images, "boxes"));
  }
  options.columns = "boxes(view=3)";
  EXPECT_THAT(error_of([&] { Loader(dataset_, Pipeline(kAugment, dataset_->manifest().statistics), options); }),
              HasSubstr("2 column boxes(view=3): view is 3; expected 0 to 2, the number of a view"));
  options.columns = "boxes(view=one)";
  EXPECT_THAT(error_of([&] { Loader(dataset_, Pipeline(kAugment, dataset_->manifest().statistics), options); }),
              HasSubstr("view is \"one\"; expected a whole number"));
}

TEST_F(ObjectColumnsTest, ACropByBoxesIsDrawnFromTheBoxesOfTheSample) {
  const std::string augment = "random-iou-crop(iou=0.1:0.3),resize(height=24,width=24)";
  size_t cropped = 0, of_others = 0;
  each_row(loader("boxes(center=true)", augment), [&](const Batch& batch, int64_t row) {
    const auto all = ObjectSource::boxes_of(batch.ids()[static_cast<size_t>(row)]);
    const auto count = row_of<int64_t>(batch, "boxes.count", row)[0];
    if (all.empty()) {
      EXPECT_EQ(count, 0);
      return;
    }
    EXPECT_GE(count, 1);  // the crop has the middle of a box
    ++cropped;
    of_others += static_cast<size_t>(count) < all.size();
  });
  EXPECT_EQ(cropped, 3U * 18);
  EXPECT_GT(of_others, 5U);
  EXPECT_THAT(error_with("", "random-iou-crop(field=kinds)"),
              HasSubstr("field \"kinds\" is of kind labels; expected boxes"));
  EXPECT_THAT(error_with("", "random-iou-crop(field=other)"), HasSubstr("field \"other\""));
}

TEST_F(ObjectColumnsTest, RefusesInOneLineWhatItCannotGive) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"boxes(field=kinds)", "field \"kinds\" is of kind labels; expected boxes"},
      {"mask(field=boxes)", "field \"boxes\" is of kind boxes; expected mask"},
      {"boxes(with=segmentation)", "field \"segmentation\" in with= belongs to no boxes; expected one of \"boxes\""},
      {"boxes(min-share=2)", "min-share is 2; expected 0 to 1"},
      {"boxes(most=0)", "most is 0; expected 1 to"},
      {"boxes(most=1)", "objects are left; expected most="},
      {"mask", "no field; expected field=FIELD"},
      {"mask(field=segmentation,dtype=f32)", "dtype is \"f32\"; expected u8, u16 or i32"}};
  for (const auto& [columns, message] : wrong) {
    const std::string error = error_with(columns);
    EXPECT_THAT(error, HasSubstr(message)) << columns;
    EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 0) << error;
  }
  for (const char* mix : {"mixup", "cutmix"})
    for (const char* columns : {"boxes", "mask(field=segmentation)"})
      EXPECT_THAT(error_with(columns, mix), HasSubstr("mix the pixels of two rows; expected one of the two"));
}

TEST_F(ObjectColumnsTest, PackingRefusesMasksThatAreNotOfTheirBoxes) {
  const auto error_after = [&](const std::function<void(SourceSample&)>& change) {
    ObjectSource source(8);
    source.spoil = [&](uint64_t id, SourceSample& sample) {
      if (id == 3) change(sample);
    };
    return error_of([&] { packed(source); });
  };
  EXPECT_THAT(error_after([](SourceSample& s) { s.fields[3] = pack_instances({}); }),
              HasSubstr("field \"shapes\": 0 masks; expected 3, one for each of \"boxes\""));
  EXPECT_THAT(error_after([](SourceSample& s) {
                const std::vector<InstanceMask> shapes(3, {.runs = {5, 5}});
                s.fields[3] = pack_instances(shapes);
              }),
              HasSubstr("field \"shapes\": mask 0: runs add up to 10; expected the 1200 pixels of the picture"));
  EXPECT_THAT(error_after([](SourceSample& s) { s.fields[4].resize(s.fields[4].size() / 2); }),
              HasSubstr("field \"segmentation\": PNG: "));
  EXPECT_THAT(error_after([](SourceSample& s) {
                s.fields[4] = detail::write_png(std::vector<uint8_t>(31 * 40), {31, 40, 1});
              }),
              HasSubstr("field \"segmentation\": a mask of 31 x 40; expected 30 x 40, as the picture has"));
}

}  // namespace
}  // namespace penstock
