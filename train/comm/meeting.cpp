// Meeting: one thread that may block in LibTorch's store, and one that watches it and the clock.
#include "train/comm/meeting.h"

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "train/comm/address.h"
#include "train/comm/meeting_file.h"
#include "train/short_message.h"

namespace penstock::detail {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds, std::chrono::milliseconds;

constexpr milliseconds kPollEvery{20};
constexpr int kConnectTimeoutMs = 2000;      // for one address, where packets are dropped without an answer
constexpr milliseconds kLastLookTime{2000};  // rank 0 keeps the store open for ranks that read why the meeting failed

const char* const kRefusal = "refusal";

std::string key(const char* what, int rank) { return concat(what, "/", rank); }

std::vector<int> missing_ranks(c10d::Store& store, int world_size) {
  std::vector<int> missing;
  for (int rank = 0; rank < world_size; ++rank)
    if (!store.check({key("terms", rank)})) missing.push_back(rank);
  return missing;
}

/// Ends this rank's part of a meeting that failed. The store goes with rank 0, so it waits until all that have arrived
/// have read why.
void leave(c10d::Store& store, int rank, bool has_arrived) {
  if (has_arrived) store.add("left", 1);
  if (rank != 0) return;
  const auto deadline = Clock::now() + kLastLookTime;
  while (Clock::now() < deadline && store.add("left", 0) < store.add("arrived", 0))
    std::this_thread::sleep_for(kPollEvery);
}

/// Every rank that is there or comes later ends with this message.
[[noreturn]] void refuse(c10d::Store& store, int rank, const std::string& message, bool has_arrived = true) {
  store.compareSet(kRefusal, std::string(), message);
  leave(store, rank, has_arrived);
  throw config_error(message);
}

/// Must be called before a rank counts itself as arrived: the ranks of another world size would count it too, and might
/// take it for their last one and go on.
void check_world_size(c10d::Store& store, const Rendezvous& rendezvous) {
  const std::string mine = std::to_string(rendezvous.world_size);
  const std::string theirs = store.compareSet("world-size", std::string(), mine);
  if (theirs != mine)
    refuse(store, rendezvous.rank,
           concat("rank ", rendezvous.rank, ": the world size is ", mine, "; expected ", theirs,
                  ", as the rank that came first has it"),
           /*has_arrived=*/false);
}

void wait_for_all(c10d::Store& store, const Rendezvous& rendezvous,
                  const std::function<void(const std::string&)>& wait_for) {
  int64_t known_count = -1;
  std::string missing;
  while (true) {
    if (store.check({kRefusal})) refuse(store, rendezvous.rank, store.get_to_str(kRefusal));
    const int64_t count = store.add("arrived", 0);
    if (count >= rendezvous.world_size) return;
    if (count != std::exchange(known_count, count)) missing = ranks_text(missing_ranks(store, rendezvous.world_size));
    wait_for(missing);
    std::this_thread::sleep_for(kPollEvery);
  }
}

/// What the two threads of a meeting share. The blocking one may outlive meet(), until the process ends.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  std::string waited_for;  // "rank 1"
  std::string note;        // what else there is to say of the place where ranks meet
  bool is_done = false, is_given_up = false;
  std::exception_ptr error;
  c10::intrusive_ptr<c10d::Store> store;

  void wait_for(const std::string& ranks, const std::string& said_of_the_place = "") {
    const std::lock_guard lock(mutex);
    // Nobody reads this one: it ends the thread, and whoever gave up has said which ranks are missing.
    if (is_given_up) throw device_error("rendezvous: the time is over; expected all ranks");
    waited_for = ranks;
    note = said_of_the_place;
  }
  /// Whether the thread that meets has ended, or does so at once.
  bool give_up() {
    std::unique_lock lock(mutex);
    is_given_up = true;
    return changed.wait_for(lock, 5 * kPollEvery, [&] { return is_done; });
  }
  void end(c10::intrusive_ptr<c10d::Store> result, std::exception_ptr failure) {
    const std::lock_guard lock(mutex);
    is_done = true;
    store = std::move(result);
    error = std::move(failure);
    changed.notify_all();
  }
};

