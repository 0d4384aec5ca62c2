// The hash of a cubin's machine code, with NVRTC and without a GPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "device/cuda/cuda.hpp"
#include "device/elf.hpp"
#include "tests/support/nvrtc.hpp"
#include "tilewise/error.hpp"

namespace tilewise::code_hash_test {
namespace {

const char* const kUnrelated = R"(
__device__ int unused_by_all(int x) { return x * 3; }
)";
const char* const kHelpers = R"(
__constant__ float table[SIZE] = {1, 2, 3};
static __device__ __noinline__ float helper(float x) { return x * table[1] + SCALE; }
namespace { __device__ float kept[8]; }
)";
const char* const kKernel = R"(
extern "C" __global__ void kernel(float* x) {
  __shared__ float tile[SHARED];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  kept[threadIdx.x % 8] = tile[0];
  float v[32];
  #pragma unroll
  for (int i = 0; i < 32; ++i) v[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
  #pragma unroll
  for (int i = 0; i < 32; ++i) x[i * 1024 + threadIdx.x] = v[i] * v[31 - i] + helper(tile[i]);
}
)";
const char* const kOther = R"(
extern "C" __global__ void other(float* x) { x[threadIdx.x] = table[threadIdx.x % 3]; }
)";

class CodeHash : public test::NvrtcTest, public testing::WithParamInterface<Target> {
 protected:
  void SetUp() override {
    NvrtcTest::SetUp();
    if (IsSkipped()) return;
    const std::vector<Target> targets = compiler_->targets();
    if (std::find(targets.begin(), targets.end(), GetParam()) == targets.end())
      GTEST_SKIP() << compiler_->version() << " does not compile for " << to_string(GetParam());
  }
  using Defines = std::map<std::string, std::int64_t>;
  std::string hash_of(const std::string& text, const Defines& changed = {}) {
    CompileRequest request;
    request.kernel = {"kernel.cu", "kernel", {}};
    request.kernel.defines = {{"SCALE", 3}, {"SHARED", 1024}, {"SIZE", 4}, {"MAX_REGISTERS", 0}};
    for (const auto& [name, value] : changed) request.kernel.defines[name] = value;
    request.text = text;
    request.target = GetParam();
    const CompileResult made = compiler_->compile(request);
    EXPECT_TRUE(made.image) << made.log;
    if (!made.image) return "";
    const std::string hash = code_hash(made.image->binary);
    EXPECT_EQ(hash.size(), 32U);
    return hash;
  }
  const std::string text_ = std::string(kHelpers) + kKernel;
};

TEST_P(CodeHash, IsTheSameWhereOnlyTheTextMoved) {
  const std::string hash = hash_of(text_);
  EXPECT_EQ(hash, hash_of(text_));
  EXPECT_EQ(hash, hash_of("// A comment.\n\n\n" + text_ + "\n/* Another. */\n"));
  EXPECT_EQ(hash, hash_of(kUnrelated + text_));
  EXPECT_EQ(hash, hash_of(text_ + kUnrelated));
}

TEST_P(CodeHash, DoesNotDependOnTheOrderOfKernels) {
  EXPECT_EQ(hash_of(text_ + kOther), hash_of(std::string(kHelpers) + kOther + kKernel));
}

TEST_P(CodeHash, ChangesWithCodeAndResources) {
  const std::string hash = hash_of(text_);
  EXPECT_NE(hash, hash_of(text_, {{"SCALE", 4}})) << "a constant in the code";
  EXPECT_NE(hash, hash_of(text_, {{"SHARED", 2048}})) << "shared memory";
  EXPECT_NE(hash, hash_of(text_, {{"SIZE", 8}})) << "constant memory";
  EXPECT_NE(hash, hash_of(text_, {{"MAX_REGISTERS", 24}})) << "registers";
  EXPECT_NE(hash, hash_of(text_ + kOther)) << "another kernel";
}

INSTANTIATE_TEST_SUITE_P(Targets, CodeHash,
                         testing::Values(Target{7, 5, false}, Target{8, 0, false},
                                         Target{9, 0, true}, Target{10, 0, false},
                                         Target{12, 0, false}),
                         [](const auto& target) {
                           return "sm_" +
                                  std::to_string(target.param.major * 10 + target.param.minor);
                         });

}  // namespace
}  // namespace tilewise::code_hash_test
