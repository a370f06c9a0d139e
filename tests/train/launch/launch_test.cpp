// launch: what the variables of each launcher mean, and which contradictions are refused.
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>

#include "tests/support/testing.h"
#include "train/launch/environment.h"

namespace penstock {
namespace {

using testing::AllOf, testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

/// While it lives, the environment has `variables` and no other variables of launchers.
class LaunchTest : public testing::Test {
 protected:
  ~LaunchTest() override { clear(); }

  std::optional<LaunchedRank> launched(const Variables& variables, const std::string& dist_url = "") {
    clear();
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    return rank_from_environment(dist_url);
  }

  std::string refused(const Variables& variables, const std::string& dist_url = "") {
    return message_of(ErrorKind::kConfig, [&] { launched(variables, dist_url); });
  }

 private:
  static void clear() {
    std::vector<std::string> names;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string name = std::string(*entry).substr(0, std::string(*entry).find('='));
      for (const char* prefix : {"RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMIX_",
                                 "PENSTOCK_PARENT", "ENVIRONMENT"})
        if (name.starts_with(prefix)) names.push_back(name);
    }
    for (const auto& name : names) unsetenv(name.c_str());
  }
};

const Variables kTorchrun{{"RANK", "3"},         {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},   {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "n0"}, {"MASTER_PORT", "29500"}};
const Variables kSlurm{{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"},     {"SLURM_LOCALID", "0"},
                       {"SLURM_NNODES", "2"}, {"SLURM_JOB_ID", "70001"}, {"SLURM_JOB_NODELIST", "gpu[07-08]"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "1182662657"}};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

TEST_F(LaunchTest, NoVariablesMeanNoLauncher) { EXPECT_FALSE(launched({})); }

TEST_F(LaunchTest, TorchrunsVariablesAreRead) {
  const auto rank = launched(kTorchrun);
  ASSERT_TRUE(rank);
  EXPECT_EQ(rank->launcher, "torchrun");
  EXPECT_EQ(rank->rendezvous.rank, 3);
  EXPECT_EQ(rank->rendezvous.world_size, 4);
  EXPECT_EQ(rank->rendezvous.local_rank, 1);
  EXPECT_EQ(rank->rendezvous.host, "n0");
  EXPECT_EQ(rank->rendezvous.port, 29500);
  EXPECT_FALSE(rank->rendezvous.is_hosted);
}

TEST_F(LaunchTest, TorchrunsAgentListensItself) {
  EXPECT_TRUE(launched(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}))->rendezvous.is_hosted);
  EXPECT_EQ(launched(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "3"}}))->rendezvous.attempt, "3");
}

TEST_F(LaunchTest, RanksOfOneMachineMeetOnLoopback) {
  EXPECT_EQ(launched(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "4"}}))->rendezvous.host, "127.0.0.1");
  EXPECT_EQ(launched(with(kSlurm, {{"SLURM_NNODES", "1"}}))->rendezvous.host, "127.0.0.1");
  EXPECT_EQ(launched(kOpenMpi)->rendezvous.host, "127.0.0.1");
}

TEST_F(LaunchTest, SlurmsVariablesAreRead) {
  const auto rank = launched(kSlurm);
  ASSERT_TRUE(rank);
  EXPECT_EQ(rank->launcher, "slurm");
  EXPECT_EQ(rank->rendezvous.rank, 2);
  EXPECT_EQ(rank->rendezvous.world_size, 4);
  EXPECT_EQ(rank->rendezvous.local_rank, 0);
  EXPECT_EQ(rank->rendezvous.host, "gpu07");
  EXPECT_EQ(rank->rendezvous.port, 15000 + 70001 % 15000);
}

TEST_F(LaunchTest, TheFirstHostOfASlurmNodeListIsTaken) {
  const auto host = [&](const char* list) {
    return launched(with(kSlurm, {{"SLURM_JOB_NODELIST", list}}))->rendezvous.host;
  };
  EXPECT_EQ(host("alpha,beta"), "alpha");
  EXPECT_EQ(host("n[3,5-9],m1"), "n3");
  EXPECT_EQ(host("rack1-n[012-014]-ib,x"), "rack1-n012-ib");
  EXPECT_EQ(host("rack[2-3]-n[4,7]"), "rack2-n4");
  EXPECT_EQ(host("n[2147483647]"), "n2147483647");
}

TEST_F(LaunchTest, ABatchScriptOfSlurmIsNoRank) {
  EXPECT_FALSE(launched(with(kSlurm, {{"ENVIRONMENT", "BATCH"}})));
  EXPECT_TRUE(launched(with(kSlurm, {{"ENVIRONMENT", "BATCH"}, {"SLURM_STEP_ID", "0"}})));
}

