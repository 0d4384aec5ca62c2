// compile, space and templates: commands that need no GPU.
#include <gmock/gmock.h>

#include "tests/cli/program.hpp"

namespace cli_test::cli_compile_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CliCompile : public ProgramTest {
 protected:
  CliCompile() { hide_gpus(); }

  /// Skips without NVRTC.
  Result compile(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "compile");
    return run(arguments);
  }
};

#define COMPILE_OR_SKIP(result, ...)                                  \
  const Result result = compile(__VA_ARGS__);                         \
  if (result.status == 4) GTEST_SKIP() << "no NVRTC: " << result.err; \
  ASSERT_EQ(result.status, 0) << result.err

TEST_F(CliCompile, CompilesTheDefaultsAndStoresTheirImages) {
  COMPILE_OR_SKIP(first, {"--arch", "sm_90", "--sizes", "64", "--json"});
  const Json kernels = first.json().at("kernels");
  ASSERT_FALSE(kernels.empty());
  for (const Json& kernel : kernels) {
    EXPECT_EQ(kernel.at("target"), "sm_90a");
    EXPECT_TRUE(kernel.at("ok"));
    EXPECT_FALSE(kernel.at("stored"));
    EXPECT_GT(kernel.at("registers"), 0);
    EXPECT_GT(kernel.at("binary_bytes"), 0);
    EXPECT_GT(kernel.at("blocks_per_multiprocessor"), 0);
  }
  EXPECT_EQ(run({"db", "info", "--json"}).json().at("counts").at("images"), kernels.size());
  const Json again = compile({"--arch", "sm_90", "--sizes", "64", "--json"}).json().at("kernels");
  ASSERT_EQ(again.size(), kernels.size());
  for (const Json& kernel : again) EXPECT_TRUE(kernel.at("stored")) << "compiled twice";
}

TEST_F(CliCompile, SizesShareTheirKernels) {
  COMPILE_OR_SKIP(one, {"--arch", "sm_80", "--sizes", "256", "--templates", "naive", "--json"});
  COMPILE_OR_SKIP(two, {"--arch", "sm_80", "--sizes", "256,512", "--templates", "naive", "--json"});
  EXPECT_EQ(one.json().at("kernels").size(), two.json().at("kernels").size());
}

TEST_F(CliCompile, AKernelNamesTheProblemsThatLaunchIt) {
  COMPILE_OR_SKIP(result, {"--arch", "host", "--sizes", "33,34", "--templates", "naive",
                           "--no-store", "--json"});
  const Json kernels = result.json().at("kernels");
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].at("problem").at("m"), 33);
  ASSERT_EQ(kernels[0].at("other_problems").size(), 1U);
  EXPECT_EQ(kernels[0].at("other_problems")[0].at("m"), 34);
  const Result table =
      compile({"--arch", "host", "--sizes", "33,34", "--templates", "naive", "--no-store"});
  EXPECT_THAT(table.out, HasSubstr("nn 33x33x33 +1"));
}

TEST_F(CliCompile, NoStoreLeavesNoDatabase) {
  COMPILE_OR_SKIP(result, {"--arch", "sm_75", "--only", "naive", "--no-store"});
  EXPECT_THAT(result.out, AllOf(HasSubstr("registers"), HasSubstr("naive"), HasSubstr("sm_75")));
  EXPECT_FALSE(fs::exists(database()));
}

TEST_F(CliCompile, RandomDrawsAreTheSameForASeed) {
  const std::vector<std::string> arguments{"--arch",     "sm_86",  "--templates", "tiled",
                                           "--random",   "3",      "--seed",      "5",
                                           "--no-store", "--json", "--quiet"};
  COMPILE_OR_SKIP(first, arguments);
  EXPECT_EQ(first.err, "");
  const auto names = [](const Json& document) {
    std::vector<std::string> kernels;
    for (const Json& kernel : document.at("kernels")) kernels.push_back(kernel.at("kernel"));
    return kernels;
  };
  EXPECT_FALSE(names(first.json()).empty());
  EXPECT_EQ(names(first.json()), names(compile(arguments).json()));
}

TEST_F(CliCompile, TheTableFitsTheTerminal) {
  set("COLUMNS", "60");
  COMPILE_OR_SKIP(result, {"--arch", "sm_90", "--only", "naive", "--no-store", "-v"});
  EXPECT_LE(widest_line(result.out), 60U) << result.out;
}

TEST_F(CliCompile, SpaceCountsAndSaysWhyDrawsAreRefused) {
  const Result result =
      run({"space", "--arch", "sm_90,sm_75", "--sizes", "1024", "--draws", "2000", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json spaces = result.json().at("spaces");
  ASSERT_GE(spaces.size(), 4U);
  for (const Json& space : spaces) {
    EXPECT_GE(space.at("raw"), space.at("valid"));
    const double valid = space.at("valid"), error = space.at("valid_standard_error");
    EXPECT_EQ(space.at("valid_is_exact").get<bool>(), error == 0);
    EXPECT_DOUBLE_EQ(space.at("share"), valid / space.at("raw").get<double>());
    if (space.at("template") == "simt") {  // uniform draws find no valid one
      EXPECT_GT(valid, 1e8);
      EXPECT_LT(error, 0.1 * valid);
    }
    double refused = 0;
    for (const Json& count : space.at("rejections")) refused += count.get<double>();
    EXPECT_NEAR(space.at("acceptance").get<double>(), 1 - refused / 2000, 1e-12);
  }
  EXPECT_THAT(run({"space", "--arch", "sm_90", "--draws", "100"}).out,
              AllOf(HasSubstr("simt"), HasSubstr("e10  +- "), HasSubstr("refused first by"),
                    HasSubstr("Of 100 uniform draws")));
}

TEST_F(CliCompile, ASubspaceOfOneTemplatesParametersIsCountedExactly) {
  const Json parameters =
      run({"templates", "naive", "--json"}).json().at("templates")[0].at("parameters");
  ASSERT_FALSE(parameters.empty());
  const std::string name = parameters[0].at("name");
  const std::string value = std::to_string(parameters[0].at("values")[0].get<int>());
  const Json whole = run({"space", "--arch", "sm_90", "--templates", "naive", "--json"}).json();
  const Json part = run({"space", "--arch", "sm_90", "--templates", "naive", "--subspace",
                         name + "=" + value, "--json"})
                        .json();
  EXPECT_EQ(part.at("spaces")[0].at("raw").get<double>() *
                static_cast<double>(parameters[0].at("values").size()),
            whole.at("spaces")[0].at("raw").get<double>());
  for (const Json& json : {whole, part}) EXPECT_TRUE(json.at("spaces")[0].at("valid_is_exact"));
  EXPECT_LT(part.at("spaces")[0].at("valid"), whole.at("spaces")[0].at("valid"));
}

TEST_F(CliCompile, TemplatesAreListedWithParametersAndConstraintsInWords) {
  const Result result = run({"templates"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("naive:"), HasSubstr("simt:"), HasSubstr("TILE_M:"),
                                HasSubstr("  constraints (")));
  const Json simt = run({"templates", "simt", "--json"}).json().at("templates");
  ASSERT_EQ(simt.size(), 1U);
  EXPECT_FALSE(simt[0].at("parameters").empty());
  for (const Json& constraint : simt[0].at("constraints")) EXPECT_NE(constraint.at("text"), "");
}

}  // namespace
}  // namespace cli_test::cli_compile_test
