// The folder of a study.
#include "tools/train/study/folder.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/json_text.h"
#include "core/regular_file.h"
#include "core/strict_json.h"
#include "core/text.h"
#include "train/options/options_file.h"
#include "train/run/run_folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;     // format of study.json
constexpr int kMostDepth = 8;  // of its JSON

std::vector<std::string> read_arguments(const fs::path& path) {
  const std::string text = read_text(path);
  detail::check_json_depth(text, path.string(), kMostDepth);
  try {
    const auto json = nlohmann::json::parse(text);
    if (json.at("format") != kFormat)
      throw config_error(concat(path.string(), ": is of format ", shortened(json.at("format").dump()), "; expected ",
                                kFormat, ", or a new --out"));
    std::vector<std::string> arguments;
    for (const auto& word : json.at("arguments")) arguments.push_back(text_in(word));
    return arguments;
  } catch (const nlohmann::json::exception& error) {
    throw corrupt_error(
        concat(path.string(), ": ", json_problem(error.what()), "; expected a study's command, or a new --out"));
  }
}

Error cannot_write(const fs::path& out, const std::error_code& failure) {
  return io_error(concat("--out ", out.string(), ": ", failure.message(), "; expected a folder that can be written"));
}

/// Whether OUT holds this study, which then continues. Throws if it holds anything else.
bool holds_this_study(const StudyOptions& options) {
  const fs::path path = options.out / "study.json";
  if (fs::exists(path)) {
    const auto found = read_arguments(path);
    if (found == options.arguments()) return true;
    throw config_error(concat("--out ", options.out.string(), ": holds the study `", command_text(found),
                              "`; expected that command, to go on with it, or a new folder"));
  }
  const auto is_foreign = [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    return !is_aside_name(name) && name != "study.json.tmp";  // as earlier versions wrote it
  };
  if (std::any_of(fs::directory_iterator(options.out), fs::directory_iterator(), is_foreign)) {
    throw config_error(concat("--out ", options.out.string(), ": holds files, but no study.json of a study; ",
                              "expected a new folder, an empty one, or a study's"));
  }
  return false;
}

void write_command(const StudyOptions& options) {
  auto words = nlohmann::json::array();
  for (const auto& word : options.arguments()) words.push_back(json_of(word));
  const nlohmann::ordered_json json{{"format", kFormat}, {"arguments", words}};
  write_text(options.out / "study.json", json_text(json, 2) + "\n");
}

}  // namespace

StudyFolder::StudyFolder(const StudyOptions& options) : out_(options.out) {
  if (fs::exists(out_) && !fs::is_directory(out_))
    throw config_error(concat("--out ", out_.string(), ": a file; expected a folder"));
  std::error_code failure;
  fs::create_directories(out_, failure);
  if (failure) throw cannot_write(out_, failure);
  lock_ = lock_run_folder(out_, "study");
  if (!holds_this_study(options)) write_command(options);
  remove_left_asides(out_);
  fs::create_directories(out_ / "runs", failure);
  if (failure) throw cannot_write(out_, failure);
}

StudyFolder::~StudyFolder() { close(lock_); }

bool StudyFolder::is_finished(const fs::path& out, const std::string& name) {
  return fs::exists(out / "runs" / name / "summary.json");
}

}  // namespace penstock