TEST_F(LaunchTest, OpenMpisVariablesAreRead) {
  const auto rank = launched(kOpenMpi);
  ASSERT_TRUE(rank);
  EXPECT_EQ(rank->launcher, "openmpi");
  EXPECT_EQ(rank->rendezvous.rank, 1);
  EXPECT_EQ(rank->rendezvous.local_rank, 1);
  EXPECT_EQ(rank->rendezvous.port, 15000 + 1182662657 % 15000);
}

TEST_F(LaunchTest, TheOrderIsTorchrunSlurmOpenMpi) {
  EXPECT_EQ(launched(with(with(kTorchrun, kSlurm), kOpenMpi))->launcher, "torchrun");
  EXPECT_EQ(launched(with(kSlurm, kOpenMpi))->launcher, "slurm");
}

TEST_F(LaunchTest, ADistUrlSaysWhereToMeet) {
  for (const auto& variables : {kSlurm, kOpenMpi}) {
    const auto rank = launched(variables, "tcp://head:4321");
    EXPECT_EQ(rank->rendezvous.host, "head");
    EXPECT_EQ(rank->rendezvous.port, 4321);
  }
  EXPECT_EQ(launched(kSlurm, "env://")->rendezvous.host, "gpu07");
  EXPECT_EQ(launched(with(kSlurm, {{"MASTER_ADDR", "head"}, {"MASTER_PORT", "99"}}))->rendezvous.port, 99);
  EXPECT_EQ(parse_dist_url("tcp://[::1]:80"), (std::pair<std::string, int>("::1", 80)));
  for (const char* url : {"head:1", "tcp://head", "tcp://:1", "tcp://head:", "tcp://head:x", "tcp://head:70000"})
    EXPECT_THAT(refused(kSlurm, url), HasSubstr("--dist-url")) << url;
}

TEST_F(LaunchTest, EveryKindOfDistUrlIsAPlace) {
  Rendezvous file, env, tcp;
  meet_at(file, "file:///shared/run-7");
  EXPECT_EQ(file.file, "/shared/run-7");
  meet_at(tcp, "tcp://head:4321");
  EXPECT_EQ(std::pair(tcp.host, tcp.port), (std::pair<std::string, int>("head", 4321)));
  launched({{"MASTER_ADDR", "head"}, {"MASTER_PORT", "99"}});
  env.world_size = 2;
  meet_at(env, "env://");
  EXPECT_EQ(std::pair(env.host, env.port), (std::pair<std::string, int>("head", 99)));
  launched({});
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { meet_at(env, "env://"); }),
              HasSubstr("--dist-url env://: MASTER_ADDR is not set"));
  EXPECT_THAT(message_of(ErrorKind::kConfig, [&] { meet_at(env, "file://relative"); }), HasSubstr("file:///path"));
}

TEST_F(LaunchTest, ContradictionsAreRefused) {
  EXPECT_THAT(refused(with(kTorchrun, {{"RANK", "4"}})), AllOf(HasSubstr("RANK is 4"), HasSubstr("WORLD_SIZE is 4")));
  EXPECT_THAT(refused(with(kTorchrun, {{"RANK", "x"}})), HasSubstr("RANK is \"x\"; expected a number"));
  EXPECT_THAT(refused(with(kTorchrun, {{"RANK", "-1"}})), HasSubstr("RANK is \"-1\""));
  EXPECT_THAT(refused(with(kTorchrun, {{"WORLD_SIZE", "0"}})), HasSubstr("WORLD_SIZE is \"0\""));
  EXPECT_THAT(refused(with(kTorchrun, {{"LOCAL_RANK", "4"}})), HasSubstr("LOCAL_RANK is 4"));
  EXPECT_THAT(refused(with(kTorchrun, {{"MASTER_PORT", "66000"}})), HasSubstr("MASTER_PORT"));
  EXPECT_THAT(refused({{"RANK", "0"}}), HasSubstr("WORLD_SIZE is not set"));
  EXPECT_THAT(refused({{"WORLD_SIZE", "2"}}), HasSubstr("RANK is not set"));
  EXPECT_THAT(refused({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), HasSubstr("MASTER_PORT is not set"));
  EXPECT_THAT(refused({{"SLURM_PROCID", "0"}}), HasSubstr("SLURM_NTASKS is not set"));
  EXPECT_THAT(refused(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}})), HasSubstr("--dist-url"));
}

}  // namespace
}  // namespace penstock
