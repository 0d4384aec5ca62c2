// Conversions between types on the CPU executor. They also compile for every GPU, with conversion
// instructions or without.
#include "device/cpu/cpu.hpp"
#include "device/cuda/cuda.hpp"
#include "tests/device/conversions_checks.hpp"
#include "tilewise/error.hpp"

namespace tilewise::conversions_test {
namespace {

class Conversions : public testing::TestWithParam<DType> {};

TEST_P(Conversions, AreRoundedToNearestAndWidenedExactly) {
  const auto device = cpu::open_device("host");
  const auto compiler = cpu::load_compiler({"-O1", ""});
  test::check_conversions({*device, *compiler}, GetParam());
}

TEST_P(Conversions, CompileForEveryGpu) {
  std::unique_ptr<Compiler> compiler;
  try {
    compiler = cuda::load_compiler();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const std::vector<Target> can = compiler->targets();
  for (const Target& target : known_targets()) {
    if (std::find(can.begin(), can.end(), target) == can.end()) continue;
    const CompileResult made = compiler->compile(test::dialect_request(
        "convert", test::kConvert,
        {{"CODES", 256}, {"VALUES", 256}, {"RESULT", static_cast<int>(GetParam())}}, target));
    EXPECT_TRUE(made.image) << to_string(target) << ": " << made.log;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Conversions, testing::ValuesIn(test::kSmallTypes),
                         [](const auto& of) { return std::string(to_string(of.param)); });

}  // namespace
}  // namespace tilewise::conversions_test
