// Writing back: the loop over the splits, and its report.
#include "tools/shardprep/write_back.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>

#include "core/error.h"
#include "core/number_text.h"
#include "core/text.h"
#include "loader/files/files.h"
#include "tools/cache_flags.h"
#include "tools/plugins.h"
#include "tools/shardprep/commands.h"

namespace penstock {

namespace fs = std::filesystem;

namespace {

/// OUT, in which nothing appears before all of it is written: what is written goes to OUT/.shardprep.partial, whose
/// entries are renamed into OUT at the end. What fails is removed, with OUT if it was made for it. What a killed
/// process has left is removed by the next one, and does not count where OUT has to be empty.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& output) : output_(output), partial_(output / kPartial) {
    if (output.empty()) throw config_error("--out: is \"\"; expected a new folder");
    check_empty();
    made_output_ = fs::create_directories(output_);
    fs::create_directory(partial_);
    lock_ = open(partial_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ < 0) throw errno_error(partial_.string(), "expected a folder to work in");
    try {
      if (flock(lock_, LOCK_EX | LOCK_NB) != 0)
        throw io_error(concat(partial_.string(), ": another process is writing into it; expected one at a time"));
      check_empty();  // another process may have finished meanwhile
      for (const auto& left : fs::directory_iterator(partial_)) fs::remove_all(left.path());
    } catch (...) {
      close(lock_);
      throw;
    }
  }
  ~NewFolder() {
    std::error_code ignored;  // publish() has renamed what counts, or an exception is on its way already
    fs::remove_all(partial_, ignored);
    if (made_output_) fs::remove(output_, ignored);  // fails when it is not empty, as it should
    close(lock_);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const fs::path& folder() const { return partial_; }
  void publish() const {
    for (const auto& entry : fs::directory_iterator(partial_))
      fs::rename(entry.path(), output_ / entry.path().filename());
  }

 private:
  static constexpr const char* kPartial = ".shardprep.partial";

  void check_empty() const {
    if (!fs::exists(output_)) return;
    const auto refuse = [&](const std::string& fact) {
      return config_error(concat("--out: ", output_.string(), " ", fact, "; expected a new or empty folder"));
    };
    if (!fs::is_directory(output_)) throw refuse("is no folder");
    for (const auto& entry : fs::directory_iterator(output_))
      if (entry.path() != partial_) throw refuse(concat("has ", in_quotes(entry.path().filename().string()), " in it"));
  }

  fs::path output_, partial_;
  bool made_output_ = false;
  int lock_ = -1;
};

}  // namespace

void add_write_back_options(CLI::App& command, WriteBackArguments& arguments) {
  command.add_option("DIR", arguments.folder, "folder of a packed data set, or of one split of it")->required();
  command.add_option("--out", arguments.output, "folder for the files; it must be new or empty")->required();
  command.add_option("--split", arguments.split, "only this split: train, test or all");
  command.add_option("--jobs", arguments.jobs, "threads that write files; 0: one per core")->capture_default_str();
  add_cache_flags(command);
  command.add_flag("--quiet", arguments.is_quiet, "print no summary");
  add_plugin_option(command, arguments.plugins);
}

int write_back(const char* command, const WriteBackArguments& arguments, const char* unit, const std::string& words,
               const WriteSplit& write) {
  check_jobs(arguments.jobs);
  const fs::path output = arguments.output;
  check_local_output("--out", output);
  const NewFolder made(output);
  Problems problems;
  for (const auto& folder : split_folders(arguments.folder, arguments.split)) {
    UnpackProgress last;
    const Problems left_out = write(folder, made.folder(), [&](const UnpackProgress& progress) { last = progress; });
    say(left_out);
    problems.append(left_out, folder.string());
    if (arguments.is_quiet) continue;
    std::printf("%s: %s%s, %s, %.1f s, in %s\n", folder.c_str(), count_text(last.done_count, unit).c_str(),
                words.c_str(), byte_text(last.byte_count).c_str(), last.seconds, output.c_str());
  }
  made.publish();  // without the broken samples
  refuse(command, problems);
  return 0;
}

}  // namespace penstock
