// The wrappers of warp and tensor core operations compile for every GPU that has them. For other
// GPUs the error states the reason.
#include "device/cuda/cuda.hpp"
#include "tests/device/mma_checks.hpp"
#include "tests/device/tma_checks.hpp"
#include "tests/support/nvrtc.hpp"
#include "tilewise/error.hpp"

namespace tilewise::mma_compile_test {
namespace {

using testing::Contains;
using testing::HasSubstr;

class MmaCompile : public test::NvrtcTest {
 protected:
  void SetUp() override {
    NvrtcTest::SetUp();
    if (IsSkipped()) return;
    for (const Target& target : known_targets())
      if (testing::Value(compiler_->targets(), Contains(target))) targets_.push_back(target);
  }
  CompileResult compile(const std::string& name, const std::string& text,
                        const test::Defines& defines, const Target& target) const {
    return compiler_->compile(test::dialect_request(name, text, defines, target));
  }
  void expect_compiles(const std::string& name, const std::string& text,
                       const test::Defines& defines, const Target& target) const {
    const CompileResult made = compile(name, text, defines, target);
    EXPECT_TRUE(made.image) << name << " for " << to_string(target) << ": " << made.log;
  }
  std::vector<Target> targets_;
};

TEST_F(MmaCompile, WarpOperationsForEveryTarget) {
  for (const Target& target : targets_) {
    expect_compiles("shuffles", test::kShuffles, {}, target);
    expect_compiles("votes", test::kVotes, {}, target);
    expect_compiles("loads", test::kLoads, {}, target);
  }
}

TEST_F(MmaCompile, EachInstructionWhereItIsAndNowhereElse) {
  for (const Target& target : targets_)
    for (const test::MmaDocument& mma : test::mma_documents()) {
      const CompileResult made =
          compile("product", test::mma_kernel(mma.name), {{"COLUMNS", 3}, {"ROWS", 2}}, target);
      const bool there = target.major * 10 + target.minor >= mma.since;
      EXPECT_EQ(made.image.has_value(), there) << mma.name << " for " << to_string(target);
      if (!there) {
        EXPECT_THAT(made.log, HasSubstr("this GPU lacks this instruction"));
      }
    }
}

TEST_F(MmaCompile, AWholeProduct) {
  const std::string text = test::text_of("tests/kernels/fragments.cu");
  for (const Target& target : targets_)
    for (const test::FragmentsCase& c : test::fragments_cases(target.major * 10 + target.minor))
      if (c.a_transposed && !c.b_transposed)
        expect_compiles("fragments", text, test::fragments_defines(c), target);
}

TEST_F(MmaCompile, RoundingFromSm80On) {
  for (const Target& target : targets_) {
    const CompileResult made = compile("narrow", test::kNarrow, {}, target);
    EXPECT_EQ(made.image.has_value(), target.major >= 8) << to_string(target) << made.log;
    if (target.major < 8) {
      EXPECT_THAT(made.log, HasSubstr("bf16 needs sm_80 or later"));
    }
  }
}

TEST_F(MmaCompile, TileLoadsFromSm90On) {
  for (const Target& target : targets_) {
    const CompileResult made = compile("tiles", test::kTiles, test::tiles_defines(128), target);
    EXPECT_EQ(made.image.has_value(), target.major >= 9) << to_string(target) << made.log;
    if (target.major < 9) {
      EXPECT_THAT(made.log, HasSubstr("needs sm_90 or later"));
    }
  }
}

}  // namespace
}  // namespace tilewise::mma_compile_test
