// Warp and tensor core operations on a GPU: the same checks as on the CPU executor.
#include "gpu_fixture.hpp"
#include "tests/device/mma_checks.hpp"

namespace tilewise::mma_gpu_test {
namespace {

class MmaGpu : public test::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (device_) compiler_ = cuda::load_compiler();
  }
  test::Machine machine() const { return {*device_, *compiler_}; }
  int capability() const {
    return device_->info().target.major * 10 + device_->info().target.minor;
  }
  std::unique_ptr<Compiler> compiler_;
};

TEST_F(MmaGpu, ShufflesTakeFromTheLaneThatIsMeant) { test::check_shuffles(machine()); }
TEST_F(MmaGpu, VotesCountTheLanesThatTakePart) { test::check_votes(machine()); }
TEST_F(MmaGpu, MatricesAreLoadedIntoTheDocumentedPlaces) { test::check_loads(machine()); }

TEST_F(MmaGpu, EachInstructionMultipliesTheDocumentedFragments) {
  for (const test::MmaDocument& mma : test::mma_documents())
    if (capability() >= mma.since) test::check_mma(machine(), mma);
}

TEST_F(MmaGpu, EveryNumberOfEightBitsIsMultipliedAsWhatItIs) {
  if (capability() < 89) GTEST_SKIP() << "fp8 needs a GPU of capability 8.9";
  for (const test::MmaDocument& mma : test::mma_documents())
    if (mma.since == 89) test::check_every_fp8(machine(), mma);
}

TEST_F(MmaGpu, FloatsAreRoundedAsDocumented) {
  if (capability() < 80) GTEST_SKIP() << "bf16 and tf32 need a GPU of capability 8.0";
  test::check_narrow(machine());
}

TEST_F(MmaGpu, AWholeProductIsRight) {
  for (const test::FragmentsCase& c : test::fragments_cases(capability()))
    test::check_fragments(machine(), c);
}

}  // namespace
}  // namespace tilewise::mma_gpu_test
