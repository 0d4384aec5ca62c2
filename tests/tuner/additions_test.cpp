// The candidates that cover() adds to the winners of its points.
#include "tuner/additions.hpp"
#include "templates/kernel_template.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>

#include "templates/space/search_space.hpp"

namespace tilewise::additions_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kNever = std::numeric_limits<double>::infinity();

std::vector<std::size_t> chosen(const std::vector<double>& base,
                                const std::vector<std::vector<double>>& times, double least = 0,
                                std::size_t most = 100) {
  std::vector<std::size_t> columns;
  choose_gaining(
      base, times, [&](std::size_t) { return columns.size() < most; },
      [&](std::size_t column) { columns.push_back(column); }, least);
  return columns;
}

TEST(ChooseGaining, TakesWhatGainsMostFirstAndNothingTwice) {
  const std::vector<std::vector<double>> times = {{5, 9, 10}, {10, 2, 10}, {20, 20, 20}};
  EXPECT_THAT(chosen({10, 10, 10}, times), ElementsAre(1, 0)) << "column 2 gains nothing";
  EXPECT_THAT(chosen({10, 10, 10}, times, 0, 1), ElementsAre(1));
  EXPECT_THAT(chosen({10, 10, 10}, times, 0.3), ElementsAre(1)) << "log(9 / 5) / 3 = 0.2";
  EXPECT_THAT(chosen({10, 10, 10}, times, 10), IsEmpty());
  EXPECT_THAT(chosen({}, {}), IsEmpty());
}

TEST(ChooseGaining, WhereNothingServesTheFastestCountsMost) {
  EXPECT_THAT(chosen({kNever, kNever}, {{3, 2, kNever}, {3, 2, kNever}}, 0, 1), ElementsAre(1));
  EXPECT_THAT(chosen({kNever, 5}, {{kNever, kNever}, {4, 6}}), ElementsAre(0))
      << "no column serves the first row";
}

TEST(ChooseGaining, CountsTheGainBesideThoseThatWereTaken) {
  // Columns 0 and 1 are for the same row; column 2 is for another row, with a smaller gain.
  EXPECT_THAT(chosen({10, 10}, {{1, 2, 10}, {10, 10, 8}}), ElementsAre(0, 2));
}

TEST(ChooseGaining, ARowThatNothingServesGainsMost) {
  EXPECT_THAT(chosen({10, kNever}, {{1, 10}, {kNever, 5}}), ElementsAre(1, 0));
}

const DeviceInfo& h200() {
  static const DeviceInfo info = nominal_device(parse_target("sm_90a"));
  return info;
}

Problem cube(std::int64_t size, Layout layout = Layout::nn) {
  Problem problem;
  set_layout(problem, layout);
  problem.m = problem.n = problem.k = size;
  set_alignment(problem, natural_alignment(problem));
  return problem;
}

/// Records of random candidates of simt, as slow as the cost model expects.
std::vector<Record> measured(const std::vector<Problem>& problems) {
  std::mt19937_64 generator(1);
  std::vector<Record> records;
  for (const Problem& problem : problems) {
    const SearchSpace space(problem, h200(), {&find_template("simt")});
    for (int i = 0; i < 8; ++i) {
      Record record;
      record.problem = problem;
      record.candidate = space.random(generator).value();
      record.measurement = Measurement{};
      record.measurement->median_us =
          1e6 * estimate(plan_of(record.candidate, problem, h200()), h200()).seconds;
      records.push_back(std::move(record));
    }
  }
  return records;
}

TEST(Additions, KeepToTheRoomOfEachLayoutAndTakeOneOfEachProblem) {
  std::vector<Problem> problems;
  for (int i = 0; i < 12; ++i)
    problems.push_back(cube(100 + 150 * i, i % 2 == 0 ? Layout::nn : Layout::tn));
  const std::vector<Record> records = measured(problems);
  std::vector<Corrections::Sample> samples;
  for (const Record& record : records)
    samples.push_back({record.problem, record.candidate, record.measurement->median_us});
  const Corrections corrections = Corrections::fit(samples, h200());
  ASSERT_FALSE(corrections.empty());
  const std::vector<Record> additions = choose_additions(
      {}, records, problems, {{Layout::nn, 3}, {Layout::tn, 1}}, corrections, h200(), 2);
  std::map<Layout, int> of_layout;
  std::set<Problem> of_problem;
  for (const Record& record : additions) {
    ++of_layout[layout_of(record.problem)];
    EXPECT_TRUE(of_problem.insert(record.problem).second);
  }
  EXPECT_LE(of_layout[Layout::nn], 3);
  EXPECT_LE(of_layout[Layout::tn], 1);
  EXPECT_GE(additions.size(), 2U) << "one layout's kernels do not read the other";
  // A candidate that serves already is not added.
  std::vector<Candidate> serving;
  for (const Record& record : records) serving.push_back(record.candidate);
  EXPECT_THAT(choose_additions(serving, records, problems, {{Layout::nn, 9}, {Layout::tn, 9}},
                               corrections, h200(), 1),
              IsEmpty());
}

}  // namespace
}  // namespace tilewise::additions_test
