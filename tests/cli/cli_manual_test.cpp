// The manual page: it has every subcommand and option, and man accepts it without a warning.
#include <gmock/gmock.h>

#include <sstream>

#include "tests/cli/program.hpp"

namespace cli_test::cli_manual_test {
namespace {

using testing::HasSubstr;
using testing::Not;

class CliManual : public ProgramTest {
 protected:
  /// The page as printed by man, in one column; empty without man.
  std::string shown(const std::string& page) {
    if (std::system("command -v man groff > /dev/null 2>&1") != 0) return "";
    write(file("autotune.1"), page);
    const std::string command =
        "cd " + file("").string() +
        " && MANWIDTH=200 man --warnings -E UTF-8 -l ./autotune.1 2> errors | col -b > shown";
    EXPECT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(read(file("errors")), "");
    return read(file("shown"));
  }
};

TEST_F(CliManual, HasEverySubcommandWithItsOptions) {
  const Result result = run({"manual"});
  ASSERT_EQ(result.status, 0) << result.err;
  const std::string page = shown(result.out);
  if (page.empty()) GTEST_SKIP() << "man or groff is not installed";
  for (const char* heading :
       {"NAME", "SYNOPSIS", "EXAMPLES", "EXIT STATUS", "ENVIRONMENT", "FILES"})
    EXPECT_THAT(page, HasSubstr(std::string("\n") + heading + "\n"));
  const std::string completion = run({"completion", "fish"}).out;
  std::istringstream lines(completion);
  int options = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find(" -l ");
    if (at == std::string::npos || line.rfind("complete ", 0) != 0) continue;
    const auto end = line.find(' ', at + 4);
    EXPECT_THAT(page, HasSubstr("--" + line.substr(at + 4, end - at - 4))) << line;
    ++options;
  }
  EXPECT_GT(options, 100);
  for (const char* command : {"autotune tune", "autotune db prune", "autotune report"})
    EXPECT_THAT(page, HasSubstr(std::string("\n") + command + "\n"));
  EXPECT_THAT(page, Not(HasSubstr("autotune worker"))) << "it is for the program itself";
  EXPECT_THAT(page, HasSubstr("'TILE_M=64;TILE_N=64,128'")) << "examples are whole";
}

TEST_F(CliManual, IsNotAmongTheSubcommandsForPeople) {
  EXPECT_THAT(run({"--help"}).out, Not(HasSubstr("manual")));
  EXPECT_THAT(run({"completion", "bash"}).out, Not(HasSubstr("manual")));
}

}  // namespace
}  // namespace cli_test::cli_manual_test
