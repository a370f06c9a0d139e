// penstock._native.pack and Spool: packing a source by name, or the pictures of an iterable.
#include "loader/pack/pack.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>
#include <utility>

#include "core/choice.h"
#include "core/error.h"
#include "core/text.h"
#include "loader/batch/option_names.h"
#include "loader/codecs/codec.h"
#include "loader/codecs/png_writer.h"
#include "loader/pack/merge.h"
#include "loader/shards/dataset.h"
#include "python/src/fields.h"
#include "python/src/module.h"
#include "python/src/pixels.h"
#include "python/src/spool.h"

namespace penstock::python {
namespace {

using nanobind::literals::operator""_a;

/// Views of the bytes, which live as long as `values`.
std::vector<FieldBytes> views_of(const std::vector<nb::bytes>& values) {
  std::vector<FieldBytes> views;
  for (const auto& value : values) views.emplace_back(static_cast<const uint8_t*>(value.data()), value.size());
  return views;
}

/// Height and width that the annotations state; (0, 0): none.
using StatedSize = std::pair<int, int>;

void add_file(Spool& spool, const nb::bytes& bytes, int64_t label, const std::string& path,
              const std::vector<nb::bytes>& fields, StatedSize stated) {
  spool.annotate_next(1, stated.first, stated.second);
  spool.add_file({static_cast<const uint8_t*>(bytes.data()), bytes.size()}, label, path, views_of(fields));
}

/// Height and width of a picture's file as it is stored, and whether it is turned by a quarter; nothing for other
/// bytes, which packing refuses or leaves out.
std::optional<std::tuple<int, int, bool>> picture_size(const nb::bytes& bytes, bool honours_exif) {
  const auto* const data = static_cast<const uint8_t*>(bytes.data());
  try {
    const SourceSample sample = picture_sample({data, data + bytes.size()});
    const auto [height, width, channels] = sample.extent;
    if (is_raw(sample.encoding))  // upright already
      return sample.turned_by > 4 ? std::tuple(width, height, true) : std::tuple(height, width, false);
    return std::tuple(height, width, honours_exif && codec_for(sample.encoding).orientation(sample.bytes) > 4);
  } catch (const Error&) {
    return {};
  }
}

template <class Array>
Extent extent_of(const Array& pixels) {
  const auto side = [&](size_t i) { return pixels.ndim() > i ? static_cast<int>(pixels.shape(i)) : 1; };
  if (pixels.ndim() != 2 && pixels.ndim() != 3)
    throw config_error(concat("pixels in ", pixels.ndim(), " dimensions; expected H x W or H x W x C"));
  return {side(0), side(1), side(2)};
}

/// The bytes of a PNG, of u8 or u16. Throws config_error for other than 1 or 3 channels.
nb::bytes png_of(const AnyPixels& pixels) {
  const Extent extent = extent_of(pixels);
  const PixelType type = pixel_type(pixels);
  if ((extent.channels != 1 && extent.channels != 3) || type == PixelType::kF32)
    throw config_error(concat("pixels of ", extent.channels, " channels of ", pixel_type_name(type),
                              "; expected 1 or 3 of u8 or u16"));
  const size_t bytes = level_bytes(type);
  const auto png = detail::write_png({static_cast<const uint8_t*>(pixels.data()), pixels.size() * bytes}, extent,
                                     8 * static_cast<int>(bytes));
  return nb::bytes(png.data(), png.size());
}

/// `pixels`: H x W or H x W x C, upright; `turned_by`: the orientation by which they were turned.
void add_pixels(Spool& spool, const AnyPixels& pixels, int64_t label, const std::vector<nb::bytes>& fields,
                StatedSize stated, uint8_t turned_by) {
  spool.annotate_next(turned_by, stated.first, stated.second);
  const PixelType type = pixel_type(pixels);
  spool.add_pixels({static_cast<const uint8_t*>(pixels.data()), pixels.size() * level_bytes(type)}, extent_of(pixels),
                   type, label, views_of(fields));
}

PackOptions options_of(const std::string& source, const std::filesystem::path& input, const std::string& split,
                       const std::vector<std::string>& packed_next, const std::filesystem::path& output, int shards,
                       int64_t shuffle_seed, int jobs, bool force, const std::string& on_corrupt,
                       const std::string& encode, int resize, int quality, double raw_share, int64_t max_pixels,
                       bool transcode, bool exif, const std::string& sixteen_bit, const std::string& pixels,
                       const std::vector<std::filesystem::path>& more_inputs) {
  PackOptions options{.source = source,
                      .input = input,
                      .more_inputs = more_inputs,
                      .split = split,
                      .output = output,
                      .shard_count = shards,
                      .shuffle_seed = shuffle_seed,
                      .jobs = jobs,
                      .force = force,
                      .packed_next = packed_next};
  options.skip_corrupt = choice<bool>("on_corrupt", on_corrupt, {{"fail", false}, {"skip", true}});
  options.storage = {.encode = choice("encode", encode, encode_names()),
                     .resize_short = resize,
                     .quality = quality,
                     .raw_share = raw_share,
                     .max_pixels = max_pixels,
                     .transcodes = transcode,
                     .sixteen_bit = choice("sixteen_bit", sixteen_bit, sixteen_bit_names()),
                     .pixels = choice("pixels", pixels, pixel_type_names()),
                     .honours_exif = exif};
  return options;
}

/// Calls `progress(done, total, reused, seconds, messages about pictures that were skipped, notes)` about ten times per
/// second. Notes are all so far, about files that were ignored, too.
void pack_options(const PackOptions& options, const Spool* spool, const std::string& name,
                  const nb::callable& progress) {
  const auto report = [&](const PackProgress& made) {
    check_signals();
    const nb::gil_scoped_acquire gil;
    std::vector<std::string> notes = made.notes;
    if (made.ignored.count > 0) notes.push_back(made.ignored.text());
    progress(made.done_count, made.total_count, made.reused_count, made.seconds, made.skipped, notes);
  };
  const Unlocked released;
  if (spool != nullptr)
    pack(*spool, name, options, report);
  else
    pack(options, report);
}

}  // namespace

void define_pack(nb::module_& module) {
  nb::class_<Spool>(module, "Spool")
      .def(
          "__init__",
          [](Spool* self, const std::filesystem::path& folder, bool keeps_corrupt, const std::string& annotations) {
            new (self) Spool(folder, keeps_corrupt, annotated_on("pack", annotations));
          },
          "folder"_a, "keeps_corrupt"_a, "annotations"_a)
      .def(
          "set_fields", [](Spool& self, const nb::list& types) { self.set_fields(fields_of_tuples(types)); }, "types"_a)
      .def("add_file", add_file, "bytes"_a, "label"_a, "path"_a, "fields"_a, "stated"_a)
      .def("add_pixels", add_pixels, "pixels"_a, "label"_a, "fields"_a, "stated"_a, "turned_by"_a)
      .def_prop_ro("pixels",
                   [](const Spool& self) -> std::optional<std::string> {
                     if (!self.type()) return {};
                     return pixel_type_name(*self.type());
                   })
      .def("set_classes", &Spool::set_classes, "names"_a, "numbers"_a)
      .def("__len__", &Spool::size);
  nb::class_<PackOptions>(module, "PackOptions")
      .def(
          "set_part",
          [](PackOptions& options, int index, int count, const std::string& attempt) {
            options.part = PackPart{index, count, attempt};
          },
          "index"_a, "count"_a, "attempt"_a)
      .def(
          "set_pixels",
          [](PackOptions& options, const std::string& pixels) {
            options.storage.pixels = choice("pixels", pixels, pixel_type_names());
          },
          "pixels"_a)
      .def(
          "set_codebook", [](PackOptions& options, const std::filesystem::path& path) { options.codebook = path; },
          "path"_a);
  module.def(
      "merge_parts",
      [](const std::filesystem::path& output, const std::string& split, bool force,
         const std::vector<std::string>& attempts) {
        merge_parts({.output = output, .split = split, .force = force, .attempts = attempts});
      },
      nb::kw_only(), "output"_a, "split"_a, "force"_a, "attempts"_a, Release());
  module.def("splits_with_parts", splits_with_parts, "output"_a);
  module.def("pack_options", options_of, nb::kw_only(), "source"_a, "input"_a, "split"_a, "packed_next"_a, "output"_a,
             "shards"_a, "shuffle_seed"_a, "jobs"_a, "force"_a, "on_corrupt"_a, "encode"_a, "resize"_a, "quality"_a,
             "raw_share"_a, "max_pixels"_a, "transcode"_a, "exif"_a, "sixteen_bit"_a, "pixels"_a, "more_inputs"_a);
  module.def("picture_size", picture_size, "bytes"_a, "honours_exif"_a);
  module.def("write_png", png_of, "pixels"_a);
  module.def("split_of_name", split_of_name, "name"_a);
  module.def("check_pack_options", check_pack_options, "options"_a);
  module.def("check_packing", check_packing, "options"_a, Release());
  module.def("pack", pack_options, "options"_a, "spool"_a.none(), "name"_a, "progress"_a);
}

}  // namespace penstock::python
