// `autotune explain`: why a configuration is served, in words and in numbers.
#include <gmock/gmock.h>

#include "tests/cli/program.hpp"
#include "tests/cli/report_samples.hpp"

namespace cli_test::cli_explain_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CliExplain : public ProgramTest {
 protected:
  CliExplain() { hide_gpus(); }
  void fill(const SampleOptions& options) const {
    tilewise::Database made = tilewise::Database::open(database());
    fill_samples(made, options);
  }
  /// Samples whose winner splits k into as many parts as the GPU takes.
  void fill_with_unfixed_order() const {
    fill({.candidates = 40});
    tilewise::Database made = tilewise::Database::open(database());
    tilewise::Winner winner = made.winners().front();
    winner.record.candidate.configuration.set("SPLIT_K", 0);
    winner.record.id = 0;
    made.set_winner(made.add(winner.record));
  }
  Json explained(const std::string& sizes) {
    const Result result = run({"explain", "--gpu", "H200", "--sizes", sizes, "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.json().at("explanations").at(0);
  }
};

TEST_F(CliExplain, AnExactMatchIsComparedWithItsRivals) {
  fill({.candidates = 60});
  const Json json = explained("1024");
  EXPECT_EQ(json.at("match"), "exact");
  const Json &measured = json.at("measured"), &record = json.at("record");
  EXPECT_EQ(measured.at("candidates"), 60);
  const double us = record.at("measurement").at("median_us");
  ASSERT_EQ(measured.at("fastest_others").size(), 5);
  double before = 1;
  for (const Json& rival : measured.at("fastest_others")) {
    EXPECT_GE(rival.at("ratio"), before) << "the winner is the fastest, the others are in order";
    EXPECT_NEAR(rival.at("median_us"), us * rival.at("ratio").get<double>(), 1e-6 * us);
    before = rival.at("ratio");
    const bool same =
        rival.at("candidate").at("kernel_template") == json.at("candidate").at("kernel_template");
    EXPECT_EQ(rival.at("differences").empty(), !same);
  }
  std::int64_t rejected = 0;
  for (const Json& rejection : measured.at("rejections"))
    rejected += rejection.at("count").get<int>();
  EXPECT_EQ(rejected, measured.at("rejected"));
  EXPECT_EQ(measured.at("baselines").at(0).at("library"), "cuBLAS");
  EXPECT_GT(measured.at("model").at("place"), 0);
  EXPECT_EQ(measured.at("model").at("ranked"), 60 - rejected);
  EXPECT_GT(measured.at("model").at("rank_correlation"), 0.5) << "the samples are the model's";
  EXPECT_GT(json.at("roof_us"), 0);
  EXPECT_LT(json.at("roof_us"), us);
}

TEST_F(CliExplain, TheModelStatesEachResource) {
  fill({.candidates = 20});
  const Json cost = explained("1024").at("cost_model");
  double sum = 0;
  for (const Json& step : cost.at("steps")) {
    sum += step.at("us").get<double>();
    EXPECT_EQ(step.at("alone_us").size(), 7);
    for (const auto& [name, alone] : step.at("alone_us").items())
      EXPECT_LE(alone, step.at("us").get<double>()) << name;
  }
  EXPECT_NEAR(sum, cost.at("us"), 1e-6 * sum);
  EXPECT_EQ(explained("1024").at("highest_clock_mhz"), 1980) << "the samples ran at 1755 MHz";
}

TEST_F(CliExplain, APredictedMatchIsExplainedByTheProblemThatWasMeasured) {
  fill({.candidates = 20});
  const Json json = explained("1000x900x1100");
  EXPECT_EQ(json.at("match"), "predicted");
  EXPECT_EQ(json.at("problem").at("m"), 1000);
  EXPECT_EQ(json.at("measured").at("problem").at("m"), 1024);
  EXPECT_GT(json.at("expected_us"), 0);
}

TEST_F(CliExplain, TheOrderOfSumsFollowsTheConfiguration) {
  fill_with_unfixed_order();
  const Json stored = explained("1024");
  ASSERT_EQ(stored.at("candidate").at("configuration").at("SPLIT_K"), 0)
      << "as many as the GPU takes";
  EXPECT_TRUE(stored.at("sum_order").is_null());
  const Result cpu = run({"explain", "--device", "host", "--sizes", "64", "--json"});
  ASSERT_EQ(cpu.status, 0) << cpu.err;
  EXPECT_THAT(cpu.json().at("explanations").at(0).at("sum_order").get<std::string>(),
              HasSubstr("fused"));
}

TEST_F(CliExplain, WordsSayTheSame) {
  fill_with_unfixed_order();
  const Result result = run({"explain", "--sizes", "1024"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("match: exact"), HasSubstr("configuration: "),
                                HasSubstr("order of sums: not fixed"), HasSubstr("of the roofline"),
                                HasSubstr("each resource alone:"), HasSubstr("41 candidates, "),
                                HasSubstr(" instead of "), HasSubstr("1755 of 1980 MHz"),
                                HasSubstr("cuBLAS 13.1.0, default: "),
                                HasSubstr("rank correlation"), Not(HasSubstr("\x1b"))));
}

TEST_F(CliExplain, WhatIsNotKnownIsSaid) {
  fill({.candidates = 5, .baselines = false});
  const Result cpu = run({"explain", "--device", "host", "--sizes", "64"});
  ASSERT_EQ(cpu.status, 0) << cpu.err;
  EXPECT_THAT(cpu.out, AllOf(HasSubstr("match: default"), HasSubstr("nothing was measured"),
                             HasSubstr("the cost model covers GPUs with known clocks only")));
  const Result shipped = run({"explain", "--sizes", "64", "--dtype", "f64"});
  EXPECT_THAT(shipped.out, AllOf(HasSubstr("of the portfolio that ships"),
                                 HasSubstr("its other candidates are not in this database")));
  EXPECT_EQ(run({"explain"}).status, 2);
  EXPECT_EQ(run({"explain", "--sizes", "64", "--db", file("absent").string()}).status, 5);
}

TEST_F(CliExplain, SaysHowSureTheWinnerOfTheRaceIs) {
  fill({.candidates = 30});
  EXPECT_EQ(explained("1024").at("measured").at("certainty"), nullptr) << "none was raced";
  {
    tilewise::Database made = tilewise::Database::open(database());
    tilewise::RecordFilter filter;
    filter.outcome = tilewise::Outcome::ok;
    filter.problem = tilewise::Problem(
        tilewise::problem_from_json(explained("1024").at("measured").at("problem").dump()));
    std::vector<tilewise::Record> records = made.records(filter);
    std::sort(records.begin(), records.end(), [](const auto& x, const auto& y) {
      return x.measurement->median_us < y.measurement->median_us;
    });
    for (std::size_t i = 0; i < 3; ++i) {
      const double us = records[i].measurement->median_us;
      records[i].measurement->method = tilewise::kRaceMethod;
      records[i].environment = records[0].environment;
      records[i].measurement->samples_us = {us, us * (1 + 1e-4 * static_cast<double>(i)), us};
      made.add(records[i]);
    }
  }
  const Json certainty = explained("1024").at("measured").at("certainty");
  EXPECT_EQ(certainty.at("rivals"), 2);
  EXPECT_EQ(certainty.at("rounds"), 3);
  EXPECT_EQ(certainty.at("alike"), 0);
  EXPECT_GT(certainty.at("fastest"), 0.95);
  EXPECT_EQ(certainty.at("gain_at_most"), 0);
  EXPECT_THAT(run({"explain", "--sizes", "1024"}).out,
              AllOf(HasSubstr("fastest of 3 in the race with a probability of "),
                    HasSubstr("no other is faster (95% confidence)")));
}

}  // namespace
}  // namespace cli_test::cli_explain_test
