// Splits of products on host pointers that are cached for later products.
#include "api/host_pointers/split_cache.hpp"

#include <gtest/gtest.h>

#include "api/matmul_parts.hpp"
#include "matmul/portfolio.hpp"
#include "tests/support/fake_device.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::split_cache_test {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

HostTask task_of_rows(std::int64_t m) {
  HostTask task;
  task.problem = typed_problem<float, float>(Layout::nn, m, 256, 256);
  return task;
}

std::shared_ptr<FittingSplit> fit_of(const HostTask& task, std::int64_t workspace = 0,
                                     std::size_t tiles = 1) {
  auto fit = std::make_shared<FittingSplit>();
  fit->plan.task = task;
  fit->plan.shape.tile = {task.problem.m, 256, 256};
  fit->plan.tiles.resize(tiles);
  fit->workspace = workspace;
  return fit;
}

TEST(SplitCache, TheSameTaskFindsItsSplit) {
  SplitCache fits;
  const HostTask task = task_of_rows(512);
  EXPECT_EQ(fits.find(task, kGiB), nullptr);
  const auto fit = fit_of(task);
  fits.keep(kGiB, fit);
  EXPECT_EQ(fits.find(task, kGiB), fit);
  EXPECT_EQ(fits.find(task_of_rows(513), kGiB), nullptr);
  HostTask other = task;
  other.reads_c = true;
  EXPECT_EQ(fits.find(other, kGiB), nullptr);
}

TEST(SplitCache, WhatDoesNotFitAnyMoreIsNotFound) {
  SplitCache fits;
  const HostTask task = task_of_rows(512);
  const auto fit = fit_of(task, kGiB / 2);
  fits.keep(kGiB, fit);
  EXPECT_EQ(fits.find(task, fit->bytes()), fit);
  EXPECT_EQ(fits.find(task, fit->bytes() - 1), nullptr);
}

TEST(SplitCache, MuchMoreMemoryDeservesAnotherSplit) {
  SplitCache fits;
  const HostTask task = task_of_rows(512);
  const auto fit = fit_of(task);
  fits.keep(8 * kGiB, fit);
  EXPECT_EQ(fits.find(task, 9 * kGiB), fit);
  EXPECT_EQ(fits.find(task, 9 * kGiB + 1), nullptr);
  const auto better = fit_of(task, 1);
  fits.keep(16 * kGiB, better);
  EXPECT_EQ(fits.find(task, 16 * kGiB), better);
  EXPECT_EQ(fits.find(task, 8 * kGiB), better) << "one split a task";
}

TEST(SplitCache, OnlyTheLastOnesAreKept) {
  SplitCache fits;
  const auto most = static_cast<std::int64_t>(SplitCache::kMost);
  for (std::int64_t m = 1; m <= most + 1; ++m) fits.keep(kGiB, fit_of(task_of_rows(m)));
  EXPECT_EQ(fits.find(task_of_rows(1), kGiB), nullptr);
  for (std::int64_t m = 2; m <= most + 1; ++m)
    EXPECT_NE(fits.find(task_of_rows(m), kGiB), nullptr) << m;
  fits.keep(kGiB, fit_of(task_of_rows(100), 0, SplitCache::kMostTiles + 1));
  EXPECT_EQ(fits.find(task_of_rows(100), kGiB), nullptr) << "too many tiles";
}

TEST(SplitCache, HostSplitFollowsTheFreeMemory) {
  auto owned = std::make_unique<FakeDevice>();
  FakeDevice& device = *owned;
  MatmulParts parts;
  parts.device = std::move(owned);
  parts.portfolio = portfolio_for;
  parts.database = Database::in_memory();
  const Matmul multiply = make_matmul(std::move(parts));
  const Problem problem = typed_problem<float, float>(Layout::nn, 8192, 8192, 8192);
  const HostSplit all = multiply.host_split(problem);
  EXPECT_EQ(to_string(multiply.host_split(problem)), to_string(all));
  device.free_bytes = kGiB / 4;
  const HostSplit less = multiply.host_split(problem);
  EXPECT_LE(less.device_bytes, kGiB / 4);
  EXPECT_GT(all.device_bytes, kGiB / 4);
  device.free_bytes = std::int64_t{1} << 40;
  EXPECT_EQ(to_string(multiply.host_split(problem)), to_string(all));
}

}  // namespace
}  // namespace tilewise::split_cache_test
