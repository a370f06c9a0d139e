// shardprep export: writes a packed data set as one that other programs read.
#include <memory>

#include "core/choice.h"
#include "loader/export/export.h"
#include "tools/shardprep/commands.h"
#include "tools/shardprep/write_back.h"

namespace penstock {
namespace {

struct ExportArguments : WriteBackArguments {
  std::string format;
};

int run_export(const ExportArguments& arguments) {
  const auto format =
      choice<ExportFormat>("--to", arguments.format,
                           {{"image-folder", ExportFormat::kImageFolder}, {"webdataset", ExportFormat::kWebDataset}});
  return write_back("export", arguments, "sample", " as " + arguments.format,
                    [&](const auto& folder, const auto& output, const auto& on_progress) {
                      return export_split(folder, output, format, arguments.jobs, on_progress);
                    });
}

}  // namespace

Command export_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("export", "write a packed data set, with its fields, as one that other programs read");
  const auto arguments = std::make_shared<ExportArguments>();  // lives as long as the parser's pointers to it
  command
      ->add_option("--to", arguments->format,
                   "image-folder: a folder per class with metadata.jsonl; webdataset: a tar per shard")
      ->required();
  add_write_back_options(*command, *arguments);
  return {command, [arguments] { return run_export(*arguments); }};
}

}  // namespace penstock
