// `autotune source`: CUDA, PTX and machine code of a kernel. Tests that need NVRTC are skipped
// without it.
#include <gmock/gmock.h>

#include "tests/cli/program.hpp"
#include "tests/cli/report_samples.hpp"

namespace cli_test::cli_source_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CliSource : public ProgramTest {
 protected:
  CliSource() { hide_gpus(); }
  Result source(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "source");
    return run(arguments);
  }
  void fill(const std::string& gpu = "NVIDIA H200|9.0|132") {
    tilewise::Database made = tilewise::Database::open(database());
    fill_samples(made, {.candidates = 20, .gpu = gpu});
  }
  /// A made-up disassembler.
  std::string put_tool(const std::string& name, const std::string& body) {
    fs::create_directories(file("tools"));
    write(file("tools") / name, "#!/bin/sh\n" + body);
    fs::permissions(file("tools") / name, fs::perms::owner_all);
    return file("tools").string();
  }
};

const std::string kNvdisasm = R"(cat <<'END'
.text.naive:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 FFMA.FTZ R3, R4, R5, R3 ;
        /*0020*/                   FFMA R6, R4, R7, R6 ;
.L_x_1:
        /*0030*/               @P0 BRA `(.L_x_1) ;
END
)";

TEST_F(CliSource, CudaIsOneTextAndNeedsNoCompiler) {
  set("TILEWISE_NVRTC", "/nowhere");
  const Result result =
      source({"--cuda", "--arch", "sm_80", "--sizes", "64", "--only", "naive tile_m=4 tile_n=32"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("#define TILE_N 32\n"), HasSubstr("__global__"),
                                HasSubstr("-arch=sm_80"), HasSubstr("step multiply")));
}

TEST_F(CliSource, OfAStoredWinnerTheConfigurationIsThatOfTheWinner) {
  fill();
  const Json query = run({"query", "--json"}).json().at("gpus")[0].at("winners")[0];
  const Result result = source({"--cuda", "--sizes", "1024", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = result.json();
  EXPECT_EQ(json.at("match"), "exact");
  EXPECT_EQ(json.at("form"), "cuda");
  EXPECT_EQ(json.at("candidate"), query.at("candidate"));
  ASSERT_EQ(json.at("kernels").size(), 1);
  EXPECT_EQ(json.at("kernels")[0].at("step"), "multiply");
  EXPECT_EQ(source({"--cuda", "--sizes", "1000", "--json"}).json().at("match"), "predicted");
}

TEST_F(CliSource, PtxHasItsInstructionsCounted) {
  const Result result =
      source({"--ptx", "--arch", "sm_80", "--sizes", "64", "--only", "naive tile_n=32", "--json"});
  if (result.status == 4) GTEST_SKIP() << "no NVRTC: " << result.err;
  ASSERT_EQ(result.status, 0) << result.err;
  const Json kernel = result.json().at("kernels")[0];
  EXPECT_THAT(kernel.at("text").get<std::string>(), HasSubstr(".target sm_80"));
  EXPECT_GT(kernel.at("registers"), 0);
  EXPECT_GE(kernel.at("instructions").at("fma"), 1);
  EXPECT_GE(kernel.at("instructions").at("ld"), 2);
  EXPECT_EQ(kernel.at("instructions").at("ret"), 1);
}

TEST_F(CliSource, SassIsPrintedByATool) {
  const std::vector<std::string> arguments{"--sass", "--arch", "sm_80", "--sizes",
                                           "64",     "--only", "naive"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), arguments.begin(), arguments.end());
    return source(more);
  };
  const std::string tools = put_tool("nvdisasm", kNvdisasm);
  const Result result = with({"--disassembler", tools});
  if (result.status == 4) GTEST_SKIP() << "no NVRTC: " << result.err;
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("// 4 instructions"), HasSubstr("//   FFMA  2  50.0%"),
                                HasSubstr("registers"), HasSubstr("LDC R1, c[0x0][0x28]")));
  set("PATH", tools + ":/usr/bin:/bin");
  const Json json = with({"--json"}).json();
  EXPECT_EQ(json.at("kernels")[0].at("instructions"), (Json{{"FFMA", 2}, {"BRA", 1}, {"LDC", 1}}));
  put_tool("nvdisasm", "echo 'unknown architecture' >&2; exit 3\n");
  const Result failing = with({});
  EXPECT_EQ(failing.status, 2);
  EXPECT_THAT(failing.err, HasSubstr("unknown architecture"));
  EXPECT_THAT(with({"--disassembler", "/nowhere"}).err, HasSubstr("no nvdisasm or cuobjdump at"));
}

TEST_F(CliSource, WithoutADisassemblerTheErrorSaysHowToGetOne) {
  unset("CUDA_HOME"), unset("CUDA_PATH"), unset("VIRTUAL_ENV");
  const Result result = source({"--sass", "--arch", "sm_80", "--sizes", "64", "--only", "naive"});
  if (result.status == 0) GTEST_SKIP() << "this machine has one in its usual place";
  if (result.status == 4) GTEST_SKIP() << "no NVRTC";
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("nvdisasm"), HasSubstr("pip install")));
}

TEST_F(CliSource, OneFormOneProductAndOneGpuAreNeeded) {
  EXPECT_EQ(source({"--sizes", "64"}).status, 2);
  EXPECT_EQ(source({"--cuda", "--ptx", "--sizes", "64"}).status, 2);
  EXPECT_EQ(source({"--cuda", "--arch", "sm_80", "--sizes", "64"}).status, 2) << "no candidate";
  EXPECT_EQ(source({"--cuda", "--sizes", "64"}).status, 5) << "no database";
  fill();
  EXPECT_THAT(source({"--cuda", "--sizes", "64,128"}).err, HasSubstr("one product is needed"));
  fill("NVIDIA A100-SXM4-80GB|8.0|108");
  EXPECT_THAT(source({"--cuda", "--sizes", "64"}).err,
              AllOf(HasSubstr("one GPU is needed"), HasSubstr("A100")));
  EXPECT_EQ(source({"--cuda", "--gpu", "A100", "--sizes", "64"}).status, 0);
  EXPECT_THAT(source({"--ptx", "--device", "host", "--sizes", "64", "--only", "naive"}).err,
              HasSubstr("the CPU's kernels have no PTX"));
  EXPECT_EQ(source({"--cuda", "--device", "host", "--sizes", "64", "--only", "naive"}).status, 0);
}

}  // namespace
}  // namespace cli_test::cli_source_test
