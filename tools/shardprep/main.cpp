// shardprep: packs a foreign data set into shards, shows what is in them, checks them and unpacks them.
#include "tools/cli.h"
#include "tools/plugins.h"
#include "tools/shardprep/commands.h"

int main(int argc, char** argv) {
  return penstock::run_tool("shardprep", [&] {
    penstock::load_plugins({argv, argv + argc});
    CLI::App app{
        "Packs image data sets into shards with checksums, shows, checks and unpacks them. Exit codes: 0 success, 2 "
        "wrong options, 3 files, 4 corrupt data, 5 threads or memory."};
    app.require_subcommand(1);
    app.fallthrough(false);
    const auto commands = {penstock::pack_command(app),   penstock::list_command(app),   penstock::merge_command(app),
                           penstock::plan_command(app),   penstock::info_command(app),   penstock::verify_command(app),
                           penstock::unpack_command(app), penstock::export_command(app), penstock::show_command(app),
                           penstock::cache_command(app)};
    penstock::parse_command_line(app, argc, argv);
    for (const auto& command : commands)
      if (command.app->parsed()) return command.run();
    return 0;
  });
}
