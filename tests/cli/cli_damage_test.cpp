// Damaged rows and planted files: every command warns of them, an export reports missing rows, and
// `db prune` repairs without deleting files of other users.
#include <gmock/gmock.h>
#include <pwd.h>
#include <sys/stat.h>

#include "db/sqlite.hpp"
#include "tests/cli/program.hpp"

namespace cli_test::cli_damage_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tilewise::Connection;

class CliDamage : public ProgramTest {
 protected:
  void SetUp() override {
    hide_gpus();
    ASSERT_EQ(run({"--device", "host", "--sizes", "16", "--max-evaluations", "2", "--templates",
                   "naive", "--budget", "600"})
                  .status,
              0);
  }
  void change(const std::string& sql) const {
    Connection(database(), Connection::Access::write).execute(sql);
  }
  fs::path cache() const { return database().string() + ".cache"; }
};

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST_F(CliDamage, EveryCommandSaysSoOnce) {
  change("UPDATE records SET median_us = 0.001 WHERE id IN (SELECT record_id FROM winners)");
  const std::vector<std::string> commands[] = {{"query"},
                                               {"query", "--sizes", "16"},
                                               {"verify", "--device", "host"},
                                               {"db", "info"},
                                               {"db", "list"},
                                               {"export"},
                                               {"query", "--json"},
                                               {"export", file("out.json").string()}};
  for (const auto& command : commands) {
    SCOPED_TRACE(testing::PrintToString(command));
    const Result result = run(command);
    EXPECT_EQ(times(result.err, "is damaged and is not used"),
              command.front() == "export" ? 2U : 1U)
        << result.err;
    EXPECT_THAT(result.out, Not(HasSubstr("damaged")));
  }
  EXPECT_EQ(run({"query", "--json"}).json().at("gpus").size(), 1U);
}

TEST_F(CliDamage, AnExportThatLacksRowsIsWrittenAndIsAFailure) {
  EXPECT_EQ(run({"export"}).status, 0);
  change("UPDATE records SET median_us = 0.001 WHERE id IN (SELECT record_id FROM winners)");
  const Result text = run({"export"});
  EXPECT_EQ(text.status, 5);
  EXPECT_THAT(text.err, AllOf(HasSubstr("not complete"), HasSubstr("2 rows")));
  EXPECT_EQ(text.json().at("winners").size(), 0U);
  const Result result = run({"export", file("out.json").string(), "--json"});
  EXPECT_EQ(result.status, 5);
  EXPECT_EQ(result.json().at("left_out"), 2);
  EXPECT_TRUE(Json::parse(read(file("out.json"))).contains("records"));
}

TEST_F(CliDamage, PruneDropsItAndSaysHowMuch) {
  change("UPDATE records SET median_us = 0.001 WHERE id IN (SELECT record_id FROM winners)");
  const Json damage = run({"db", "check", "--json"}).json().at("damage");
  ASSERT_EQ(damage.size(), 1U) << damage;
  EXPECT_THAT(damage.front().get<std::string>(), HasSubstr("it is a winner"));
  const Result pruned = run({"db", "prune"});
  EXPECT_EQ(pruned.status, 0) << pruned.err;
  EXPECT_THAT(pruned.out, HasSubstr("damaged rows dropped: 1"));
  EXPECT_EQ(run({"db", "check"}).status, 0);
  EXPECT_EQ(run({"export"}).status, 0);
  EXPECT_EQ(run({"--device", "host", "--sizes", "16", "--max-evaluations", "2", "--templates",
                 "naive", "--budget", "600"})
                .status,
            0);
  EXPECT_EQ(run({"db", "info", "--json"}).json().at("counts").at("winners"), 1);
}

TEST_F(CliDamage, StoredTextCannotSteerATerminal) {
  change("UPDATE records SET gpu = 'evil' || char(27) || ']0;x' || char(7) || '|host:8.0|4'");
  for (const auto& command : {std::vector<std::string>{"query"}, {"db", "info"}, {"db", "check"}}) {
    const Result result = run(command);
    EXPECT_THAT(result.out + result.err, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\x07"))));
  }
  EXPECT_THAT(run({"db", "info"}).out, HasSubstr("evil\\x1b]0;x\\x07"));
}

TEST_F(CliDamage, PruneDeletesNoFileThatIsNotACache) {
  write(cache(), "notes");
  ASSERT_EQ(chmod(cache().c_str(), 0600), 0);
  const Result result = run({"db", "prune", "--json"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.json().at("cache_bytes"), 0);
  EXPECT_THAT(result.json().at("not_done").get<std::string>(),
              AllOf(HasSubstr(cache().string()), HasSubstr("no SQLite database")));
  EXPECT_EQ(read(cache()), "notes");
}

TEST_F(CliDamage, PruneDeletesNothingWhereTheDatabaseIsRefused) {
  ASSERT_TRUE(fs::exists(cache()));
  ASSERT_EQ(chmod(database().c_str(), 0666), 0);
  EXPECT_EQ(run({"db", "prune"}).status, 5);
  EXPECT_TRUE(fs::exists(cache()));
  ASSERT_EQ(chmod(database().c_str(), 0600), 0);
  EXPECT_EQ(run({"db", "prune"}).status, 0);
  EXPECT_FALSE(fs::exists(cache()));
}

TEST_F(CliDamage, PruneFollowsNoLinkOfAnother) {
  const passwd* daemon = getpwnam("daemon");
  if (geteuid() != 0 || !daemon) GTEST_SKIP() << "needs root, and the user daemon";
  fs::remove(cache());
  write(file("secret"), "a secret");
  write(file("secret-journal"), "another");
  fs::create_symlink(file("secret"), cache());
  ASSERT_EQ(lchown(cache().c_str(), daemon->pw_uid, daemon->pw_gid), 0);
  const Result result = run({"db", "prune"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("was not deleted"), HasSubstr("another user")));
  EXPECT_EQ(read(file("secret")), "a secret");
  EXPECT_EQ(read(file("secret-journal")), "another");
}

}  // namespace
}  // namespace cli_test::cli_damage_test
