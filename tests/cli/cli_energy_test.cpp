// Winners by energy in query, explain, report and JSON; the option --objective.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/program.hpp"
#include "tests/cli/report_samples.hpp"

namespace cli_test::cli_energy_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CliEnergy : public ProgramTest {
 protected:
  CliEnergy() { hide_gpus(); }
  /// One problem, whose winner has its own energy and is the third fastest.
  void fill(double energy_mj, tilewise::Objective objective) const {
    using namespace tilewise;
    Database made = Database::open(database());
    fill_samples(made, {.problems = 1, .candidates = 60});
    RecordFilter ok;
    ok.outcome = Outcome::ok;
    std::vector<Record> records = made.records(ok);
    std::sort(records.begin(), records.end(), [](const Record& x, const Record& y) {
      return x.measurement->median_us < y.measurement->median_us;
    });
    Record& chosen = records.at(2);
    chosen.measurement->energy_mj = energy_mj;
    chosen.measurement->power_limit_w = 650;
    made.set_winner(made.add(chosen), objective);
  }
  std::string out(const std::vector<std::string>& arguments) {
    const Result result = run(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }
};

TEST_F(CliEnergy, AWinnerByEnergySaysSo) {
  fill(43.21, tilewise::Objective::energy);
  EXPECT_THAT(out({"query"}), AllOf(HasSubstr("(by energy) "), HasSubstr("43.2 mJ")));
  const Json winner = run({"query", "--json"}).json().at("gpus").at(0).at("winners").at(0);
  EXPECT_EQ(winner.at("objective"), "energy");
  EXPECT_EQ(winner.at("measurement").at("energy_mj"), 43.21);
  EXPECT_EQ(winner.at("measurement").at("power_limit_w"), 650);
  const std::vector<std::string> explain{"explain", "--gpu", "H200", "--sizes", "1024"};
  EXPECT_THAT(
      out(explain),
      AllOf(HasSubstr("energy: 43.2 mJ a product, measured"), HasSubstr("power limit 650 W"),
            HasSubstr("chosen by energy, not by time"), Not(HasSubstr("fastest of"))));
  std::vector<std::string> as_json = explain;
  as_json.emplace_back("--json");
  const Json measured = run(as_json).json().at("explanations").at(0).at("measured");
  EXPECT_EQ(measured.at("objective"), "energy");
  EXPECT_EQ(measured.at("certainty"), nullptr);
  EXPECT_LT(measured.at("fastest_others").at(0).at("ratio"), 1) << "one is faster";
}

TEST_F(CliEnergy, AnEnergyByOneReadingOfThePowerIsSaidToBeThat) {
  fill(0, tilewise::Objective::time);
  EXPECT_THAT(out({"query"}), AllOf(Not(HasSubstr("mJ")), Not(HasSubstr("by energy"))));
  EXPECT_THAT(out({"query", "-v"}), HasSubstr("about "));
  EXPECT_EQ(run({"query", "--json"}).json().at("gpus").at(0).at("winners").at(0).at("objective"),
            "time");
  EXPECT_THAT(out({"explain", "--gpu", "H200", "--sizes", "1024"}),
              AllOf(HasSubstr("energy: about "), HasSubstr("by one reading of the power"),
                    Not(HasSubstr("chosen by energy"))));
}

TEST_F(CliEnergy, IsRefusedOnTheCpuBeforeAnythingIsMeasured) {
  for (const char* device : {"host", "auto", "host:sm_90"}) {
    const Result result =
        run({"tune", "--device", device, "--sizes", "33", "--objective", "energy"});
    EXPECT_EQ(result.status, 2) << device;
    EXPECT_THAT(result.err, AllOf(HasSubstr("reports neither"), HasSubstr("the objective time")));
    EXPECT_FALSE(std::filesystem::exists(database()));
  }
}

TEST_F(CliEnergy, OtherObjectivesAreRefusedByName) {
  const Result result = run({"tune", "--device", "host", "--sizes", "33", "--objective", "power"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("--objective"), HasSubstr("\"power\""), HasSubstr("time, energy")));
}

TEST_F(CliEnergy, HasThreeDigitsWhereItWasMeasuredAndTwoWhereNot) {
  const std::pair<double, const char*> cases[] = {{0.012345, "12.3 uJ"},
                                                  {1.2345, "1.23 mJ"},
                                                  {123.45, "123 mJ"},
                                                  {12345, "12.3 J"},
                                                  {1234567, "1230 J"}};
  for (const auto& [mj, text] : cases) {
    std::filesystem::remove(database());
    fill(mj, tilewise::Objective::energy);
    EXPECT_THAT(out({"query"}), HasSubstr(std::string("  ") + text + "  "));
  }
  std::filesystem::remove(database());
  fill(0, tilewise::Objective::time);
  EXPECT_THAT(out({"query", "-v"}),
              testing::ContainsRegex("about ([0-9]0* |[0-9][0-9]0* |[0-9]\\.[0-9] )(uJ|mJ|J)"));
}

}  // namespace
}  // namespace cli_test::cli_energy_test
