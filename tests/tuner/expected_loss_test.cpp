// expected_loss(): where a search would gain time.
#include "tuner/expected_loss.hpp"
#include "templates/kernel_template.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tilewise::expected_loss_test {
namespace {

const DeviceInfo& h200() {
  static const DeviceInfo info = nominal_device(parse_target("sm_90a"));
  return info;
}

Problem cube(std::int64_t size) {
  Problem problem;
  problem.m = problem.n = problem.k = size;
  set_alignment(problem, natural_alignment(problem));
  return problem;
}

double modelled_us(const Candidate& candidate, const Problem& problem) {
  return 1e6 * estimate(plan_of(candidate, problem, h200()), h200()).seconds;
}

Winner winner(const Problem& problem, const Candidate& candidate) {
  Winner winner;
  winner.record.id = 1;
  winner.record.problem = problem;
  winner.record.candidate = candidate;
  winner.record.gpu = gpu_key(h200());
  winner.record.measurement = Measurement{};
  winner.record.measurement->median_us = modelled_us(candidate, problem);
  return winner;
}

struct ExpectedLoss : testing::Test {
  ExpectedLoss() {
    std::mt19937_64 generator(1);
    std::vector<Corrections::Sample> samples;
    for (std::int64_t size = 100; size < 2500; size += 200) {
      const SearchSpace space(cube(size), h200(), templates);
      for (int i = 0; i < 10; ++i) {
        const Candidate candidate = space.random(generator).value();
        samples.push_back({cube(size), candidate, modelled_us(candidate, cube(size))});
      }
    }
    corrections = Corrections::fit(samples, h200());
  }
  double loss(const Resolver& stored, const Problem& problem) const {
    return expected_loss(problem, stored, corrections, h200(), templates, {});
  }
  static Candidate simt() {
    return {"simt", find_template("simt").default_configuration(cube(2048), h200())};
  }

  const std::vector<const KernelTemplate*> templates = select_templates({"simt", "naive"});
  Corrections corrections;
};

TEST_F(ExpectedLoss, IsLargeWhereOnlyABadCandidateIsStored) {
  ASSERT_FALSE(corrections.empty());
  const Problem problem = cube(2048);
  const Candidate naive{"naive", find_template("naive").default_configuration(problem, h200())};
  const Resolver bad({winner(cube(512), naive)}, h200());
  const Resolver good({winner(cube(2560), simt())}, h200());
  EXPECT_GT(loss(bad, problem), 1);
  EXPECT_LT(loss(good, problem), loss(bad, problem) / 2);
  EXPECT_GE(loss(good, problem), 0);
}

TEST_F(ExpectedLoss, IsInfiniteWhereNothingIsStored) {
  EXPECT_TRUE(std::isinf(loss(Resolver({}, h200()), cube(1024))));
}

TEST_F(ExpectedLoss, IsTheSameEachTime) {
  const Resolver stored({winner(cube(512), simt())}, h200());
  EXPECT_EQ(loss(stored, cube(1000)), loss(stored, cube(1000)));
}

}  // namespace
}  // namespace tilewise::expected_loss_test
