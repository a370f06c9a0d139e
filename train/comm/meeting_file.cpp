// Meeting file: "penstock rendezvous at HOST PORT", created exclusively.
#include "train/comm/meeting_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace penstock::detail {
namespace {

constexpr std::string_view kOpening = "penstock rendezvous at ";
constexpr size_t kMostBytes = 512;  // of a whole file: host names have 255 at most

std::string where(const std::filesystem::path& path) { return concat("--dist-url file://", path.string()); }

}  // namespace

MeetingFile::MeetingFile(std::filesystem::path path, const std::string& host, int port) : path_(std::move(path)) {
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0 && errno == EEXIST) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path_, ignored))
      throw config_error(concat(where(path_), ": is a folder; expected the path of a file, which is made"));
    throw config_error(concat(where(path_),
                              ": the file is there already, left by an earlier run, or of another one that ",
                              "is starting; expected a path where nothing is, remove it if no run is starting"));
  }
  if (fd < 0) throw errno_error(where(path_), "expected a file that can be created");
  const std::string text = concat(kOpening, host, " ", port, "\n");
  const auto written = write(fd, text.data(), text.size());
  close(fd);
  if (written == static_cast<ssize_t>(text.size())) return;
  const Error error = errno_error(where(path_), "expected a file that can be written");
  unlink(path_.c_str());
  throw error;
}

MeetingFile::~MeetingFile() { unlink(path_.c_str()); }

std::optional<std::pair<std::string, int>> read_meeting_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string text(kMostBytes + 1, '\0');  // file:///dev/zero never ends
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() <= kOpening.size() && kOpening.starts_with(text)) return std::nullopt;  // not there, or not whole
  std::string host;
  int port = 0;
  std::istringstream rest(text.substr(std::min(kOpening.size(), text.size())));
  if (!text.starts_with(kOpening) || text.size() > kMostBytes || !(rest >> host))
    throw config_error(concat(where(path), ": is no file of a rank 0; expected a path where nothing is"));
  if (!text.ends_with('\n') || !(rest >> port)) return std::nullopt;
  return std::pair(host == host_name() ? "127.0.0.1" : host, port);
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace penstock::detail
