// --epilogue of each subcommand that takes one, on the CPU.
#include <gmock/gmock.h>

#include "tests/cli/program.hpp"

namespace cli_test::cli_epilogue_test {
namespace {

using testing::HasSubstr;

class CliEpilogue : public ProgramTest {
 protected:
  CliEpilogue() {
    hide_gpus();
    set("TILEWISE_HOST_FLAGS", "-O0");
  }
  /// Of a product of 33, with the epilogue.
  Result with_epilogue(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--sizes", "33", "--epilogue", "silu(acc + bias[j])"});
    return run(arguments);
  }
};

TEST_F(CliEpilogue, IsTunedFoundExplainedShownAndCompiled) {
  ASSERT_EQ(with_epilogue({"tune", "--device", "host", "--budget", "600", "--max-evaluations", "1",
                           "--templates", "naive"})
                .status,
            0);
  const Result queried = with_epilogue({"query", "--device", "host", "--json"});
  EXPECT_EQ(queried.status, 0) << queried.err;
  EXPECT_THAT(queried.out, HasSubstr("silu((acc+p0[j]))"));
  const Result explained = with_epilogue({"explain", "--device", "host", "--json"});
  ASSERT_EQ(explained.status, 0) << explained.err;
  const Json explanation = explained.json().at("explanations").at(0);
  EXPECT_EQ(explanation.at("match"), "exact");
  EXPECT_EQ(explanation.at("problem").at("epilogue"), "silu((acc+p0[j]))");
  // The same product without it has another kernel.
  const Result bare = run({"explain", "--device", "host", "--sizes", "33", "--json"});
  EXPECT_EQ(bare.json().at("explanations").at(0).at("match"), "predicted");
  const Result source = with_epilogue({"source", "--cuda", "--arch", "sm_90", "--only", "naive"});
  ASSERT_EQ(source.status, 0) << source.err;
  EXPECT_THAT(source.out, HasSubstr("silu"));
  const Result compiled = with_epilogue({"compile", "--arch", "host", "--only", "naive", "--json"});
  ASSERT_EQ(compiled.status, 0) << compiled.err;
  EXPECT_THAT(compiled.out, HasSubstr("silu((acc+p0[j]))"));
}

TEST_F(CliEpilogue, ErrorsPointIntoTheText) {
  const Result result =
      run({"explain", "--device", "host", "--sizes", "33", "--epilogue", "acc + bias[k]"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("character"));
}

}  // namespace
}  // namespace cli_test::cli_epilogue_test
