// make_sheet(): one batch of a loader, or batches of one row from many epochs.
#include "loader/look/sheet.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/text.h"
#include "loader/codecs/png_writer.h"
#include "loader/look/target_drawer.h"

namespace penstock {
namespace {

constexpr int kGap = 2;  // pixels between cells
constexpr int kMaxSide = 1000;
constexpr uint8_t kWhite = 255;

void check(const Dataset& dataset, const SheetOptions& options) {
  if (dataset.size() == 0) throw config_error(concat(dataset.folder().string(), ": 0 samples; expected 1 or more"));
  for (const auto& [name, count] : {std::pair{"rows", options.rows}, {"columns", options.columns}})
    if (count < 1 || count > kMaxSide)
      throw config_error(concat("sheet: ", name, " is ", count, "; expected 1 to ", kMaxSide));
  if (options.epoch < 0) throw config_error(concat("sheet: epoch is ", options.epoch, "; expected 0 or more"));
  if (options.sample && *options.sample >= dataset.size())
    throw config_error(concat("sheet: sample is ", *options.sample, "; expected 0 to ", dataset.size() - 1));
}

/// Shows the first 3 channels of a raster, or the first one if it has fewer than 3.
Extent visible_extent(const Extent& rendered) {
  return {rendered.height, rendered.width, rendered.channels >= 3 ? 3 : 1};
}

/// Makes a white sheet for cells of extent `cell`.
Sheet empty_sheet(const Extent& cell, const SheetOptions& options) {
  constexpr int64_t kMaxPixels = int64_t{1} << 28;
  const int64_t height = int64_t{options.rows} * (cell.height + kGap) - kGap;
  const int64_t width = int64_t{options.columns} * (cell.width + kGap) - kGap;
  if (height * width > kMaxPixels)
    throw config_error(concat("sheet: ", options.rows, " x ", options.columns, " cells of ", cell.height, " x ",
                              cell.width, " pixels; expected at most ", kMaxPixels, " pixels altogether"));
  Sheet sheet;
  sheet.extent = {static_cast<int>(height), static_cast<int>(width), cell.channels};
  sheet.pixels.assign(static_cast<size_t>(height * width) * cell.channels, kWhite);
  return sheet;
}

/// One channel of a raster, from 0 for its least level to 255 for its greatest; what is not finite is 0.
template <class Level>
void stretch(const std::byte* from, size_t count, size_t step, size_t to_step, uint8_t* to) {
  const auto level_at = [&](size_t i) {
    Level level;
    std::memcpy(&level, from + i * step * sizeof level, sizeof level);
    return static_cast<double>(level);
  };
  double least = 0, greatest = 0;
  bool is_first = true;
  for (size_t i = 0; i < count; ++i) {
    const double level = level_at(i);
    if (!std::isfinite(level)) continue;
    least = is_first ? level : std::min(least, level);
    greatest = is_first ? level : std::max(greatest, level);
    is_first = false;
  }
  const double scale = greatest > least ? 255 / (greatest - least) : 0;
  for (size_t i = 0; i < count; ++i) {
    const double level = level_at(i);
    to[i * to_step] = std::isfinite(level) ? static_cast<uint8_t>(std::lround((level - least) * scale)) : 0;
  }
}

/// The pixels of row i as u8 with 1 or 3 channels: as they are or, of a raster, its first channels, each stretched.
std::vector<uint8_t> visible_pixels(const Batch& batch, int64_t i) {
  const Extent cell = visible_extent(batch.extent());
  const size_t count = static_cast<size_t>(cell.height) * static_cast<size_t>(cell.width);
  const auto channels = static_cast<size_t>(batch.extent().channels), shown = static_cast<size_t>(cell.channels);
  const size_t row_bytes = count * channels * element_bytes(batch.layout());
  const std::byte* const from = batch.pixels().data() + static_cast<size_t>(i) * row_bytes;
  std::vector<uint8_t> pixels(count * shown);
  if (batch.layout() == Layout::kU8Nhwc && channels == shown) {
    std::memcpy(pixels.data(), from, row_bytes);
    return pixels;
  }
  for (size_t c = 0; c < shown; ++c) {
    const std::byte* const channel = from + c * element_bytes(batch.layout());
    if (batch.layout() == Layout::kU8Nhwc) stretch<uint8_t>(channel, count, channels, shown, &pixels[c]);
    if (batch.layout() == Layout::kU16Nhwc) stretch<uint16_t>(channel, count, channels, shown, &pixels[c]);
    if (batch.layout() == Layout::kF32Nhwc) stretch<float>(channel, count, channels, shown, &pixels[c]);
  }
  return pixels;
}

/// Puts the rows of `batch` into the next cells. A grey picture on a sheet with colours has three equal levels.
void add(const Batch& batch, int columns, const detail::TargetDrawer& drawer, Sheet& sheet) {
  const auto [height, width, channels] = visible_extent(batch.extent());
  const int sheet_channels = sheet.extent.channels, copies = sheet_channels / channels;
  const size_t row_bytes = size_t{1} * width * channels,
               sheet_row_bytes = size_t{1} * sheet.extent.width * sheet_channels;
  for (int64_t i = 0; i < batch.count(); ++i) {
    const std::vector<uint8_t> pixels = visible_pixels(batch, i);
    const uint8_t* from = pixels.data();
    const size_t cell = sheet.labels.size(), row = cell / columns, column = cell % columns;
    uint8_t* to =
        sheet.pixels.data() + row * (height + kGap) * sheet_row_bytes + column * (width + kGap) * sheet_channels;
    for (int y = 0; y < height; ++y, from += row_bytes)
      for (size_t k = 0; k < row_bytes; ++k) std::fill_n(to + y * sheet_row_bytes + k * copies, copies, from[k]);
    if (!drawer.is_empty()) drawer.draw(batch, i, {to, static_cast<ptrdiff_t>(sheet_row_bytes), height, width});
    sheet.labels.push_back(batch.labels()[i]);
    sheet.ids.push_back(batch.ids()[i]);
  }
}

/// Empty where rows are mixed, which moves the pixels of two samples into one row.
detail::TargetDrawer drawer_for(const Dataset& dataset, const Pipeline& pipeline, const Extent& cell) {
  const bool mixes = pipeline.batch_mix().kind != BatchMix::Kind::kNone;
  return mixes ? detail::TargetDrawer() : detail::TargetDrawer(dataset, cell);
}

}  // namespace

std::vector<uint8_t> Sheet::png() const { return detail::write_png(pixels, extent); }

Sheet make_sheet(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline, const SheetOptions& options) {
  check(*dataset, options);
  const int64_t cells = int64_t{options.rows} * options.columns;
  LoaderOptions loading;
  loading.batch_size = options.sample ? 1 : std::min<int64_t>(cells, static_cast<int64_t>(dataset->size()));
  loading.shuffle = options.sample ? Shuffle::kNone : options.shuffle;
  loading.prefetch = 1;
  loading.seed = options.seed;
  loading.layout = own_layout(dataset->manifest().pixels);
  Extent cell = visible_extent(Loader(dataset, pipeline, loading).extent());
  const detail::TargetDrawer drawer = drawer_for(*dataset, pipeline, cell);
  if (!drawer.is_empty()) {
    loading.columns = drawer.columns();
    loading.batch_size = 1;  // instance masks take much memory per picture
    cell.channels = 3;
  }
  const int64_t cell_count = options.sample ? cells : std::min<int64_t>(cells, static_cast<int64_t>(dataset->size()));
  Loader loader(std::move(dataset), pipeline, loading);
  Sheet sheet = empty_sheet(cell, options);
  if (!options.sample) loader.start_epoch(options.epoch);
  for (int64_t i = 0; static_cast<int64_t>(sheet.labels.size()) < cell_count; ++i) {
    if (options.sample) loader.start_epoch(options.epoch + i, static_cast<int64_t>(*options.sample));
    add(*loader.next(), options.columns, drawer, sheet);
  }
  return sheet;
}

}  // namespace penstock
