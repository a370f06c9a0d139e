// shardprep show: writes a sheet of pictures as a model will see them.
#include <cstdio>
#include <memory>

#include "core/bytes.h"
#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/look/sheet.h"
#include "tools/cache_flags.h"
#include "tools/cli.h"
#include "tools/out_file.h"
#include "tools/plugins.h"
#include "tools/shardprep/commands.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

struct ShowArguments {
  std::string folder, split, augment, output, grid = "8x8", shuffle = "global";
  SheetOptions sheet;
  uint64_t sample = 0;
  std::vector<std::string> plugins;
};

/// Reads ROWSxCOLUMNS.
void read_grid(const std::string& text, SheetOptions& sheet) {
  int end = 0;
  if (std::sscanf(text.c_str(), "%4dx%4d%n", &sheet.rows, &sheet.columns, &end) == 2 &&
      static_cast<size_t>(end) == text.size())
    return;
  throw config_error(concat("--grid is ", in_quotes(text), "; expected ROWSxCOLUMNS, for example 8x8"));
}

/// Opens the one split that is to be shown. Where FOLDER is a data set, its manifest must be that of the split.
std::shared_ptr<const Dataset> open_split(const ShowArguments& arguments) {
  const auto folders = split_folders(arguments.folder, arguments.split);
  if (folders.size() != 1)
    throw config_error(concat("--split: ", arguments.folder, " has ", folders.size(),
                              " splits; expected one of them, for example --split train"));
  const bool is_data_set = folders[0] != fs::path(arguments.folder);
  return is_data_set ? Dataset::open(arguments.folder, folders[0].filename()) : Dataset::open(folders[0]);
}

int run_show(ShowArguments& arguments, bool is_one_sample) {
  if (arguments.output.empty()) throw config_error("--out: is \"\"; expected a file to write to");
  SheetOptions& options = arguments.sheet;
  read_grid(arguments.grid, options);
  options.shuffle =
      choice<Shuffle>("--shuffle", arguments.shuffle, {{"global", Shuffle::kGlobal}, {"none", Shuffle::kNone}});
  if (is_one_sample) options.sample = arguments.sample;
  const auto dataset = open_split(arguments);
  check_out_file("--out", arguments.output, *dataset);
  const Pipeline pipeline(arguments.augment, dataset->manifest().statistics);
  const Sheet sheet = make_sheet(dataset, pipeline, options);
  const auto png = sheet.png();
  write_out_file("--out", arguments.output, as_text(png));
  for (size_t i = 0; i < sheet.labels.size(); ++i) {
    if (i % options.columns == 0) std::printf("row %zu:", i / options.columns + 1);
    const std::string name = dataset->manifest().class_name(sheet.labels[i]);
    const bool is_last = (i + 1) % options.columns == 0 || i + 1 == sheet.labels.size();
    std::printf(" %llu %s%s", static_cast<unsigned long long>(sheet.ids[i]), one_line(name).c_str(),
                is_last ? "\n" : ",");
  }
  const Manifest& manifest = dataset->manifest();
  if (is_raster(manifest.pixels, manifest.channels))
    std::printf("of %s, the first %d, each from black for its least level to white for its greatest\n",
                pixels_text(manifest.pixels, manifest.channels).c_str(), manifest.channels >= 3 ? 3 : 1);
  std::printf("%s: %d x %d pixels, %s\n", arguments.output.c_str(), sheet.extent.height, sheet.extent.width,
              is_one_sample ? concat(count_text(sheet.labels.size(), "epoch"), " of one sample").c_str()
                            : count_text(sheet.labels.size(), "sample").c_str());
  return 0;
}

}  // namespace

Command show_command(CLI::App& app) {
  auto* command = app.add_subcommand("show", "write a PNG of pictures as a model will see them, side by side");
  const auto arguments = std::make_shared<ShowArguments>();  // lives as long as the parser's pointers to it
  command->add_option("DIR", arguments->folder, "folder of a packed data set, or of one split of it")->required();
  command->add_option("--out", arguments->output, "PNG file to write; it is replaced")->required();
  command->add_option(
      "--augment", arguments->augment,
      "transforms in their order, for example 'random-resized-crop(size=224),flip'; normalisation is not "
      "shown. Known transforms:" +
          help_lines<TransformRegistry>());
  add_cache_flags(*command);
  command->add_option("--split", arguments->split, "only this split: train, test or all");
  command->add_option("--grid", arguments->grid, "rows and columns of the sheet")->capture_default_str();
  const auto* sample =
      command->add_option("--sample", arguments->sample,
                          "show this sample alone, counted from 0 in the order of the shards, once per "
                          "epoch from --epoch on");
  command->add_option("--epoch", arguments->sheet.epoch, "epoch whose first samples are shown")->capture_default_str();
  command->add_option("--seed", arguments->sheet.seed, "seed of the order and the augmentation")->capture_default_str();
  command->add_option("--shuffle", arguments->shuffle, "order of the samples. global: random; none: as they are stored")
      ->capture_default_str();
  add_plugin_option(*command, arguments->plugins);
  return {command, [arguments, sample] { return run_show(*arguments, sample->count() > 0); }};
}

}  // namespace penstock