std::string place(const Rendezvous& rendezvous) {
  if (!rendezvous.file.empty()) return concat("file://", rendezvous.file);
  return concat(rendezvous.host, ":", rendezvous.port);
}

/// `note` is said of the place, as long as its name resolves.
void wait_for_rank_0(Progress& progress, const Lookup& lookup, const std::string& note = "") {
  const std::string& failure = lookup.failure();
  progress.wait_for("rank 0", failure.empty() ? note : concat(", a name that does not resolve yet (", failure, ")"));
  std::this_thread::sleep_for(kPollEvery);
}

std::vector<Address> wait_for_addresses(Progress& progress, Lookup& lookup) {
  while (lookup.addresses().empty()) wait_for_rank_0(progress, lookup);
  return lookup.addresses();
}

/// The address at which somebody accepts connections. LibTorch's own client tells of every try that fails, with stack
/// frames, and would ask for the host's addresses once more.
Address wait_for_listener(Progress& progress, Lookup& lookup, int port, const std::string& note) {
  while (true) {
    for (const Address& address : lookup.addresses())
      if (is_listening(address, port, kConnectTimeoutMs)) return address;
    wait_for_rank_0(progress, lookup, note);
  }
}

/// Where rank 0 listens, from the file into which it writes that.
std::pair<std::string, int> wait_for_file(Progress& progress, const std::string& file) {
  while (true) {
    if (auto written = read_meeting_file(file)) return *written;
    progress.wait_for("rank 0");
    std::this_thread::sleep_for(kPollEvery);
  }
}

/// Rank 0 of a run that meets by a file: listens at any free port.
int listen_and_write(const Rendezvous& rendezvous, std::optional<MeetingFile>& file) {
  std::optional<Address> address;
  if (!rendezvous.interface.empty()) address = address_of_interface(rendezvous.interface);
  const int socket = listen_at(address, 0);
  file.emplace(rendezvous.file, address ? address->text() : host_name(), port_of(socket));
  return socket;
}

/// `file` is written by rank 0 if the ranks meet by one.
c10::intrusive_ptr<c10d::Store> connect(Progress& progress, const Rendezvous& rendezvous,
                                        std::optional<MeetingFile>& file) {
  auto [host, port] = std::pair(rendezvous.host, rendezvous.port);
  std::optional<int> listening;  // rank 0's socket
  const bool listens = rendezvous.rank == 0 && !rendezvous.is_hosted, has_file = !rendezvous.file.empty();
  if (listens && has_file) {
    listening = listen_and_write(rendezvous, file);
    const auto own = read_meeting_file(rendezvous.file);
    if (!own)
      throw io_error(
          concat("--dist-url file://", rendezvous.file, ": was removed while ranks met; expected it to stay"));
    std::tie(host, port) = *own;
  } else if (has_file) {
    std::tie(host, port) = wait_for_file(progress, rendezvous.file);
  }
  Lookup lookup(host);
  if (listens && !has_file) {
    const auto address = address_to_listen_on(rendezvous.host, rendezvous.interface,
                                              [&](const std::string&) { return wait_for_addresses(progress, lookup); });
    listening = listen_at(address, port);
    if (address) host = address->text();
  } else if (!listens) {
    const std::string note = has_file ? concat(", which names ", host, ":", port, ", where nobody listens") : "";
    host = wait_for_listener(progress, lookup, port, note).text();
  }
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.isServer = listening.has_value();
  options.masterListenFd = listening;
  options.numWorkers = rendezvous.world_size;
  options.waitWorkers = false;  // agree() waits, and says for whom
  options.timeout = seconds(rendezvous.meeting_seconds);
  return c10::make_intrusive<c10d::PrefixStore>(concat("penstock/", rendezvous.attempt),
                                                c10::make_intrusive<c10d::TCPStore>(host, options));
}

