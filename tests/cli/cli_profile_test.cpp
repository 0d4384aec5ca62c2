// `autotune explain --profile`: counters from a script in place of ncu, with known answers.
#include <gmock/gmock.h>

#include "tests/cli/program.hpp"
#include "tests/cli/report_samples.hpp"

namespace cli_test::cli_profile_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Call n, launch i has a time of n,00i,000 ns, and shares, bytes and a stall that follow from n and
// i. One metric has no value, and others have no column.
const std::string kNcu = R"(
printf '%s\n' "$*" >> "${0%/*}/calls"
while [ "$1" != --launch-count ]; do shift; done
n=$(wc -l < "${0%/*}/calls")
echo '==PROF== Connected to process 7 (autotune)'
echo '==PROF== Profiling "simt" - 0: 0%....50%....100% - 9 passes'
echo '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","dram__bytes.sum","gpu__time_duration.sum","lts__throughput.avg.pct_of_peak_sustained_elapsed","sm__inst_issued.avg.pct_of_peak_sustained_active","smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"'
echo '"","","","","","","","","","","","byte","ns","%","%","inst"'
i=0
while [ $i -lt $2 ]; do
  echo "\"$i\",\"7\",\"autotune\",\"127.0.0.1\",\"simt\",\"1\",\"13\",\"(256, 1, 1)\",\"(64, 1, 1)\",\"0\",\"9.0\",\"1048576\",\"$n,00$i,000\",\"n/a\",\"8$n.50\",\"0.2$n\""
  i=$((i+1))
done
echo '==PROF== Disconnected from process 7'
)";

class CliProfile : public ProgramTest {
 protected:
  CliProfile() {
    hide_gpus();
    unset("CUDA_HOME"), unset("CUDA_PATH");
    tilewise::Database made = tilewise::Database::open(database());
    fill_samples(made, {.candidates = 40});
    fs::create_directories(file("tools"));
  }
  void put_ncu(const std::string& body) {
    write(file("tools/ncu"), "#!/bin/sh\n" + body);
    fs::permissions(file("tools/ncu"), fs::perms::owner_all);
    fs::remove(file("tools/calls"));
    set("PATH", file("tools").string() + ":/usr/bin:/bin");
  }
  Result profile(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"explain", "--profile", "--gpu", "H200", "--sizes", "1024"});
    return run(more);
  }
};

TEST_F(CliProfile, CountersOfBothCandidatesAreMediansOfTheirLaunches) {
  put_ncu(kNcu);
  const Result result = profile({"--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = result.json().at("explanations").at(0), &counters = json.at("profile");
  EXPECT_EQ(counters.at("launches"), 3);
  EXPECT_EQ(counters.at("serving").at("candidate"), json.at("candidate"));
  EXPECT_EQ(counters.at("runner_up").at("candidate"),
            json.at("measured").at("fastest_others").at(0).at("candidate"));
  int call = 0;
  for (const char* who : {"serving", "runner_up"}) {
    ++call;
    const Json& steps = counters.at(who).at("steps");
    ASSERT_GE(steps.size(), 1);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      EXPECT_EQ(steps[s].at("us"), 1000 * call + static_cast<int>(s + steps.size()))
          << "the second of three launches of the step";
      EXPECT_DOUBLE_EQ(steps[s].at("issue_slots"), 0.805 + 0.01 * call);
      EXPECT_EQ(steps[s].at("dram_bytes"), 1048576);
      EXPECT_TRUE(steps[s].at("l2").is_null()) << "n/a";
      EXPECT_TRUE(steps[s].at("occupancy").is_null()) << "no such column";
      EXPECT_DOUBLE_EQ(steps[s].at("stalls").at("long_scoreboard"), 0.2 + 0.01 * call);
    }
  }
}

TEST_F(CliProfile, NcuCountsTheLaunchesOfThePlanAfterOneThatWarmsUp) {
  put_ncu(kNcu);
  const Json counters =
      profile({"--json", "--db", database()}).json().at("explanations").at(0).at("profile");
  std::ifstream calls(file("tools/calls"));
  for (const char* who : {"serving", "runner_up"}) {
    const std::size_t steps = counters.at(who).at("steps").size();
    std::string call;
    std::getline(calls, call);
    EXPECT_THAT(call, AllOf(HasSubstr("--launch-skip " + std::to_string(steps) + " "),
                            HasSubstr("--launch-count " + std::to_string(3 * steps) + " "),
                            HasSubstr(" launch --device all --key NVIDIA H200|9.0|132 "),
                            HasSubstr("--sizes 1024x1024x1024"), HasSubstr("--times 4"),
                            HasSubstr("--db " + database().string()), HasSubstr("stalled_gmma")));
    for (const Json& step : counters.at(who).at("steps"))
      EXPECT_THAT(call, HasSubstr(step.at("kernel").get<std::string>()));
  }
}

TEST_F(CliProfile, WordsSayTheSame) {
  put_ncu(kNcu);
  const Result result = profile();
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("Counters"), HasSubstr("runner-up"),
                                HasSubstr("issue slots"), HasSubstr("81.5%"), HasSubstr("82.5%"),
                                HasSubstr("1.0 MiB"), HasSubstr("stall, long scoreboard"),
                                Not(HasSubstr("nan")), Not(HasSubstr("==PROF=="))));
}

