// shardprep pack: packs the splits of a foreign data set.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/batch/option_names.h"
#include "loader/pack/pack.h"
#include "loader/shards/dataset.h"
#include "loader/sources/source.h"
#include "tools/cli.h"
#include "tools/plugins.h"
#include "tools/shardprep/commands.h"
#include "tools/shardprep/progress.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

struct PackArguments {
  PackOptions options;
  std::string splits = "train";  // one or several, separated by commas
  std::vector<std::string> plugins;
  std::vector<std::string> inputs;
  std::string output, on_corrupt = "fail", encode = "auto", transcode = "on", sixteen_bit = "refuse";
  bool is_quiet = false, ignores_exif = false;
};

/// The splits named in `text`. All names are checked before the first split is packed.
std::vector<std::string> parse_splits(const std::string& text) {
  std::vector<std::string> names = split(text, ','), known{"train", "test", "all"};
  for (auto name = names.begin(); name != names.end(); ++name) {
    *name = split_of_name(*name);
    if (std::find(known.begin(), known.end(), *name) == known.end())
      throw config_error(concat("--split: ", unknown_name("split", *name, known)));
    if (std::find(names.begin(), name, *name) != name)
      throw config_error(concat("--split: is ", in_quotes(text), "; expected each split only once"));
  }
  return names;
}

std::string skipped_file(const fs::path& folder) { return (folder / kSkippedFile).string(); }

/// Packs, and shows on stderr the progress and the first pictures that are skipped. Returns the last progress.
PackProgress pack_aloud(const PackOptions& options, ProgressLine& line) {
  PackProgress last;
  uint64_t skipped_count = 0;
  const auto show = [&](const PackProgress& progress) {
    for (const auto& message : progress.skipped)
      if (++skipped_count <= Problems::kMaxLines) line.say("skipped: " + message);
    line.show(last = progress);
  };
  const auto finish = [&](const std::string& list) {
    if (skipped_count > Problems::kMaxLines)
      line.say(concat("skipped: ... and ", grouped(skipped_count - Problems::kMaxLines), " more", list));
    line.finish();  // so that an error message begins a new line
  };
  try {
    pack(options, show);
  } catch (...) {
    finish("");
    throw;
  }
  finish(concat("; all are in ", skipped_file(options.output / options.split)));
  return last;
}

void print_summary(const fs::path& folder, const PackProgress& last) {
  const Manifest manifest = read_manifest(folder);
  uint64_t byte_count = 0;
  for (const auto& shard : manifest.shards) byte_count += shard.byte_count;
  std::string notes;
  if (last.reused_count > 0) notes += ", " + grouped(last.reused_count) + " of them packed before an interruption";
  if (manifest.warned_count > 0) notes += ", " + warned_text(manifest.warned_count);
  if (manifest.transcoded_count > 0)
    notes += ", " + count_text(manifest.transcoded_count, "JPEG") + " transcoded (same pixels, other bytes)";
  if (last.ignored_count > 0)
    notes += ", " + count_text(last.ignored_count, "file") + " ignored (no pictures, or outside of class folders)";
  if (last.skipped_count > 0)
    notes += concat(", ", count_text(last.skipped_count, "broken picture"), " skipped, see ", skipped_file(folder));
  std::printf("%s: %s of %s in %s, %s, %.1f s%s\n", folder.c_str(), count_text(manifest.sample_count, "sample").c_str(),
              count_text(manifest.class_names.size(), "class", "classes").c_str(),
              count_text(manifest.shards.size(), "shard").c_str(), byte_text(byte_count).c_str(), last.seconds,
              notes.c_str());
  if (manifest.class_names.size() == 1) {
    std::printf("%s: all samples are of one class, %s; for labels, give each class's pictures a folder of their own\n",
                folder.c_str(), one_line(manifest.class_names.front()).c_str());
  }
}

void pack_split(const PackOptions& options, bool is_quiet) {
  const fs::path folder = options.output / options.split;
  ProgressLine line(folder.string(), is_quiet);
  const PackProgress last = pack_aloud(options, line);
  if (!is_quiet) print_summary(folder, last);
}

StorageOptions storage_options(const PackArguments& arguments) {
  StorageOptions storage = arguments.options.storage;
  storage.encode = choice("--encode", arguments.encode, encode_names());
  storage.transcodes = choice<bool>("--transcode", arguments.transcode, {{"on", true}, {"off", false}});
  storage.sixteen_bit = choice("--sixteen-bit", arguments.sixteen_bit, sixteen_bit_names());
  storage.honours_exif = !arguments.ignores_exif;
  return storage;
}

