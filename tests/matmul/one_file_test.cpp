// A kernel's source as one text: complete, and with the same machine code.
#include <gmock/gmock.h>

#include "device/elf.hpp"
#include "device/machines.hpp"
#include "templates/sources.hpp"
#include "tilewise/error.hpp"

namespace tilewise::one_file_test {
namespace {

using testing::HasSubstr;
using testing::Not;

Problem square(DType type) {
  Problem problem;
  set_types(problem, type, default_result(type), MathMode::strict);
  problem.m = problem.n = problem.k = 256;
  return problem;
}

/// The kernels of every template's default configuration, with their packs and reductions.
std::vector<KernelSpec> kernels_for(const DeviceInfo& device) {
  std::vector<KernelSpec> kernels;
  for (const DType type : {DType::f32, DType::bf16})
    for (const KernelTemplate& kernel : catalog()) {
      const Problem problem = square(type);
      if (!kernel.supports(problem, device)) continue;
      const Plan plan = kernel.plan(problem, kernel.default_configuration(problem, device), device);
      for (const LaunchStep& step : plan.steps) kernels.push_back(step.kernel);
    }
  return kernels;
}

TEST(OneFile, HasTheConstantsAndNoIncludeOfOurs) {
  const auto kernels = kernels_for(nominal_device(parse_target("sm_90a")));
  ASSERT_GT(kernels.size(), 6);
  for (const KernelSpec& kernel : kernels) {
    const std::string text = text_in_one_file(kernel);
    for (const auto& [name, value] : kernel.defines)
      EXPECT_THAT(text, HasSubstr("#define " + name + " " + std::to_string(value) + "\n"));
    for (const auto& [header, unused] : kernel_source(kernel.source).headers)
      EXPECT_THAT(text, Not(HasSubstr("#include \"" + header + "\"")));
    EXPECT_THAT(text, Not(HasSubstr("#pragma once")));
  }
}

TEST(OneFile, CompilesToTheSameCode) {
  const DeviceInfo device = nominal_device(parse_target("sm_90a"));
  std::unique_ptr<Compiler> compiler;
  try {
    compiler = load_compiler(device.target);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  for (const KernelSpec& kernel : kernels_for(device)) {
    const KernelSource& source = kernel_source(kernel.source);
    const auto usual = compiler->compile({kernel, source.text, source.headers, device.target});
    KernelSpec bare = kernel;  // the text has the constants; the compiler's own options stay
    std::erase_if(bare.defines, [](const auto& define) {
      return define.first != kMaxRegisters && define.first != kNoSpills;
    });
    std::string text = text_in_one_file(kernel);
    const auto one = compiler->compile({bare, text, {}, device.target});
    ASSERT_TRUE(usual.image) << usual.log;
    ASSERT_TRUE(one.image) << to_string(kernel) << "\n" << one.log;
    EXPECT_EQ(code_hash(one.image->binary), code_hash(usual.image->binary)) << to_string(kernel);
  }
}

TEST(OneFile, PtxIsMadeForAGpuAndRefusedForTheCpu) {
  const Target cpu = default_host_target();
  EXPECT_THROW((void)load_compiler(cpu)->ptx({}), Error);
  const DeviceInfo device = nominal_device(parse_target("sm_80"));
  std::unique_ptr<Compiler> compiler;
  try {
    compiler = load_compiler(device.target);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const KernelSpec kernel = kernels_for(device).front();
  const KernelSource& source = kernel_source(kernel.source);
  const std::string ptx = compiler->ptx({kernel, source.text, source.headers, device.target});
  EXPECT_THAT(ptx, HasSubstr(".target sm_80"));
  EXPECT_THAT(ptx, HasSubstr(".entry " + kernel.entry));
  try {
    (void)compiler->ptx({kernel, "#error no such thing", {}, device.target});
    ADD_FAILURE() << "a source that does not compile";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::compiler);
    EXPECT_THAT(error.what(), HasSubstr("no such thing"));
  }
}

}  // namespace
}  // namespace tilewise::one_file_test
