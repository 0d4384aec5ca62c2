// What serves many problems with few configurations.
#include "tuner/few_records.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "db/database.hpp"
#include "templates/kernel_template.hpp"
#include "tests/support/problems.hpp"
#include "vocabulary/device_facts.hpp"

namespace tilewise::few_records_test {
namespace {

/// Winners of simt with tiles of two sizes, and rows of A for which one of them is far too large.
struct FewRecords : testing::Test {
  const DeviceInfo device = nominal_device(parse_target("sm_90a"));
  const std::string gpu = gpu_key(device);
  Database database = Database::in_memory();

  std::int64_t add(const Problem& problem, int tile_m, Origin origin = Origin::measured,
                   double us = 10, const std::string& source = "hash") {
    Record record;
    record.problem = problem;
    record.candidate = {"simt", find_template("simt").default_configuration(
                                    test::make_problem(Layout::nn, 4096, 4096, 4096), device)};
    record.candidate.configuration.set("TILE_M", tile_m);
    record.gpu = gpu;
    record.origin = origin;
    record.outcome = Outcome::ok;
    record.source_hash = source;
    record.measurement.emplace();
    record.measurement->median_us = us;
    return database.add(record);
  }
  void win(std::int64_t m, int tile_m, Layout layout = Layout::nn) {
    database.set_winner(add(test::make_problem(layout, m, 4096, 4096), tile_m));
  }
  /// Rows of A and TILE_M of what serves.
  std::set<std::pair<std::int64_t, int>> served(std::size_t most) const {
    std::set<std::pair<std::int64_t, int>> found;
    for (const Record& record : few_records(database, gpu, most))
      found.emplace(record.problem.m, record.candidate.configuration.at("TILE_M"));
    return found;
  }
};

using FewRecordsOf = std::set<std::pair<std::int64_t, int>>;

TEST_F(FewRecords, AllServeWhereTheLimitAllowsIt) {
  win(4096, 128);
  win(4000, 128);
  win(16, 32);
  EXPECT_EQ(served(2), (FewRecordsOf{{4096, 128}, {4000, 128}, {16, 32}}));
}

TEST_F(FewRecords, TheConfigurationThatServesAllBestStays) {
  database.put(facts_of(device, 700, "2026-11-30T00:00:00Z"));
  for (const std::int64_t m : {4096, 4000, 3000, 2000}) win(m, 128);
  win(64, 32);
  const FewRecordsOf large{{4096, 128}, {4000, 128}, {3000, 128}, {2000, 128}};
  EXPECT_EQ(served(1), large);
  // Measured at the same problems, in a tenth of the winners' time.
  for (const std::int64_t m : {4096, 4000, 3000, 2000})
    add(test::make_problem(Layout::nn, m, 4096, 4096), 32, Origin::measured, 1);
  EXPECT_EQ(served(1), (FewRecordsOf{{4096, 32}, {4000, 32}, {3000, 32}, {2000, 32}, {64, 32}}));
  EXPECT_EQ(served(2).size(), 9U) << "all that was measured of both";
}

TEST_F(FewRecords, WithoutClocksMeasuredTimesDecide) {
  for (const std::int64_t m : {4096, 4000}) win(m, 128);
  win(64, 32);
  EXPECT_EQ(served(1), (FewRecordsOf{{4096, 128}, {4000, 128}}));
}

TEST_F(FewRecords, OfSourcesThatChangedTheLastMeasurementCounts) {
  win(4096, 128);
  add(test::make_problem(Layout::nn, 4096, 4096, 4096), 128, Origin::measured, 7, "other hash");
  const std::vector<Record> records = few_records(database, gpu, 10);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records.front().measurement->median_us, 7);
}

TEST_F(FewRecords, EachLayoutHasItsOwnLimit) {
  win(4096, 128);
  win(4096, 32, Layout::nt);
  EXPECT_EQ(served(1).size(), 2U);
}

TEST_F(FewRecords, ImportedAndQuarantinedWinnersAreLeftOut) {
  database.set_winner(add(test::make_problem(Layout::nn, 64, 64, 64), 32, Origin::imported));
  EXPECT_EQ(served(10), FewRecordsOf{});
  win(128, 32);
  database.set_general(add(test::make_problem(Layout::nn, 256, 256, 256), 64));
  EXPECT_EQ(served(10), (FewRecordsOf{{128, 32}, {256, 64}}));
  for (const Winner& winner : database.winners(gpu))
    if (winner.record.problem.m == 128) database.quarantine(winner.record.id, "a wrong result");
  EXPECT_EQ(served(10), (FewRecordsOf{{256, 64}}));
}

TEST_F(FewRecords, AQuarantinedRecordIsLeftOutWhereItsConfigurationServesElsewhere) {
  win(64, 32);
  win(128, 32);
  database.set_general(add(test::make_problem(Layout::nn, 64, 4096, 4096), 64));
  EXPECT_EQ(served(10), (FewRecordsOf{{64, 32}, {64, 64}, {128, 32}}));
  for (const Winner& winner : database.winners(gpu))
    if (winner.record.problem.m == 64) database.quarantine(winner.record.id, "a wrong result");
  EXPECT_EQ(served(10), (FewRecordsOf{{64, 64}, {128, 32}}));
}

TEST_F(FewRecords, ConfigurationsThatThisVersionLacksAreLeftOut) {
  win(64, 32);
  win(128, 64);
  Record unknown = few_records(database, gpu, 10).front();
  unknown.problem.m = 4;
  unknown.candidate.kernel_template = "gone";
  database.set_winner(database.add(unknown));
  EXPECT_EQ(served(10), (FewRecordsOf{{64, 32}, {128, 64}}));
  EXPECT_EQ(served(1).size(), 1U);
}

// As of a point that `autotune cover` compared.
TEST_F(FewRecords, AProblemWithoutAWinnerCounts) {
  win(4096, 128);
  win(16, 32);
  add(test::make_problem(Layout::nn, 200, 4096, 4096), 32, Origin::measured, 5);
  add(test::make_problem(Layout::nn, 200, 4096, 4096), 64, Origin::measured, 4);
  EXPECT_EQ(served(10), (FewRecordsOf{{4096, 128}, {16, 32}, {200, 32}}))
      << "a configuration that serves nowhere is left out";
}

TEST_F(FewRecords, OfAProblemTheFastestAreShipped) {
  for (const int tile_m : {32, 64, 128}) win(tile_m, tile_m);
  const Problem problem = test::make_problem(Layout::nn, 200, 4096, 4096);
  for (const int tile_m : {32, 64, 128}) add(problem, tile_m, Origin::measured, 1000 - tile_m);
  EXPECT_EQ(served(10), (FewRecordsOf{{32, 32}, {64, 64}, {128, 128}, {200, 64}, {200, 128}}));
}

// matmul() fits SPLIT_K to a size, so one configuration has all its values above 1.
TEST_F(FewRecords, ConfigurationsThatDifferInWhatASizeDecidesAreOne) {
  win(4096, 128);
  const Record first = few_records(database, gpu, 10).front();
  const auto add_split = [&](std::int64_t m, int split) {
    Record record = first;
    record.problem.m = m;
    record.candidate.configuration.set("SPLIT_K", split);
    database.set_winner(database.add(record));
  };
  add_split(64, 2);
  add_split(32, 4);
  const auto rows = [&](std::size_t most) {
    std::set<std::int64_t> found;
    for (const Record& record : few_records(database, gpu, most)) found.insert(record.problem.m);
    return found;
  };
  EXPECT_EQ(rows(2), (std::set<std::int64_t>{32, 64, 4096}));
  EXPECT_LT(rows(1).size(), 3U) << "the kernel of all of k in one part is another";
}

}  // namespace
}  // namespace tilewise::few_records_test
