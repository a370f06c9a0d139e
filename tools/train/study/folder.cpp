// The folder of a study.
#include "tools/train/study/folder.h"

#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/json_text.h"
#include "core/text.h"
#include "train/run_folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;  // format of study.json

std::vector<std::string> read_arguments(const fs::path& path) {
  std::ifstream file(path);
  try {
    const auto json = nlohmann::json::parse(file);
    if (json.at("format") == kFormat) return json.at("arguments").get<std::vector<std::string>>();
    throw config_error(concat(path.string(), ": is of format ", shortened(json.at("format").dump()), "; expected ",
                              kFormat, ", or a new --out"));
  } catch (const nlohmann::json::exception& error) {
    throw corrupt_error(
        concat(path.string(), ": ", shortened(error.what()), "; expected a study's command, or a new --out"));
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
  if (!fs::is_empty(options.out)) {
    throw config_error(concat("--out ", options.out.string(), ": holds files, but no study.json of a study; ",
                              "expected a new folder, an empty one, or a study's"));
  }
  return false;
}

}  // namespace

StudyFolder::StudyFolder(const StudyOptions& options) : out_(options.out) {
  if (fs::exists(out_) && !fs::is_directory(out_))
    throw config_error(concat("--out ", out_.string(), ": a file; expected a folder"));
  std::error_code failure;
  fs::create_directories(out_, failure);
  if (failure) throw cannot_write(out_, failure);
  lock_ = lock_run_folder(out_, "study");
  const bool is_there = holds_this_study(options);
  fs::create_directories(out_ / "runs", failure);
  if (failure) throw cannot_write(out_, failure);
  if (is_there) return;
  const nlohmann::ordered_json json{{"format", kFormat}, {"arguments", options.arguments()}};
  write_text(out_ / "study.json", json_text(json, 2) + "\n");
}

StudyFolder::~StudyFolder() { close(lock_); }

bool StudyFolder::is_finished(const fs::path& out, const std::string& name) {
  return fs::exists(out / "runs" / name / "summary.json");
}

}  // namespace penstock
