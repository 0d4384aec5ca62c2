// Conversions between types on a GPU: the same checks as on the CPU executor.
#include "gpu_fixture.hpp"
#include "tests/device/conversions_checks.hpp"

namespace tilewise::conversions_gpu_test {
namespace {

class ConversionsGpu : public test::GpuTest {};

TEST_F(ConversionsGpu, AreRoundedToNearestAndWidenedExactly) {
  const auto compiler = cuda::load_compiler();
  for (const DType type : test::kSmallTypes) test::check_conversions({*device_, *compiler}, type);
}

}  // namespace
}  // namespace tilewise::conversions_gpu_test
