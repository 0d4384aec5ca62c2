// Products of warpgroups and clusters on a GPU: the same checks as on the CPU executor.
#include "gpu_fixture.hpp"
#include "tests/device/wgmma_checks.hpp"

namespace tilewise::wgmma_gpu_test {
namespace {

class WgmmaGpu : public test::GpuTest {};

TEST_F(WgmmaGpu, EveryLayoutIsMultipliedAsDocumented) {
  if (needs(Feature::wgmma)) GTEST_SKIP() << "this GPU has no wgmma";
  const auto compiler = cuda::load_compiler();
  for (const test::ProductsCase& c : test::products_cases())
    test::check_products({*device_, *compiler}, c);
}

TEST_F(WgmmaGpu, SumsOfEightBitFloatsAreCoarse) {
  if (needs(Feature::wgmma)) GTEST_SKIP() << "this GPU has no wgmma";
  const auto compiler = cuda::load_compiler();
  test::check_sums_of_fp8({*device_, *compiler});
}

TEST_F(WgmmaGpu, TheBlocksOfAClusterShareTiles) {
  if (needs(Feature::clusters)) GTEST_SKIP() << "this GPU has no clusters";
  const auto compiler = cuda::load_compiler();
  test::check_clusters({*device_, *compiler});
}

}  // namespace
}  // namespace tilewise::wgmma_gpu_test