Error store_error(const Rendezvous& rendezvous, const std::exception& error) {
  const std::string text = short_message(error);
  return device_error(concat("rank ", rendezvous.rank, ": rendezvous at ", place(rendezvous), ": ",
                             text.substr(0, text.find('\n')), "; expected rank 0 there until all ranks have met"));
}

void attend(const std::shared_ptr<Progress>& progress, const Rendezvous& rendezvous, const Terms& terms) {
  try {
    std::optional<MeetingFile> file;
    auto store = connect(*progress, rendezvous, file);
    agree(*store, rendezvous, terms, [&](const std::string& ranks) { progress->wait_for(ranks); });
    progress->end(std::move(store), nullptr);
  } catch (const Error&) {
    progress->end({}, std::current_exception());
  } catch (const std::exception& error) {
    progress->end({}, std::make_exception_ptr(store_error(rendezvous, error)));
  }
}

/// Until the meeting is done. Throws at the deadline.
void watch(Progress& progress, const Rendezvous& rendezvous, const Meeting& meeting) {
  const auto start = Clock::now(), deadline = start + seconds(rendezvous.meeting_seconds);
  std::unique_lock lock(progress.mutex);
  for (double line_after = meeting.say_after_seconds;; line_after *= 2) {
    const auto line_due = start + milliseconds(std::llround(line_after * 1e3));
    progress.changed.wait_until(lock, std::min(deadline, line_due), [&] { return progress.is_done; });
    if (progress.is_done) return;
    const std::string whom =
        concat(progress.waited_for, " of ", rendezvous.world_size, " at ", place(rendezvous), progress.note);
    if (Clock::now() >= deadline)
      throw device_error(concat("rank ", rendezvous.rank, ": waited ", rendezvous.meeting_seconds, " s for ", whom,
                                "; expected all ranks there, with the same --dist-url (or a longer --timeout)"));
    lock.unlock();
    meeting.say(concat("waiting for ", whom, ", ", line_after, " s"));
    lock.lock();
  }
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr size_t kMost = 3;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(ranks.size(), kMost); ++i) text += concat(i == 0 ? "" : ", ", ranks[i]);
  return ranks.size() <= kMost ? text : concat(text, " and ", ranks.size() - kMost, " more");
}

void agree(c10d::Store& store, const Rendezvous& rendezvous, const Terms& terms,
           const std::function<void(const std::string&)>& wait_for) {
  const int rank = rendezvous.rank, world_size = rendezvous.world_size;
  if (store.add(key("place", rank), 1) > 1)
    throw device_error(concat("rank ", rank, ": there is a rank ", rank, " at ", place(rendezvous),
                              " already; expected every rank once (after a rank has ended, start all anew)"));
  check_world_size(store, rendezvous);
  store.set(key("terms", rank), to_text(terms));
  store.add("arrived", 1);
  wait_for_all(store, rendezvous, wait_for);
  std::vector<Terms> all;
  for (int other = 0; other < world_size; ++other) all.push_back(parse_terms(store.get_to_str(key("terms", other))));
  if (const std::string difference = difference_of(all); !difference.empty()) refuse(store, rank, difference);
}

c10::intrusive_ptr<c10d::Store> meet(const Rendezvous& rendezvous, const Meeting& meeting) {
  const auto progress = std::make_shared<Progress>();
  progress->waited_for = "rank 0";
  std::thread worker([=, terms = meeting.terms] { attend(progress, rendezvous, terms); });
  try {
    watch(*progress, rendezvous, meeting);
  } catch (...) {
    if (progress->give_up())
      worker.join();
    else
      worker.detach();  // nothing ends a read of LibTorch's but the process
    throw;
  }
  worker.join();
  if (progress->error) std::rethrow_exception(progress->error);
  return progress->store;
}

}  // namespace penstock::detail
