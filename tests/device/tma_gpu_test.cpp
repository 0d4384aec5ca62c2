// Tile loads on a GPU: the same checks as on the CPU executor.
#include "gpu_fixture.hpp"
#include "tests/device/tma_checks.hpp"

namespace tilewise::tma_gpu_test {
namespace {

class TmaGpu : public test::GpuTest {};

TEST_F(TmaGpu, TilesLandSwizzledAndClipped) {
  if (needs(Feature::tma)) GTEST_SKIP() << "this GPU has no tensor memory accelerator";
  const auto compiler = cuda::load_compiler();
  for (const int swizzle : {0, 32, 64, 128}) test::check_tiles({*device_, *compiler}, swizzle);
}

TEST_F(TmaGpu, TilesAreStoredSwizzledAndClipped) {
  if (needs(Feature::tma)) GTEST_SKIP() << "this GPU has no tensor memory accelerator";
  const auto compiler = cuda::load_compiler();
  for (const int swizzle : {0, 32, 64, 128})
    for (const int columns : {40, 37}) test::check_stores({*device_, *compiler}, swizzle, columns);
}

TEST_F(TmaGpu, ABoxMayBeginWithinTheSwizzlesPattern) {
  if (needs(Feature::tma)) GTEST_SKIP() << "this GPU has no tensor memory accelerator";
  const auto compiler = cuda::load_compiler();
  for (const int swizzle : {32, 64, 128}) {
    test::check_tiles({*device_, *compiler}, swizzle, 5 * 128);
    test::check_stores({*device_, *compiler}, swizzle, 40, 5 * 128);
  }
}

TEST_F(TmaGpu, TilesOfF32AreRoundedToTf32) {
  if (needs(Feature::tma)) GTEST_SKIP() << "this GPU has no tensor memory accelerator";
  const auto compiler = cuda::load_compiler();
  test::check_rounded_tiles({*device_, *compiler});
}

TEST_F(TmaGpu, RowsOfAnyLengthAreLoadedByRowClass) {
  if (needs(Feature::tma)) GTEST_SKIP() << "this GPU has no tensor memory accelerator";
  const auto compiler = cuda::load_compiler();
  for (const int begin : {0, 1, 2, 3}) test::check_row_classes({*device_, *compiler}, begin);
}

TEST_F(TmaGpu, MapsHaveTheLimitsThatTheCpuExecutorHas) {
  if (needs(Feature::tma)) GTEST_SKIP() << "this GPU has no tensor memory accelerator";
  test::check_map_limits(*device_);
}

TEST_F(TmaGpu, OneLaneOfAWarpIsChosen) {
  if (needs(Feature::tma)) GTEST_SKIP() << "this GPU has no tensor memory accelerator";
  const auto compiler = cuda::load_compiler();
  test::check_elect_one({*device_, *compiler});
}

}  // namespace
}  // namespace tilewise::tma_gpu_test
