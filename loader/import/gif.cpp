// decode_gif() and gif_numbers() by giflib.
#include "loader/import/gif.h"

#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <memory>

namespace penstock::detail {
namespace {

constexpr const char* kExpected = "; expected a GIF with a whole first frame";

struct Reader {
  std::span<const uint8_t> rest;
};

int read_bytes(GifFileType* file, GifByteType* out, int count) {
  auto& rest = static_cast<Reader*>(file->UserData)->rest;
  const size_t given = std::min(rest.size(), static_cast<size_t>(std::max(count, 0)));
  std::copy_n(rest.begin(), given, out);
  rest = rest.subspan(given);
  return static_cast<int>(given);
}

struct CloseGif {
  void operator()(GifFileType* file) const { DGifCloseFile(file, nullptr); }
};
using GifFile = std::unique_ptr<GifFileType, CloseGif>;

[[noreturn]] void give_up(const std::string& fact) { throw corrupt_error(concat("GIF: ", fact, kExpected)); }

void check(bool is_good, const GifFile& file) {
  if (is_good) return;
  const char* const message = GifErrorString(file->Error);
  give_up(message != nullptr ? message : "cannot be read");
}

/// Goes on to the first frame, whose description is read.
void find_frame(const GifFile& file) {
  for (;;) {
    GifRecordType type;
    check(DGifGetRecordType(file.get(), &type) == GIF_OK, file);
    if (type == IMAGE_DESC_RECORD_TYPE) return check(DGifGetImageDesc(file.get()) == GIF_OK, file);
    if (type == TERMINATE_RECORD_TYPE) give_up("no frame");
    GifByteType* extension = nullptr;
    int code = 0;
    check(DGifGetExtension(file.get(), &code, &extension) == GIF_OK, file);
    while (extension != nullptr) check(DGifGetExtensionNext(file.get(), &extension) == GIF_OK, file);
  }
}

/// The rows of the frame in the order in which the file has them.
std::vector<int> rows_of(const GifImageDesc& frame) {
  std::vector<int> rows;
  if (!frame.Interlace) {
    for (int row = 0; row < frame.Height; ++row) rows.push_back(row);
    return rows;
  }
  constexpr std::array<std::pair<int, int>, 4> kPasses{{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};  // first row, step
  for (const auto& [first, step] : kPasses)
    for (int row = first; row < frame.Height; row += step) rows.push_back(row);
  return rows;
}

void put_color(const ColorMapObject* colors, int index, uint8_t* pixel) {
  if (colors == nullptr || index >= colors->ColorCount)
    give_up(concat("a pixel has color ", index, ", which the palette lacks"));
  const GifColorType& color = colors->Colors[index];
  pixel[0] = color.Red;
  pixel[1] = color.Green;
  pixel[2] = color.Blue;
}

/// Opens the file, goes to the first frame and checks its size.
GifFile open_gif(Reader& reader, int64_t max_pixels) {
  const auto bytes = reader.rest;
  int code = 0;
  GifFile file(DGifOpen(&reader, read_bytes, &code));
  if (!file) give_up(GifErrorString(code) != nullptr ? GifErrorString(code) : "cannot be read");
  find_frame(file);
  const GifImageDesc& frame = file->Image;
  const int height = file->SHeight, width = file->SWidth;
  check_claim(height, width, bytes, max_pixels);
  if (frame.Left < 0 || frame.Top < 0 || frame.Width < 1 || frame.Height < 1 || frame.Left + frame.Width > width ||
      frame.Top + frame.Height > height)
    give_up(concat("the first frame has ", frame.Height, " x ", frame.Width, " pixels at ", frame.Top, ", ", frame.Left,
                   " of a screen of ", height, " x ", width));
  return file;
}

/// Calls put(pixel's place on the screen, number) for each pixel of the frame.
template <class Put>
void read_frame(const GifFile& file, const Put& put) {
  const GifImageDesc& frame = file->Image;
  std::vector<GifPixelType> line(static_cast<size_t>(frame.Width));
  for (const int row : rows_of(frame)) {
    check(DGifGetLine(file.get(), line.data(), frame.Width) == GIF_OK, file);
    size_t place = static_cast<size_t>(frame.Top + row) * static_cast<size_t>(file->SWidth) + frame.Left;
    for (const GifPixelType number : line) put(place++, number);
  }
}

bool covers_screen(const GifFile& file) {
  return file->Image.Width == file->SWidth && file->Image.Height == file->SHeight;
}

}  // namespace

ForeignPicture decode_gif(std::span<const uint8_t> bytes, int64_t max_pixels) {
  Reader reader{bytes};
  const GifFile file = open_gif(reader, max_pixels);
  const int height = file->SHeight, width = file->SWidth;
  ForeignPicture picture{.extent = {height, width, 3},
                         .pixels = std::vector<uint8_t>(static_cast<size_t>(height) * width * 3)};
  const ColorMapObject* screen_colors = file->SColorMap;
  if (!covers_screen(file) && screen_colors != nullptr && file->SBackGroundColor < screen_colors->ColorCount)
    for (size_t i = 0; i < picture.pixels.size(); i += 3)
      put_color(screen_colors, file->SBackGroundColor, &picture.pixels[i]);
  const ColorMapObject* colors = file->Image.ColorMap != nullptr ? file->Image.ColorMap : screen_colors;
  read_frame(file, [&](size_t place, int number) { put_color(colors, number, &picture.pixels[place * 3]); });
  return picture;
}

ForeignPicture gif_numbers(std::span<const uint8_t> bytes, int64_t max_pixels) {
  Reader reader{bytes};
  const GifFile file = open_gif(reader, max_pixels);
  const size_t pixel_count = static_cast<size_t>(file->SHeight) * static_cast<size_t>(file->SWidth);
  const auto background = static_cast<uint8_t>(covers_screen(file) ? 0 : file->SBackGroundColor);
  ForeignPicture picture{.extent = {file->SHeight, file->SWidth, 1},
                         .pixels = std::vector<uint8_t>(pixel_count, background)};
  read_frame(file, [&](size_t place, uint8_t number) { picture.pixels[place] = number; });
  return picture;
}

}  // namespace penstock::detail
