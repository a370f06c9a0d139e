// shardprep unpack: writes the packed files back into a folder.
#include <memory>

#include "loader/pack/unpack.h"
#include "tools/shardprep/commands.h"
#include "tools/shardprep/write_back.h"

namespace penstock {

Command unpack_command(CLI::App& app) {
  auto* command = app.add_subcommand("unpack", "write the packed pictures back as files, into a new folder");
  const auto arguments = std::make_shared<WriteBackArguments>();  // lives as long as the parser's pointers to it
  add_write_back_options(*command, *arguments);
  return {command, [arguments] {
            return write_back("unpack", *arguments, "file", "",
                              [&](const auto& folder, const auto& output, const auto& on_progress) {
                                return unpack(folder, output, arguments->jobs, on_progress);
                              });
          }};
}

}  // namespace penstock
