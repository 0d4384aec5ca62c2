// write_bundle(): the file has the records and images that serve the problems, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "matmul/build.hpp"
#include "templates/kernel_template.hpp"
#include "tests/db/samples.hpp"
#include "tests/support/fake_compiler.hpp"
#include "tuner/bundle.hpp"

namespace tilewise::write_bundle_test {
namespace {

using samples::error_of;
using samples::TemporaryFolder;
using testing::HasSubstr;
using testing::SizeIs;

const std::string kH200 = "NVIDIA H200|9.0|132";

Problem cube(std::int64_t size) {
  Problem problem;
  problem.m = problem.n = problem.k = size;
  set_alignment(problem, natural_alignment(problem));
  return problem;
}

struct WriteBundle : testing::Test {
  WriteBundle() {
    compiler.name = "fake 1";
    for (const std::int64_t size : {256, 512, 1024})
      database.set_winner(database.add(record(size, 10)));
    Record loser = record(256, 50);
    loser.candidate.configuration.set("GROUP_M", 1);
    database.add(loser);
  }
  Record record(std::int64_t size, double us) const {
    Record record;
    record.problem = cube(size);
    record.gpu = kH200;
    record.candidate = {"simt", find_template("simt").default_configuration(
                                    record.problem, nominal_from_key(kH200))};
    record.launch_revision = launch_revision(find_template("simt"));
    record.measurement = Measurement{};
    record.measurement->median_us = us;
    return record;
  }
  BundleResult write(const BundleOptions& options) {
    const ImageStore images(&database, nullptr, &compiler);
    return write_bundle(database, images, options, path);
  }

  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "app.tilewise";
  Database database = Database::in_memory();
  FakeCompiler compiler;
};

TEST_F(WriteBundle, HoldsWhatServesItsProblems) {
  const BundleResult result = write({{kH200}, {cube(512)}, false});
  ASSERT_THAT(result.problems, SizeIs(1));
  EXPECT_EQ(result.problems[0].kind, MatchKind::exact);
  EXPECT_EQ(result.problems[0].us, 10);
  EXPECT_EQ(result.problems[0].why_not, "");
  EXPECT_EQ(result.records, 1U);
  EXPECT_GE(result.images, 1U);
  EXPECT_EQ(result.compiled, result.images);
  EXPECT_EQ(result.bytes, std::filesystem::file_size(path));
  const Database bundle = Database::open(path, OpenMode::read_only);
  EXPECT_EQ(bundle.counts().records, 1);
  const auto winner = bundle.winner(cube(512), kH200);
  ASSERT_TRUE(winner);
  EXPECT_EQ(winner->record.origin, Origin::shipped);
  EXPECT_EQ(winner->record.candidate, record(512, 10).candidate);
  const Plan plan = plan_of(winner->record.candidate, cube(512), nominal_from_key(kH200));
  for (const LaunchStep& step : plan.steps)
    EXPECT_TRUE(
        bundle.image(step.kernel, nominal_from_key(kH200).target, winner->record.launch_revision));
}

TEST_F(WriteBundle, AProblemThatWasNotTunedIsServedByPrediction) {
  const BundleResult result = write({{kH200}, {cube(300)}, false});
  EXPECT_EQ(result.problems[0].kind, MatchKind::predicted);
  EXPECT_EQ(result.records, 1U);
  EXPECT_EQ(Database::open(path, OpenMode::read_only).winners(kH200).size(), 1U);
}

// All processes that read the bundle have one order, though nothing was tuned or kept for it.
TEST_F(WriteBundle, OfAnInvariantProductItHasTheOrder) {
  Problem problem = cube(300);
  set_invariant(problem);
  const BundleResult result = write({{kH200}, {problem}, false});
  EXPECT_EQ(result.problems[0].kind, MatchKind::predicted);
  const auto order_of = [&] {
    const auto kept = Database::open(path, OpenMode::read_only).order(order_key(problem), kH200);
    return kept ? kept->sum_order : "none";
  };
  EXPECT_EQ(order_of(), "fused");
  database.put(KeptOrder{order_key(problem), kH200, "fused+parts64", ""});
  write({{kH200}, {problem}, false});
  EXPECT_EQ(order_of(), "fused+parts64");
}

TEST_F(WriteBundle, OfAnEpilogueItHasTheKernelsWithIt) {
  Problem problem = cube(512);
  set_epilogue(problem, Epilogue("relu(acc + bias[j])"));
  const auto expect_images = [&](MatchKind kind) {
    const BundleResult result = write({{kH200}, {problem}, false});
    ASSERT_THAT(result.problems, SizeIs(1));
    EXPECT_EQ(result.problems[0].kind, kind);
    const Database bundle = Database::open(path, OpenMode::read_only);
    const Record stored = bundle.winners(kH200).front().record;
    const Plan plan = plan_of(stored.candidate, problem, nominal_from_key(kH200));
    ASSERT_FALSE(plan.steps.empty());
    EXPECT_NE(plan.steps.back().kernel.epilogue, "");
    for (const LaunchStep& step : plan.steps)
      EXPECT_TRUE(
          bundle.image(step.kernel, nominal_from_key(kH200).target, stored.launch_revision));
  };
  expect_images(MatchKind::predicted);  // by a record without it
  Record tuned = record(512, 12);
  tuned.problem = problem;
  database.set_winner(database.add(tuned));
  expect_images(MatchKind::exact);
}

TEST_F(WriteBundle, WithOtherSizesItHoldsAllWinnersOfTheTypes) {
  Record half = record(256, 5);
  half.problem.a.type = half.problem.b.type = half.problem.c.type = DType::f16;
  database.set_winner(database.add(half));
  const StoredCorrections corrections{kH200, "f32", 4, {1, 2}};
  database.put(corrections);
  database.put(StoredCorrections{kH200, "f16", 4, {3}});
  EXPECT_EQ(write({{kH200}, {cube(512)}, true}).records, 3U) << "no losers, no f16";
  const Database bundle = Database::open(path, OpenMode::read_only);
  EXPECT_EQ(bundle.corrections(kH200, "f32"), corrections);
  EXPECT_FALSE(bundle.corrections(kH200, "f16"));
}

TEST_F(WriteBundle, AWinnerKeepsWhatItWasChosenBy) {
  Record frugal = record(512, 20);
  frugal.measurement->energy_mj = 3;
  database.set_winner(database.add(frugal), Objective::energy);
  write({{kH200}, {cube(512)}, false});
  const auto winner = Database::open(path, OpenMode::read_only).winner(cube(512), kH200);
  ASSERT_TRUE(winner);
  EXPECT_EQ(winner->objective, Objective::energy);
  EXPECT_EQ(winner->record.measurement->energy_mj, 3);
}

TEST_F(WriteBundle, OfSeveralGpus) {
  Record other = record(512, 20);
  other.gpu = "NVIDIA H100|9.0|114";
  database.set_winner(database.add(other));
  const BundleResult result = write({{kH200, other.gpu}, {cube(512)}, false});
  ASSERT_THAT(result.problems, SizeIs(2));
  EXPECT_EQ(result.problems[1].us, 20);
  const Database bundle = Database::open(path, OpenMode::read_only);
  EXPECT_TRUE(bundle.winner(cube(512), kH200));
  EXPECT_TRUE(bundle.winner(cube(512), other.gpu));
}

TEST_F(WriteBundle, AKernelThatDoesNotCompileIsNamed) {
  compiler.refuse = [](const KernelSpec&) { return true; };
  const BundleResult result = write({{kH200}, {cube(512), cube(1024)}, false});
  ASSERT_THAT(result.problems, SizeIs(2));
  for (const BundledProblem& problem : result.problems)
    EXPECT_THAT(problem.why_not, HasSubstr("does not compile"));
  EXPECT_EQ(result.images, 0U);
}

TEST_F(WriteBundle, AFailureLeavesTheFileThatWasThere) {
  write({{kH200}, {cube(512)}, false});
  const auto bytes = std::filesystem::file_size(path);
  EXPECT_THROW(write({{"no key"}, {cube(512)}, false}), Error);
  EXPECT_EQ(std::filesystem::file_size(path), bytes);
  EXPECT_TRUE(Database::open(path, OpenMode::read_only).winner(cube(512), kH200));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1)
      << "no unfinished file stays";
  EXPECT_THROW(write({{}, {cube(512)}, false}), Error);
  EXPECT_THROW(write({{kH200}, {}, false}), Error);
}

}  // namespace
}  // namespace tilewise::write_bundle_test