TEST_F(CliProfile, WithoutNcuTheErrorSaysWhereItWasLookedFor) {
  const Result result = profile();
  if (result.status == 0 || result.err.find("not found on PATH") == std::string::npos)
    GTEST_SKIP() << "this machine has ncu in its usual place";
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("needs NVIDIA's ncu"), HasSubstr("--ncu")));
  EXPECT_THAT(profile({"--ncu", "/nowhere"}).err, HasSubstr("there is no ncu at '/nowhere'"));
  put_ncu(kNcu);
  unset("PATH");
  EXPECT_EQ(profile({"--ncu", file("tools").string()}).status, 0);
}

TEST_F(CliProfile, CountersThatAreNotPermittedAreNamed) {
  put_ncu(
      "echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
      "Performance Counters on the target device 0.'\n");
  const Result result = profile();
  EXPECT_EQ(result.status, 1) << "whatever ncu's own status";
  EXPECT_THAT(result.err, AllOf(HasSubstr("ERR_NVGPUCTRPERM"),
                                HasSubstr("NVreg_RestrictProfilingToAdminUsers=0")));
}

TEST_F(CliProfile, FailuresOfNcuAndOfTheProgramAreRepeated) {
  put_ncu("echo '==ERROR== Failed to find metric x'; exit 1\n");
  Result result = profile();
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("Failed to find metric x"));
  put_ncu("while [ \"$1\" != --metrics ]; do shift; done; shift 2; \"$@\"\n");  // no counters
  result = profile();
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("autotune: error: ")) << "there is no GPU here";
  put_ncu("echo '==WARNING== No kernels were profiled.'\n");
  EXPECT_THAT(profile().err, HasSubstr("No kernels were profiled"));
  put_ncu(kNcu.substr(0, kNcu.find("while [ $i")));  // a table without rows
  EXPECT_THAT(profile().err, HasSubstr("ncu measured 0 of "));
}

TEST_F(CliProfile, TheCpuHasNoCounters) {
  put_ncu(kNcu);
  const Result result = run({"explain", "--profile", "--device", "host", "--sizes", "64"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("counters of a GPU"));
  EXPECT_EQ(run({"explain", "--gpu", "H200", "--sizes", "64", "--ncu", "x"}).status, 2);
}

// The program that ncu starts: it launches only the candidate.
TEST_F(CliProfile, OneCandidateIsLaunched) {
  const auto launch = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"launch", "--device", "host", "--sizes", "63x40x50"});
    return run(more);
  };
  const Result result = launch({"--only", "simt", "--times", "2"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("launched 2 times"));
  EXPECT_EQ(launch({"--only", "mma", "--dtype", "bf16", "--layout", "tn", "-q"}).err, "");
  EXPECT_EQ(launch({}).status, 2) << "a candidate is needed";
  const Result other = launch({"--only", "simt", "--key", "NVIDIA H200|9.0|132"});
  EXPECT_EQ(other.status, 3);
  EXPECT_THAT(other.err, HasSubstr("there is no NVIDIA H200|9.0|132 in this machine, which has "));
}

}  // namespace
}  // namespace cli_test::cli_profile_test
