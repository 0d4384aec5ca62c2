// Epilogues in the kernel dialect on the CPU executor. They also compile for every GPU.
#include <gmock/gmock.h>

#include "device/cuda/cuda.hpp"
#include "tests/matmul/pointwise_checks.hpp"

namespace tilewise::pointwise_host_test {
namespace {

struct PointwiseHost : test::Pointwise {
  PointwiseHost() : Pointwise("host") {}
};

TEST_F(PointwiseHost, OperatorsRoundEachByItself) {
  check<float>(rounded());
  check<double>(rounded());
}
TEST_F(PointwiseHost, IntegersSaturate) { check_integers(); }
TEST_F(PointwiseHost, FunctionsAreThoseOfEvaluate) {
  check<float>(computed());
  check<double>(computed());
}

TEST_F(PointwiseHost, EqualEpiloguesHaveEqualTexts) {
  const auto text = [](std::string_view of) { return pointwise_source(parse_epilogue(of).form); };
  EXPECT_EQ(text("x = acc + b[j]; relu(x)"), text("relu(other[j] + acc)"));
  EXPECT_NE(text("acc + b[j]"), text("acc + b[i]"));
  EXPECT_NE(text("acc * 0"), text("acc * -0"));
}

std::vector<EpilogueForm> forms(const std::vector<std::string>& texts) {
  std::vector<EpilogueForm> read;
  for (const std::string& text : texts) read.push_back(parse_epilogue(text).form);
  return read;
}
std::unique_ptr<Compiler> nvrtc() {
  try {
    return cuda::load_compiler();
  } catch (const Error&) {
    return nullptr;
  }
}

TEST_F(PointwiseHost, NothingIsContractedOnAGpu) {
  const auto compiler = nvrtc();
  if (!compiler) GTEST_SKIP() << "no NVRTC";
  for (const DType c : {DType::f32, DType::f64}) {
    const std::string ptx = compiler->ptx(request_of(forms(rounded()), c, {9, 0, true}));
    EXPECT_THAT(ptx, testing::HasSubstr("mul.rn.f"));
    EXPECT_THAT(ptx, testing::Not(testing::HasSubstr("fma.")));
  }
}

TEST_F(PointwiseHost, CompileForEveryGpu) {
  const auto compiler = nvrtc();
  if (!compiler) GTEST_SKIP() << "no NVRTC";
  std::vector<EpilogueForm> epilogues = forms(rounded());
  for (EpilogueForm& one : forms(computed())) epilogues.push_back(std::move(one));
  const std::vector<Target> can = compiler->targets();
  for (const Target& target : known_targets()) {
    if (std::find(can.begin(), can.end(), target) == can.end()) continue;
    for (const DType c : {DType::bf16, DType::f64}) {
      const CompileResult made = compiler->compile(request_of(epilogues, c, target));
      EXPECT_TRUE(made.image) << to_string(target) << ": " << made.log;
    }
  }
}

}  // namespace
}  // namespace tilewise::pointwise_host_test
