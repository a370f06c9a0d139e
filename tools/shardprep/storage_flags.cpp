// The flags of shardprep that say how pictures are stored.
#include "tools/shardprep/storage_flags.h"

#include "core/choice.h"
#include "core/error.h"
#include "loader/batch/option_names.h"

namespace penstock {

StorageOptions StorageFlags::options() const {
  StorageOptions found = storage;
  found.encode = choice("--encode", encode, encode_names());
  found.transcodes = choice<bool>("--transcode", transcode, {{"on", true}, {"off", false}});
  found.sixteen_bit = choice("--sixteen-bit", sixteen_bit, sixteen_bit_names());
  found.pixels = choice("--pixels", pixels, pixel_type_names());
  found.honours_exif = !ignores_exif;
  return found;
}

void add_storage_flags(CLI::App& command, StorageFlags& flags) {
  auto& storage = flags.storage;
  command
      .add_option(
          "--encode", flags.encode,
          "how JPEG files are stored. coef: as DCT coefficients, lossless and faster to decode than a JPEG; keep: the "
          "file itself, with a seek index; jpeg: compressed again with --quality; raw: pixels; auto: coef where unpack "
          "gives back the same bytes as the file (after --transcode), otherwise keep")
      ->capture_default_str();
  command
      .add_option("--resize", storage.resize_short,
                  "reduce larger pictures until their shorter side has this many pixels, and compress them again with "
                  "--quality (default: pictures keep their size)")
      ->type_name("UINT")
      ->each([](const std::string& text) {
        if (text == "0")
          throw config_error("--resize: is \"0\"; expected 1 to 65535 pixels");  // PackOptions uses 0 for none
      });
  command.add_option("--quality", storage.quality, "JPEG quality of pictures that are compressed again, 1 to 100")
      ->capture_default_str();
  command.add_option("--raw-share", storage.raw_share, "share of the pictures, 0 to 1, that are stored as raw pixels")
      ->capture_default_str();
  command
      .add_option("--max-pixels", storage.max_pixels,
                  "a picture with more pixels (height times width) counts as broken; up to 2^28")
      ->type_name("UINT")
      ->capture_default_str();
  command
      .add_option("--transcode", flags.transcode,
                  "on: progressive and other JPEGs that cannot have a seek index are rewritten as baseline JPEGs, "
                  "with the same pixels; off: they are stored as they are")
      ->capture_default_str();
  command
      .add_option(
          "--sixteen-bit", flags.sixteen_bit,
          "what becomes of pictures of 16 bits per channel (PNG, TIFF). refuse: stop; drop: their high bytes "
          "are stored; keep: all bits are stored, and batches have the high bytes (not with what stores raw pixels or "
          "JPEGs, which would lose bits)")
      ->capture_default_str();
  command
      .add_option("--pixels", flags.pixels,
                  "what pixels have. u8: 8 bits, with --sixteen-bit for more; u16: pictures are stored raw, with all "
                  "of 16 bits, and levels of 8 bits become 257 times as large; f32: TIFFs of f32, stored raw. TIFFs of "
                  "more than 4 samples per pixel keep all of them")
      ->capture_default_str();
  command.add_flag("--no-exif", flags.ignores_exif,
                   "do not turn pictures upright by the orientation in their EXIF or XMP");
}

}  // namespace penstock
