// Hostfile: what its lines, choices of slots and lists of nodes mean, and which are refused; and the commands of ssh.
#include "train/launch/hostfile.h"

#include <gmock/gmock.h>

#include <fstream>

#include "core/error.h"
#include "tests/support/testing.h"
#include "train/launch/command.h"

namespace penstock {
namespace {

using testing::ElementsAre, testing::HasSubstr;

class HostfileTest : public testing::Test {
 protected:
  std::vector<Host> hosts_in(const std::string& text) const {
    const auto path = folder_.path() / "hosts";
    std::ofstream(path) << text;
    return read_hostfile(path);
  }
  std::string refused(const std::string& text) const {
    return message_of(ErrorKind::kConfig, [&] { hosts_in(text); });
  }

 private:
  TemporaryFolder folder_{"hostfile"};
};

const Host kWorker0{"worker-0", {0, 1}}, kWorker1{"worker-1", {0, 1, 2}};
const std::vector<Host> kWorkers{kWorker0, kWorker1};

TEST_F(HostfileTest, LinesAreHostsWithSlots) {
  EXPECT_EQ(hosts_in("# all\nworker-0 slots=2\n\n  worker-1\tslots=3  # new\n"), kWorkers);
}

TEST_F(HostfileTest, BadLinesAreNamed) {
  EXPECT_THAT(refused(""), HasSubstr("hosts: 0 hosts; expected lines such as worker-0 slots=4"));
  EXPECT_THAT(refused("a slots=1\nb\n"), HasSubstr("line 2 is \"b\"; expected HOST slots=N"));
  EXPECT_THAT(refused("a slots=0\n"), HasSubstr("line 1: a has \"slots=0\"; expected slots=1 to"));
  EXPECT_THAT(refused("a slots=x\n"), HasSubstr("line 1: a has \"slots=x\""));
  EXPECT_THAT(refused("a slots=1 more\n"), HasSubstr("line 1 is"));
  EXPECT_THAT(refused("-oProxyCommand=x slots=1\n"), HasSubstr("line 1 is"));
  EXPECT_THAT(refused("a slots=1\n\na slots=2\n"),
              HasSubstr("line 3: a is in line 1 already; expected every host once"));
  EXPECT_THAT(message_of(ErrorKind::kIo, [] { read_hostfile("/nowhere"); }),
              HasSubstr("--hostfile /nowhere: No such file"));
  EXPECT_EQ(message_of(ErrorKind::kIo, [] { read_hostfile("/dev/zero"); }),
            "--hostfile /dev/zero: not a regular file; expected one, with lines such as worker-0 slots=4");
}

TEST_F(HostfileTest, IncludeAndExcludeAreThoseOfDeepSpeed) {
  EXPECT_EQ(chosen_hosts(kWorkers, "", ""), kWorkers);
  EXPECT_THAT(chosen_hosts(kWorkers, "worker-1:0,2@worker-0", ""),
              ElementsAre(kWorker0, Host{"worker-1", {0, 2}, true}));
  EXPECT_THAT(chosen_hosts(kWorkers, "worker-1", ""), ElementsAre(kWorker1));
  EXPECT_THAT(chosen_hosts(kWorkers, "", "worker-1:0"), ElementsAre(kWorker0, Host{"worker-1", {1, 2}, true}));
  EXPECT_THAT(chosen_hosts(kWorkers, "", "worker-0"), ElementsAre(kWorker1));
}

TEST_F(HostfileTest, WrongChoicesAreRefused) {
  const auto refused = [](const std::string& include, const std::string& exclude) {
    return message_of(ErrorKind::kConfig, [&] { chosen_hosts(kWorkers, include, exclude); });
  };
  EXPECT_THAT(refused("worker-0", "worker-1"), HasSubstr("expected one of the two"));
  EXPECT_THAT(refused("worker-2", ""), HasSubstr("--include: unknown host \"worker-2\"; did you mean"));
  EXPECT_THAT(refused("", "worker-1:3"),
              HasSubstr("--exclude is \"worker-1:3\": worker-1 has no slot \"3\"; expected 0 to 2"));
  EXPECT_THAT(refused("worker-1:", ""), HasSubstr("no slot \"\""));
  EXPECT_THAT(refused("worker-1@worker-1", ""), HasSubstr("worker-1 is there twice"));
  EXPECT_THAT(refused("", "worker-0@worker-1"), HasSubstr("no slot is left"));
}

TEST_F(HostfileTest, ListsOfSlurmAreExpanded) {
  EXPECT_THAT(expand_node_list("n[01-03,7],gpu"), ElementsAre("n01", "n02", "n03", "n7", "gpu"));
  EXPECT_THAT(expand_node_list("r[1-2]n[8-9]-ib"), ElementsAre("r1n8-ib", "r1n9-ib", "r2n8-ib", "r2n9-ib"));
  EXPECT_THAT(expand_node_list("n[098-101]"), ElementsAre("n098", "n099", "n100", "n101"));
  for (const char* list : {"n[1-", "n1]", "n[a-b]", "n[3-1]", "n[]", "n[1-99999999]"})
    EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { expand_node_list(list); }), HasSubstr("node list")) << list;
  // Many ranges, each of which is allowed.
  std::string many = "n[1-1000000";
  for (int i = 0; i < 999; ++i) many += ",1-1000000";
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { expand_node_list(many + "]"); }),
              HasSubstr(": more than 1048576 nodes; expected fewer"));
}

TEST_F(HostfileTest, EverySlotIsOneSsh) {
  const auto commands =
      ssh_ranks({kWorker0, {"worker-1", {0, 2}, true}}, {"--mode", "pipeline(data=2)"}, {"head", 4321}, 600);
  ASSERT_EQ(commands.size(), 4U);
  for (const auto& command : commands) EXPECT_EQ(command.program, "ssh");
  const std::string text = to_text(commands[3]);
  EXPECT_THAT(text, HasSubstr("ssh -T -o BatchMode=yes -o ConnectTimeout=30 "));
  EXPECT_THAT(text, HasSubstr(" worker-1 'cd "));
  for (const char* part : {"RANK=3 ", "WORLD_SIZE=4 ", "LOCAL_RANK=1 ", "LOCAL_WORLD_SIZE=2 ", "MASTER_ADDR=head ",
                           "MASTER_PORT=4321 ", "CUDA_VISIBLE_DEVICES=0,2 ", "PENSTOCK_CONTROL=stdin "})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(commands[3].arguments.back(), testing::EndsWith(" --mode 'pipeline(data=2)'"));
  EXPECT_EQ(to_text(commands[0]).find("CUDA_VISIBLE_DEVICES"), std::string::npos);
  EXPECT_THAT(to_text(ssh_ranks(kWorkers, {}, {}, 5).back()), HasSubstr("MASTER_ADDR=worker-0 "));
}

TEST(WithoutFlagTest, TakesEveryFormAway) {
  EXPECT_THAT(without_flag({"--keep", "2", "--resume", "auto", "-j", "1"}, "--resume"),
              ElementsAre("--keep", "2", "-j", "1"));
  EXPECT_THAT(without_flag({"--resume=x", "--resume-not", "y"}, "--resume"), ElementsAre("--resume-not", "y"));
  EXPECT_THAT(without_flag({"--dry-run", "--keep"}, "--dry-run", false), ElementsAre("--keep"));
}

}  // namespace
}  // namespace penstock
