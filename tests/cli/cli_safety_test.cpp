// Damaged files, other users' files, a deleted folder: the messages and exit statuses.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <thread>

#include "tests/cli/program.hpp"

namespace cli_test::cli_safety_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CliSafety : public ProgramTest {
 protected:
  CliSafety() { hide_gpus(); }
  /// Tunes one product with the smallest kernels: about two compiles.
  Result tune(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"--device",          "host", "--sizes",     "16",
                                   "--max-evaluations", "2",    "--templates", "naive"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  static void flip_in(const fs::path& path, const std::string& text, std::size_t after) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const std::size_t at = bytes.rfind(text);
    ASSERT_NE(at, std::string::npos);
    file.clear();
    file.seekp(static_cast<std::streamoff>(at + after));
    file.put(static_cast<char>(bytes[at + after] ^ 4));
  }
  static mode_t mode_of(const fs::path& path) {
    struct stat status {};
    EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }
};

TEST_F(CliSafety, WhatIsMadeIsTheUsersAlone) {
  set("TILEWISE_DB", file("made/here/x.db").string());
  ASSERT_EQ(tune().status, 0);
  EXPECT_EQ(mode_of(file("made")), 0700U);
  EXPECT_EQ(mode_of(file("made/here")), 0700U);
  EXPECT_EQ(mode_of(file("made/here/x.db")), 0600U);
  EXPECT_EQ(mode_of(file("made/here/x.db.cache")), 0600U);
}

TEST_F(CliSafety, AFileThatOthersMayWriteIsRefusedWithTheOptionThatAllowsIt) {
  ASSERT_EQ(tune().status, 0);
  ASSERT_EQ(chmod(database().c_str(), 0666), 0);
  const Result refused = run({"query"});
  EXPECT_EQ(refused.status, 5);
  EXPECT_THAT(refused.err, AllOf(HasSubstr(database().string()), HasSubstr("every user may write"),
                                 HasSubstr("0666"), HasSubstr("--trust-files")));
  EXPECT_EQ(run({"query", "--trust-files"}).status, 0);
  set("TILEWISE_TRUST_FILES", "1");
  EXPECT_EQ(run({"query"}).status, 0);
}

