// Contest of compare on the CPU: served products are checked and timed, missing contestants
// reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <limits>

#include "bench/compare/contest.hpp"
#include "bench/compare/kinds.hpp"
#include "bench/compare/shapes.hpp"
#include "db/database.hpp"
#include "device/cpu/cpu.hpp"
#include "templates/kernel_template.hpp"
#include "templates/sources.hpp"

namespace tilewise::bench::bench_contest_test {
namespace {

using testing::HasSubstr;

Problem problem_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  Problem problem;
  problem.m = m, problem.n = n, problem.k = k;
  set_alignment(problem, natural_alignment(problem));
  return problem;
}

TEST(Admit, ALibraryMayBeSomewhatBeyondTheBoundAndSaysSoOursMayNot) {
  Comparison found;
  found.error_ratio = 3;
  found.worst = "C[1][2]";
  Column cublas, tuned;
  cublas.player = Player::cublas;
  EXPECT_TRUE(admit(cublas, found));
  EXPECT_THAT(cublas.detail, HasSubstr("beyond the bound, timed all the same: C[1][2]"));
  EXPECT_EQ(cublas.error_ratio, 3);
  EXPECT_FALSE(admit(tuned, found));
  EXPECT_THAT(tuned.detail, HasSubstr("wrong result: C[1][2]"));
}

TEST(Admit, NobodyMayBeFarOffOrNotANumber) {
  for (const double ratio :
       {1e3, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    Comparison found;
    found.error_ratio = ratio;
    Column lt;
    lt.player = Player::cublas_lt;
    lt.detail = "candidate 1 of 8";
    EXPECT_FALSE(admit(lt, found)) << ratio;
    EXPECT_THAT(lt.detail, HasSubstr("candidate 1 of 8; wrong result"));
  }
  Comparison right;
  right.ok = true;
  Column column;
  EXPECT_TRUE(admit(column, right));
  EXPECT_EQ(column.detail, "");
}

class ContestOnTheCpu : public testing::Test {
 protected:
  ContestOnTheCpu() {
    std::string pattern = (std::filesystem::temp_directory_path() / "contest-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    options_.device = "host";
    options_.database = (folder_ / "test.db").string();
    options_.rounds = 3;
    setenv("TILEWISE_HOST_FLAGS", "-O1", 1);
  }
  ~ContestOnTheCpu() override { std::filesystem::remove_all(folder_); }

  /// Stores a winner without an image: it is compiled when it is served.
  void store_winner(const Problem& problem) {
    const DeviceInfo info = cpu::device_info("host");
    const KernelTemplate& kernel = find_template("naive");
    Record record;
    record.problem = problem;
    record.candidate = {kernel.name, kernel.default_configuration(problem, info)};
    record.gpu = gpu_key(info);
    record.source_hash = "0123";
    record.launch_revision = launch_revision(kernel);
    record.measurement.emplace().median_us = 10;
    record.environment.date = "2026-11-21T10:00:00Z";
    Database database = Database::open(options_.database);
    database.set_winner(database.add(record));
  }

  /// Stores an image of the naive kernel that adds instead of multiplying.
  void store_wrong_image(const Problem& problem) {
    const DeviceInfo info = cpu::device_info("host");
    const KernelTemplate& kernel = find_template("naive");
    const KernelSource& source = kernel_source("naive.cu");
    CompileRequest request;
    request.kernel =
        kernel.plan(problem, kernel.default_configuration(problem, info), info).steps[0].kernel;
    request.text = source.text;
    const std::string include = "#include \"parts/schedule.cuh\"\n";
    const auto at = request.text.find(include);
    ASSERT_NE(at, std::string::npos);
    request.text.insert(at + include.size(),
                        "#define multiply_add(x, y, sum) ((x) + (y) + (sum))\n");
    request.headers = source.headers;
    request.target = info.target;
    std::optional<Image> image = cpu::load_compiler()->compile(request).image;
    ASSERT_TRUE(image);
    image->launch_revision = launch_revision(kernel);
    Database::open(options_.database).put_image(*image);
  }

  std::filesystem::path folder_;
  ContestOptions options_;
};

TEST_F(ContestOnTheCpu, WinnersAndTheirNeighboursAreServedCheckedAndTimed) {
  store_winner(problem_of(33, 40, 17));
  Contest contest(options_);
  EXPECT_FALSE(contest.timing().cold);
  const Row exact = contest.run(problem_of(33, 40, 17));
  EXPECT_EQ(exact.error, "");
  EXPECT_EQ(exact.resolution.kind, MatchKind::exact);
  const Measurement* time = time_of(exact, Player::tuned);
  ASSERT_NE(time, nullptr);
  EXPECT_GT(time->median_us, 0);
  EXPECT_EQ(time->samples, 3);
  const bool quick =
      20 * time->median_us < 5000;  // else host time is not measured (docs/measuring.md)
  EXPECT_TRUE(time->host_us > 0 || !quick) << time->median_us;
  EXPECT_GT(exact.columns[0].error_ratio, 0);
  EXPECT_LE(exact.columns[0].error_ratio, 1);
  EXPECT_EQ(contest.run(problem_of(34, 40, 17)).resolution.kind, MatchKind::predicted);
}

TEST_F(ContestOnTheCpu, AnEpilogueIsTimedBesideTheProductWithoutIt) {
  store_winner(problem_of(33, 40, 17));
  Contest contest(options_);
  const std::vector<Problem> problems =
      with_epilogues({problem_of(33, 40, 17)}, {"acc + bias[j]", "d = acc * s; g[j] = sum(d); d"});
  ASSERT_EQ(problems.size(), 2U);
  for (const Problem& problem : problems) {
    const Row row = contest.run(problem);
    EXPECT_EQ(row.error, "");
    ASSERT_EQ(row.columns.back().player, Player::bare);
    EXPECT_NE(time_of(row, Player::bare), nullptr);
    EXPECT_GT(over_bare(row).value_or(0), 0);
    EXPECT_FALSE(ratio_of(row).has_value()) << "the bare product is no product of cuBLAS";
  }
  EXPECT_FALSE(over_bare(contest.run(problem_of(33, 40, 17))).has_value());
}

TEST_F(ContestOnTheCpu, ColumnsOfLibrariesThatAreNotThereSayWhy) {
  store_winner(problem_of(8, 8, 8));
  Contest contest(options_);
  EXPECT_EQ(contest.cublas_version(), "");
  const Row row = contest.run(problem_of(8, 8, 8));
  EXPECT_EQ(row.error, "");
  for (const Player player : {Player::cublas, Player::cublas_pedantic, Player::cublas_lt}) {
    EXPECT_EQ(time_of(row, player), nullptr);
    EXPECT_THAT(row.columns[static_cast<std::size_t>(player)].detail, HasSubstr("NVIDIA GPUs"));
  }
  EXPECT_FALSE(ratio_of(row).has_value());
}

TEST_F(ContestOnTheCpu, AShapeThatFailsIsARowAndTheNextOneRuns) {
  store_winner(problem_of(8, 8, 8));
  Contest contest(options_);
  Problem mixed = problem_of(8, 8, 8);
  mixed.b.type = DType::f16;
  const Row failed = contest.run(mixed);
  EXPECT_THAT(failed.error, HasSubstr("nothing computes"));
  EXPECT_EQ(time_of(failed, Player::tuned), nullptr);
  EXPECT_EQ(contest.run(problem_of(8, 8, 8)).error, "");
}

TEST_F(ContestOnTheCpu, EveryStrictKindIsCheckedAndTimed) {
  store_winner(problem_of(8, 8, 8));
  Contest contest(options_);
  for (const char* name : {"f64", "f16", "bf16", "bf16:f32", "i8", "e4m3", "e5m2:e5m2"}) {
    const ProductKind& kind = *parse_kinds(name).front();
    const Row row = contest.run(of_kind({problem_of(24, 20, 33)}, kind).front());
    EXPECT_EQ(row.error, "") << name;
    EXPECT_NE(time_of(row, Player::tuned), nullptr) << name;
    EXPECT_LE(row.columns[0].error_ratio, 1) << name;
  }
}

TEST_F(ContestOnTheCpu, ABatchIsCheckedToItsLastMatrixAndTimed) {
  store_winner(problem_of(8, 8, 8));
  Contest contest(options_);
  const ProductKind& f16 = *parse_kinds("f16").front();
  const Row row = contest.run(of_kind(parse_shapes("nt:9x7x5*12"), f16).front());
  EXPECT_EQ(row.error, "");
  EXPECT_NE(time_of(row, Player::tuned), nullptr);
}

TEST_F(ContestOnTheCpu, WhatNothingOfOursServesIsAnErrorThatKeepsTheOtherColumns) {
  options_.device = "host:sm_75";  // no tensor cores for tf32
  Contest contest(options_);
  const Row row = contest.run(of_kind({problem_of(8, 8, 8)}, *parse_kinds("tf32").front()).front());
  EXPECT_THAT(row.error, HasSubstr("tuned: no kernel template does"));
  EXPECT_THAT(row.columns[1].detail, HasSubstr("NVIDIA GPUs")) << "the libraries had their turn";
}

TEST_F(ContestOnTheCpu, AWrongProductIsAnErrorAndNeverTimed) {
  const Problem problem = problem_of(16, 16, 16);
  store_winner(problem);
  store_wrong_image(problem);
  Contest contest(options_);
  const Row row = contest.run(problem);
  EXPECT_THAT(row.error, HasSubstr("tuned: wrong result: C["));
  EXPECT_EQ(time_of(row, Player::tuned), nullptr);
  EXPECT_GT(row.columns[0].error_ratio, 1);
}

TEST_F(ContestOnTheCpu, WithoutADatabaseThereIsANote) {
  const Contest contest(options_);
  ASSERT_EQ(contest.notes().size(), 1U);
  EXPECT_THAT(contest.notes().front(), HasSubstr("no database"));
}

}  // namespace
}  // namespace tilewise::bench::bench_contest_test
