// `autotune images`: the kernels of the shipped portfolio as a file.
#include <gmock/gmock.h>

#include <cstdlib>

#include "db/database.hpp"
#include "tests/cli/program.hpp"

namespace cli_test::cli_images_test {
namespace {

using testing::HasSubstr;

class CliImages : public ProgramTest {};

TEST_F(CliImages, BadInputIsAnErrorAndWritesNothing) {
  const std::string to = file("x.images").string();
  const Result kind = run({"images", "--kinds", "bf17", "-o", to});
  EXPECT_EQ(kind.status, 2);
  EXPECT_THAT(kind.err, HasSubstr("'bf17' is no kind of product"));
  const Result arch = run({"images", "--arch", "sm_80", "-o", to});
  EXPECT_NE(arch.status, 0);
  EXPECT_THAT(arch.err, HasSubstr("no portfolio of sm_80"));
  EXPECT_NE(run({"images", "--arch", "sm_9", "-o", to}).status, 0);
  EXPECT_NE(run({"images", "-o", "/nowhere/x.images"}).status, 0);
  EXPECT_FALSE(fs::exists(to));
}

TEST_F(CliImages, OfOneKindAreCompiledAndKeptForTheNextRun) {
  if (!std::getenv("TILEWISE_FULL")) GTEST_SKIP() << "TILEWISE_FULL=1 runs it: it needs minutes";
  const std::string to = file("x.images").string();
  const Result made = run({"images", "--kinds", "f32x3", "-o", to, "--json"});
  if (made.err.find("NVRTC") != std::string::npos && made.status != 0) GTEST_SKIP() << made.err;
  ASSERT_EQ(made.status, 0) << made.err;
  const Json json = made.json();
  EXPECT_GE(json.at("images"), 20);
  EXPECT_EQ(json.at("compiled"), json.at("images"));
  EXPECT_EQ(json.at("bytes"), fs::file_size(to));
  EXPECT_EQ(run({"images", "--kinds", "f32x3", "-o", to, "--json"}).json().at("compiled"), 0);
}

}  // namespace
}  // namespace cli_test::cli_images_test
