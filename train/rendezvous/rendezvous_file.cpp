// Rendezvous file: "penstock rendezvous MARK", created exclusively, and then a line "at HOST PORT".
#include "train/rendezvous/rendezvous_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string_view>

#include "core/error.h"
#include "core/text.h"
#include "train/rendezvous/machine_id.h"
#include "train/rendezvous/token.h"

namespace penstock::detail {
namespace {

constexpr std::string_view kOpening = "penstock rendezvous ";
constexpr size_t kMostBytes = 512;  // of a whole file: host names have 255 at most

std::string where(const std::filesystem::path& path) { return concat("--dist-url file://", path.string()); }

std::filesystem::path path_of_check_in(const std::filesystem::path& path, int rank) {
  return concat(path.string(), ".", rank);
}

/// The bytes of a file, no more than kMostBytes + 1: file:///dev/zero never ends.
std::string begin_of(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return "";  // opening a pipe would wait for a writer
  std::ifstream file(path);
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

/// Opens the file, writes the text and closes it.
void write_text(const std::filesystem::path& path, int flags, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
  if (fd < 0) throw errno_error(where(path), "expected a file that can be created");
  const auto written = write(fd, text.data(), text.size());
  const Error error = errno_error(where(path), "expected a file that can be written");
  close(fd);
  if (written != static_cast<ssize_t>(text.size())) throw error;
}

}  // namespace

RendezvousFile::RendezvousFile(std::filesystem::path path) : path_(std::move(path)), mark_(random_token()) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored))
    throw config_error(concat(where(path_), ": is a folder; expected the path of a file, which is made"));
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0 && errno == EEXIST)
    throw config_error(concat(where(path_),
                              ": the file is there already, left by an earlier run, or of another one that ",
                              "is starting; expected a path where nothing is, remove it if no run is starting"));
  if (fd < 0) throw errno_error(where(path_), "expected a file that can be created");
  close(fd);
  try {
    write_text(path_, O_APPEND, concat(kOpening, mark_, "\n"));
  } catch (...) {
    unlink(path_.c_str());
    throw;
  }
}

RendezvousFile::~RendezvousFile() { unlink(path_.c_str()); }

std::optional<bool> RendezvousFile::is_here(int rank) const {
  const std::string text = begin_of(path_of_check_in(path_, rank));
  if (!text.starts_with(mark_) || !text.ends_with('\n')) return std::nullopt;
  return text == concat(mark_, ' ', machine_id(), '\n');
}

void RendezvousFile::publish(const std::string& host, int port) const {
  write_text(path_, O_APPEND, concat("at ", host, " ", port, "\n"));
}

CheckIn::CheckIn(const std::filesystem::path& path, int rank, const std::string& mark)
    : own_(path_of_check_in(path, rank)) {
  write_text(own_, O_CREAT | O_TRUNC | O_NOFOLLOW, concat(mark, ' ', machine_id(), '\n'));
}

CheckIn::~CheckIn() { unlink(own_.c_str()); }

std::optional<RendezvousPlace> read_rendezvous_file(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto type = std::filesystem::status(path, ignored).type();
  using std::filesystem::file_type;
  const bool can_be_one = type == file_type::regular || type == file_type::not_found || type == file_type::none;
  const std::string text = begin_of(path);
  if (can_be_one && text.size() <= kOpening.size() && kOpening.starts_with(text))
    return std::nullopt;  // not there, or not whole
  if (!text.starts_with(kOpening) || text.size() > kMostBytes)
    throw config_error(concat(where(path), ": is no file of a rank 0; expected a path where nothing is"));
  std::istringstream lines(text.substr(kOpening.size()));
  RendezvousPlace place;
  if (!std::getline(lines, place.mark) || lines.eof()) return std::nullopt;
  std::string at, host;
  int port = 0;
  if (text.ends_with('\n') && lines >> at >> host >> port)
    place.address = std::pair(host == host_name() ? "127.0.0.1" : host, port);
  return place;
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace penstock::detail