int run_pack(const PackArguments& arguments) {
  PackOptions options = arguments.options;
  if (arguments.on_corrupt != "fail" && arguments.on_corrupt != "skip")
    throw config_error(concat("--on-corrupt is ", in_quotes(arguments.on_corrupt), "; expected fail or skip"));
  options.skip_corrupt = arguments.on_corrupt == "skip";
  options.storage = storage_options(arguments);
  if (!arguments.inputs.empty()) options.input = arguments.inputs.front();
  for (size_t i = 1; i < arguments.inputs.size(); ++i) options.more_inputs.emplace_back(arguments.inputs[i]);
  options.output = arguments.output;
  const auto splits = parse_splits(arguments.splits);
  options.packed_next = splits;
  if (splits.size() > 1) {  // a problem with the second split must not show only after the first is packed
    for (const auto& name : splits) {
      options.split = name;
      check_packing(options);
    }
  }
  for (const auto& name : splits) {
    options.packed_next.erase(options.packed_next.begin());
    options.split = name;
    pack_split(options, arguments.is_quiet);
  }
  return 0;
}

}  // namespace

Command pack_command(CLI::App& app) {
  auto* command = app.add_subcommand("pack", "pack a data set from another format into OUT/<split>");
  const auto arguments = std::make_shared<PackArguments>();  // lives as long as the parser's pointers to it
  auto& options = arguments->options;
  command->add_option("--source", options.source, "format of the input, one of:" + help_lines<SourceRegistry>())
      ->required();
  add_plugin_option(*command, arguments->plugins);
  command
      ->add_option(
          "--input", arguments->inputs,
          "folder of the input, or its list; the flag may be given several times, and the samples then come one "
          "input after the other. Embedded sources such as digits need none")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option(
          "--split", arguments->splits,
          "split to pack: train, test (or val, another name of it) or all; or several, separated by commas. All "
          "splits in OUT have the same classes: pack train first, or several in one call")
      ->capture_default_str();
  command->add_option("--out", arguments->output, "folder for the packed data set")->required();
  command->add_option("--shards", options.shard_count, "number of files over which the samples are spread")
      ->capture_default_str();
  command
      ->add_option("--shuffle-seed", options.shuffle_seed,
                   "shuffle the samples inside each shard with this seed (default: in the order of their ids)")
      ->type_name("UINT");
  command->add_option("--jobs", options.jobs, "threads that pack; 0: one per core")->capture_default_str();
  command->add_flag("--force", options.force, "replace OUT/<split> if it exists, once the new one is complete");
  command
      ->add_option("--on-corrupt", arguments->on_corrupt,
                   "what to do with a picture that cannot be decoded. fail: stop with exit code 4; skip: leave it out, "
                   "count it, and write its path and the reason to OUT/<split>/skipped.jsonl")
      ->capture_default_str();
  auto& storage = options.storage;
  command
      ->add_option(
          "--encode", arguments->encode,
          "how JPEG files are stored. coef: as DCT coefficients, lossless and faster to decode than a JPEG; keep: the "
          "file itself, with a seek index; jpeg: compressed again with --quality; raw: pixels; auto: coef where unpack "
          "gives back the same bytes as the file (after --transcode), otherwise keep")
      ->capture_default_str();
  command
      ->add_option("--resize", storage.resize_short,
                   "reduce larger pictures until their shorter side has this many pixels, and compress them again with "
                   "--quality (default: pictures keep their size)")
      ->type_name("UINT")
      ->each([](const std::string& text) {
        if (text == "0")
          throw config_error("--resize: is \"0\"; expected 1 to 65535 pixels");  // PackOptions uses 0 for none
      });
  command->add_option("--quality", storage.quality, "JPEG quality of pictures that are compressed again, 1 to 100")
      ->capture_default_str();
  command->add_option("--raw-share", storage.raw_share, "share of the pictures, 0 to 1, that are stored as raw pixels")
      ->capture_default_str();
  command
      ->add_option("--max-pixels", storage.max_pixels,
                   "a picture with more pixels (height times width) counts as broken; up to 2^28")
      ->type_name("UINT")
      ->capture_default_str();
  command
      ->add_option("--transcode", arguments->transcode,
                   "on: progressive and other JPEGs that cannot have a seek index are rewritten as baseline JPEGs, "
                   "with the same pixels; off: they are stored as they are")
      ->capture_default_str();
  command
      ->add_option("--sixteen-bit", arguments->sixteen_bit,
                   "what becomes of pictures of 16 bits per channel (PNG, TIFF). refuse: stop; drop: their high bytes "
                   "are stored; keep: all bits are stored, and batches have the high bytes")
      ->capture_default_str();
  command->add_flag("--no-exif", arguments->ignores_exif,
                    "do not turn pictures upright by the orientation in their EXIF or XMP");
  command->add_flag("--quiet", arguments->is_quiet, "print no progress and no summary");
  return {command, [arguments] { return run_pack(*arguments); }};
}

}  // namespace penstock
