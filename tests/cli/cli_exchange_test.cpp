// Merged databases and the formats of other tuners, from searches on the CPU.
#include <gmock/gmock.h>

#include "tests/cli/program.hpp"

namespace cli_test::cli_exchange_test {
namespace {

using testing::HasSubstr;

class CliExchange : public ProgramTest {
 protected:
  std::string path(const std::string& name) const { return file(name).string(); }
  void tune(const std::string& name, const std::string& size) const {
    ASSERT_EQ(run({"tune", "--device", "host", "--sizes", size, "--budget", "600",
                   "--max-evaluations", "2", "--templates", "naive", "--db", path(name)})
                  .status,
              0);
  }
};

TEST_F(CliExchange, DatabasesAreTakenTogether) {
  tune("first.db", "33");
  tune("second.db", "34");
  const Result taken =
      run({"import", "--db", path("all.db"), path("first.db"), path("second.db"), "--json"});
  ASSERT_EQ(taken.status, 0) << taken.err;
  EXPECT_EQ(taken.json().at("imported"), 4);
  const Json counts = run({"db", "info", "--db", path("all.db"), "--json"}).json().at("counts");
  EXPECT_EQ(counts.at("records"), 4);
  EXPECT_EQ(counts.at("winners"), 2);
  EXPECT_EQ(
      run({"import", "--db", path("all.db"), path("first.db"), "--json"}).json().at("imported"), 0);
  write(path("no.json"), "{}");
  const Result refused =
      run({"import", "--db", path("half.db"), path("first.db"), path("no.json")});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("no.json: nothing was imported: "));
  EXPECT_THAT(refused.err, HasSubstr("; the files before it are imported"));
  EXPECT_EQ(
      run({"db", "info", "--db", path("half.db"), "--json"}).json().at("counts").at("records"), 2);
  write(path("torn.db"), "SQLite format 3 and no more");
  const Result torn = run({"import", "--db", path("new.db"), path("first.db"), path("torn.db")});
  EXPECT_EQ(torn.status, 5);
  EXPECT_THAT(torn.err, HasSubstr("torn.db"));
  EXPECT_FALSE(std::filesystem::exists(path("new.db"))) << "all files are read before it is opened";
}

TEST_F(CliExchange, OtherTunersFormsGoOutAndComeIn) {
  tune("first.db", "33");
  for (const char* form : {"t4", "kernel-tuner"}) {
    ASSERT_EQ(run({"export", path("out.json"), "--as", form, "--template", "naive", "--sizes", "33",
                   "--db", path("first.db")})
                  .status,
              0);
    EXPECT_EQ(run({"replay", path("out.json"), "--repeats", "2", "--strategy", "random"}).status,
              0);
    const Result imported =
        run({"import", path("out.json"), "--as", form, "--template", "naive", "--sizes", "33",
             "--gpu", "NVIDIA H200|9.0|132", "--db", path(std::string(form) + ".db"), "--json"});
    ASSERT_EQ(imported.status, 0) << imported.err;
    EXPECT_EQ(imported.json().at("imported"), 2);
  }
  const Result unnamed = run({"export", path("x"), "--as", "t4", "--db", path("first.db")});
  EXPECT_EQ(unnamed.status, 2);
  EXPECT_THAT(unnamed.err, HasSubstr("needs --template"));
}

}  // namespace
}  // namespace cli_test::cli_exchange_test
