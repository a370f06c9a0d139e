// dct_quality: what decoding at a reduced DCT scale costs in quality. Prints, for each output size and scale, the PSNR
// of the reduced decode and render() against the full decode and render(), both antialiased, over a folder of JPEGs.
//
//     dct_quality FOLDER
#include <cstdio>
// After stdio.h
#include <jpeglib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <vector>

#include "augment/plan/plan.h"
#include "augment/render.h"
#include "core/rng.h"

namespace penstock {
namespace {

struct Decoded {
  std::vector<uint8_t> pixels;
  Picture view;
};

/// Decodes to RGB at `scale` eighths. Requires the bytes of an intact JPEG that can be converted to RGB.
Decoded decode(const std::vector<uint8_t>& bytes, int scale) {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, bytes.data(), bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  info.scale_num = static_cast<unsigned>(scale);
  info.scale_denom = 8;
  jpeg_start_decompress(&info);
  Decoded decoded;
  const size_t line = static_cast<size_t>(info.output_width) * 3;
  decoded.pixels.resize(line * info.output_height);
  while (info.output_scanline < info.output_height) {
    uint8_t* row = decoded.pixels.data() + info.output_scanline * line;
    jpeg_read_scanlines(&info, &row, 1);
  }
  decoded.view = {.pixels = decoded.pixels.data(),
                  .row_stride = static_cast<ptrdiff_t>(line),
                  .height = static_cast<int>(info.output_height),
                  .width = static_cast<int>(info.output_width),
                  .channels = 3};
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return decoded;
}

std::vector<uint8_t> rendered(const Decoded& picture, const Plan& plan) {
  std::vector<uint8_t> output(rendered_bytes(Layout::kU8Nhwc, {plan.output_height, plan.output_width, 3}));
  render(picture.view, plan, {}, Layout::kU8Nhwc, output.data());
  return output;
}

/// The PSNR in dB. It is cut at 60, because that of equal pictures is infinite.
double psnr(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::min(60.0, 10 * std::log10(255.0 * 255 * static_cast<double>(a.size()) / std::max(squares, 1e-9)));
}

/// The plan that resizes the whole picture, or a part as random-resized-crop draws it (area 0.08 to 1, ratio 3/4 to
/// 4/3), to size x size.
Plan square_plan(int height, int width, int size, bool is_cropped, Rng& rng) {
  Region rect{0, 0, width, height};
  for (int i = 0; is_cropped && i < 10; ++i) {
    const double area = rng.uniform(0.08, 1) * height * width;
    const double ratio = std::exp(rng.uniform(std::log(3.0 / 4), std::log(4.0 / 3)));
    const int w = static_cast<int>(std::lround(std::sqrt(area * ratio)));
    const int h = static_cast<int>(std::lround(std::sqrt(area / ratio)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    rect = {rng.between(0, width - w), rng.between(0, height - h), w, h};
    break;
  }
  Plan plan = Plan::identity(height, width);
  plan.look_only_at(rect);
  plan.resample({static_cast<double>(rect.width) / size, 0, static_cast<double>(rect.x), 0,
                 static_cast<double>(rect.height) / size, static_cast<double>(rect.y)},
                size, size);
  plan.filter = Filter::kAntialias;
  return plan;
}

struct Summary {
  double sum = 0, least = 1e9;
  int count = 0;
  void add(double value) { sum += value, least = std::min(least, value), ++count; }
};

std::vector<uint8_t> bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void measure(const std::filesystem::path& folder) {
  std::map<std::pair<std::string, int>, Summary> table;
  uint64_t id = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto bytes = bytes_of(entry.path());
    const Decoded full = decode(bytes, 8);
    std::map<int, Decoded> reduced;
    Rng rng(1, 0, id++, 0);
    for (const int size : {224, 96, 64}) {
      for (const bool is_cropped : {false, true}) {
        const Plan plan = square_plan(full.view.height, full.view.width, size, is_cropped, rng);
        const int scale = dct_scale(plan);
        if (scale == 8) continue;
        if (!reduced.count(scale)) reduced[scale] = decode(bytes, scale);
        const double quality = psnr(rendered(full, plan), rendered(reduced[scale], at_dct_scale(plan, scale)));
        table[{(is_cropped ? "crop to " : "whole to ") + std::to_string(size), scale}].add(quality);
        table[{"all", scale}].add(quality);
        table[{"all", 0}].add(quality);
      }
    }
  }
  for (const auto& [key, summary] : table)
    std::printf("%-14s scale %d/8: %4d pictures, PSNR mean %.1f dB, least %.1f dB\n", key.first.c_str(), key.second,
                summary.count, summary.sum / summary.count, summary.least);
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  std::error_code ignored;  // a path that cannot be examined counts as no folder
  if (argc != 2 || !std::filesystem::is_directory(argv[1], ignored)) {
    std::cerr << "dct_quality: " << (argc == 2 ? argv[1] : "no argument, or several")
              << "; expected a folder of JPEG files\n";
    return 2;
  }
  try {
    penstock::measure(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "dct_quality: " << error.what() << '\n';
    return 1;
  }
}