TEST_F(CliSafety, AnUntrustedCacheIsDoneWithout) {
  ASSERT_EQ(tune().status, 0);
  const fs::path cache = database().string() + ".cache";
  ASSERT_EQ(chmod(cache.c_str(), 0666), 0);
  const Result again = tune({"--force"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, AllOf(HasSubstr("image cache is not used"), HasSubstr("0666")));
}

TEST_F(CliSafety, APipeIsNoDatabaseAndHoldsNothingUp) {
  ASSERT_EQ(mkfifo(file("pipe").c_str(), 0600), 0);
  const Result result = run({"query", "--db", file("pipe").string()});
  EXPECT_EQ(result.status, 5);
  EXPECT_THAT(result.err, HasSubstr("a named pipe"));
}

TEST_F(CliSafety, DbCheckNamesWhatIsDamaged) {
  ASSERT_EQ(tune().status, 0);
  const Result whole = run({"db", "check", "--json"});
  EXPECT_EQ(whole.status, 0);
  EXPECT_TRUE(whole.json().at("damage").empty());
  flip_in(database(),
          "\x7f"
          "ELF",
          600);
  const Result damaged = run({"db", "check"});
  EXPECT_EQ(damaged.status, 5);
  EXPECT_THAT(damaged.out, AllOf(HasSubstr("image of naive.cu"), HasSubstr("hash")));
  // The kernel is compiled again and replaces the damaged image.
  const Result again = tune({"--force", "--no-cache"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("is damaged"));
  EXPECT_EQ(run({"db", "check"}).status, 0);
}

TEST_F(CliSafety, ADamagedCacheIsMadeAnew) {
  ASSERT_EQ(tune().status, 0);
  const fs::path cache = database().string() + ".cache";
  fs::resize_file(cache, 100);  // its header
  const Result again = tune({"--force"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("made anew"));
  EXPECT_EQ(run({"db", "prune"}).status, 0);
  EXPECT_FALSE(fs::exists(cache));
}

TEST_F(CliSafety, AnImportTakesImagesOnlyWhenAsked) {
  ASSERT_EQ(tune().status, 0);
  ASSERT_EQ(run({"export", file("all.json").string()}).status, 0);
  const std::string from = database().string();
  set("TILEWISE_DB", file("other.db").string());
  EXPECT_EQ(run({"import", from}).status, 0);
  EXPECT_EQ(run({"db", "info", "--json"}).json().at("counts").at("images"), 0);
  const Result text = run({"import", "--images", file("all.json").string()});
  EXPECT_EQ(text.status, 2);
  EXPECT_THAT(text.err, HasSubstr("is no database"));
  const Json imported = run({"import", "--images", from, "--json"}).json();
  EXPECT_GT(imported.at("images"), 0);
  const Json records = run({"db", "list", "--json"}).json().at("records");
  for (const Json& record : records) EXPECT_EQ(record.at("origin"), "imported");
}

TEST_F(CliSafety, AFolderDeletedWhileTuningIsNoSuccess) {
  const fs::path folder = file("gone");
  set("TILEWISE_DB", (folder / "x.db").string());
  const pid_t pid = start({"--device", "host", "--sizes", "48", "--budget", "20", "--strategy",
                           "random", "--templates", "naive,tiled", "-v"},
                          "/dev/null");
  for (int i = 0; i < 2000 && read(file("stderr")).find(" +- ") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  fs::remove_all(folder);
  const Result result = finish(pid);
  EXPECT_EQ(result.status, 5) << result.out;
  EXPECT_THAT(result.err, AllOf(HasSubstr("deleted"), HasSubstr("x.db")));
  EXPECT_THAT(result.out, Not(HasSubstr("new")));
}

TEST_F(CliSafety, ARelativeDatabaseWithoutAWorkingFolderIsADatabaseError) {
  for (const char* command :
       {"tune --device host --sizes 8 --max-evaluations 1", "query", "db info", "db path", "export",
        "verify --device host", "cover --device host"}) {
    const std::string gone = file("gone").string();
    const Result result = run_program(
        "/bin/sh", {"-c", "mkdir " + gone + " && cd " + gone + " && rmdir " + gone +
                              " && exec " TILEWISE_AUTOTUNE " " + command + " --db x.db"});
    EXPECT_EQ(result.status, 5) << command << result.err;
    EXPECT_NE(result.err.find("x.db"), std::string::npos) << result.err;
  }
}

TEST_F(CliSafety, OfADatabaseThatGoesMeanwhileTheBestMeasuredIsNamedAllTheSame) {
  const fs::path folder = file("gone");
  set("TILEWISE_DB", (folder / "x.db").string());
  const pid_t pid = start({"--device", "host", "--sizes", "16,48,64", "--budget", "20", "-v",
                           "--strategy", "random", "--templates", "naive,tiled", "--json"},
                          "/dev/null");
  for (int i = 0; i < 2000 && read(file("stderr")).find(" +- ") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  fs::remove_all(folder);
  const Result result = finish(pid);
  EXPECT_EQ(result.status, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("deleted"));
  const Json results = result.json().at("results");
  ASSERT_EQ(results.size(), 1U) << "of no use to the sizes that follow";
  EXPECT_EQ(results[0].at("stored"), "not stored");
  EXPECT_EQ(results[0].at("winner").at("outcome"), "ok");
  EXPECT_EQ(result.json().at("error").at("kind"), "database");
}

TEST_F(CliSafety, KilledCompilersAreNamedAsTheCauseAndLeaveNoRecord) {
  write(file("compiler"),
        "#!/bin/sh\n[ \"$1\" = --version ] && { echo scripted; exit; }\n"
        "kill -9 $$\n");
  fs::permissions(file("compiler"), fs::perms::owner_all);
  set("TILEWISE_CXX", file("compiler").string());
  const Result result = tune();
  EXPECT_EQ(result.status, 1) << result.out;
  EXPECT_THAT(result.err, AllOf(HasSubstr("faults of the system"), HasSubstr("signal 9")));
  EXPECT_THAT(result.out, AllOf(HasSubstr("faults"), Not(HasSubstr("no valid candidate"))));
  EXPECT_EQ(run({"db", "info", "--json"}).json().at("counts").at("records"), 0);
}

TEST_F(CliSafety, NestedBracketsAreRefused) {
  write(file("deep.json"), std::string(75'000, '['));
  const Result result = run({"import", file("deep.json").string()});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("nested"));
}

}  // namespace
}  // namespace cli_test::cli_safety_test
