// Temporary folders: those of dead processes are removed and their compilers ended; those of living
// processes stay.
#include <gmock/gmock.h>

#include "device/cpu/files.hpp"
#include "tests/device/scripted_compiler.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cpu_folders_test {
namespace {
namespace fs = std::filesystem;

using cpu::sweep_temporary_folders;
using cpu::TemporaryFolder;
using test::soon;

class CpuFolders : public test::ScriptedCompilerTest {
 protected:
  /// A folder of a dead process.
  fs::path stale_folder() {
    end_of(in_child([&] {
      const TemporaryFolder folder;
      cpu::write_file(folder.path() / "left.txt", "left", 4);
      kill(getpid(), SIGKILL);
    }));
    return fs::directory_iterator(temporary())->path();
  }
};

TEST_F(CpuFolders, AKilledCompileLeavesNothingAfterTheNextStart) {
  compile_by(
      "echo $$ > $TEST_FOLDER/driver\n"
      "sleep 1000 &\necho $! > $TEST_FOLDER/part\nwait");
  const pid_t child = in_child([] { compile(); });
  ASSERT_TRUE(soon([&] { return lives("driver") && lives("part"); }));
  kill(child, SIGKILL);
  end_of(child);
  EXPECT_EQ(folders(), 1);
  EXPECT_TRUE(lives("driver"));
  sweep_temporary_folders();
  EXPECT_EQ(folders(), 0);
  EXPECT_FALSE(lives("driver"));
  EXPECT_FALSE(lives("part"));
}

TEST_F(CpuFolders, TheFirstFolderOfAProcessSweeps) {
  stale_folder();
  ASSERT_EQ(folders(), 1);
  // In a new process, because this one has removed stale folders already.
  EXPECT_EQ(end_of(in_child([] {
              execl("/proc/self/exe", "test", "--gtest_also_run_disabled_tests",
                    "--gtest_filter=NewProcess.DISABLED_MakesAFolder", nullptr);
            })),
            0);
  EXPECT_EQ(folders(), 0);
}
TEST(NewProcess, DISABLED_MakesAFolder) { const TemporaryFolder folder; }

TEST_F(CpuFolders, AFolderOfALivingProcessStays) {
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t child = in_child([&] {
    const TemporaryFolder folder;
    EXPECT_EQ(::write(told[1], "x", 1), 1);
    pause();
  });
  char byte = 0;
  ASSERT_EQ(::read(told[0], &byte, 1), 1);
  const TemporaryFolder own;
  EXPECT_EQ(folders(), 2);
  sweep_temporary_folders();
  EXPECT_EQ(end_of(in_child([] { sweep_temporary_folders(); })), 0);
  EXPECT_EQ(folders(), 2);
  kill(child, SIGKILL);
  end_of(child);
  sweep_temporary_folders();
  EXPECT_EQ(folders(), 1);
  EXPECT_TRUE(fs::exists(own.path()));
}

TEST_F(CpuFolders, WhatIsNotOursStays) {
  const fs::path stale = stale_folder();
  fs::create_directory(temporary() / "tilewise-backup");
  fs::create_directory(temporary() / "tilewise-notes-backup");
  fs::create_directory(temporary() / "tilewise-12-longer_");
  fs::create_directory(file("elsewhere"));
  fs::create_directory_symlink(file("elsewhere"), temporary() / "tilewise-12-abcdef");
  cpu::write_file(temporary() / "tilewise-13-abcdef", "x", 1);
  sweep_temporary_folders();
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_EQ(folders(), 5);
  EXPECT_TRUE(fs::exists(file("elsewhere")));
}

/// A shell whose working folder is the stale folder must not be ended.
TEST_F(CpuFolders, AProcessThatOnlyStandsInTheFolderLives) {
  const fs::path stale = stale_folder();
  const pid_t child = in_child([&] {
    fs::current_path(stale);
    execlp("/bin/sleep", "sleep", "1000", nullptr);
  });
  ASSERT_TRUE(soon([&] {
    std::error_code error;
    return fs::read_symlink("/proc/" + std::to_string(child) + "/exe", error).filename() != "" &&
           fs::read_symlink("/proc/" + std::to_string(child) + "/cwd", error) == stale;
  }));
  sweep_temporary_folders();
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_EQ(kill(child, SIGKILL), 0);
  EXPECT_TRUE(WIFSIGNALED(end_of(child)));
}

TEST_F(CpuFolders, ASweepNeverTakesAFolderThatIsBeingMade) {
  const pid_t sweeper = in_child([] {
    for (;;) sweep_temporary_folders();
  });
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  int made = 0;
  for (; std::chrono::steady_clock::now() < until; ++made) {
    const TemporaryFolder folder;
    for (int i = 0; i < 5; ++i) cpu::write_file(folder.path() / std::to_string(i), "x", 1);
    EXPECT_EQ(cpu::read_file(folder.path() / "0"), "x");
  }
  kill(sweeper, SIGKILL);
  end_of(sweeper);
  EXPECT_GT(made, 10);
  EXPECT_EQ(folders(), 0);
}

/// In a fork()ed child the folder belongs to the parent.
TEST_F(CpuFolders, AChildLeavesItsParentsFolderAlone) {
  auto folder = std::make_unique<TemporaryFolder>();
  const fs::path path = folder->path();
  EXPECT_EQ(end_of(in_child([&] { folder.reset(); })), 0);
  EXPECT_TRUE(fs::exists(path));
  EXPECT_EQ(end_of(in_child([] { cpu::prepare_immediate_exit(); })), 0);
  EXPECT_TRUE(fs::exists(path));
  folder.reset();
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(CpuFolders, AnImmediateExitTakesCompilersAndFoldersAlong) {
  compile_by(
      "echo $$ > $TEST_FOLDER/driver\n"
      "sleep 1000 &\necho $! > $TEST_FOLDER/part\nwait");
  const pid_t child = in_child([&] {
    std::thread([] { compile(); }).detach();
    soon([&] { return lives("part"); });
    cpu::prepare_immediate_exit();
  });
  EXPECT_EQ(end_of(child), 0);
  EXPECT_FALSE(read("part").empty());
  EXPECT_FALSE(lives("driver"));
  EXPECT_TRUE(soon([&] { return !lives("part"); }));
  EXPECT_EQ(folders(), 0);
}

TEST_F(CpuFolders, CompilersHaveTheirTemporaryFilesInTheFolder) {
  compile_by("echo $TMPDIR $PWD $LC_ALL > $TEST_FOLDER/seen\nreal \"$@\"");
  ASSERT_TRUE(compile().image);
  std::istringstream seen(ScriptedCompilerTest::read("seen"));
  std::string places, folder, locale;
  seen >> places >> folder >> locale;
  EXPECT_EQ(places, folder);
  EXPECT_EQ(fs::path(folder).parent_path(), temporary());
  EXPECT_EQ(locale, "C");
  EXPECT_EQ(folders(), 0);
}

}  // namespace
}  // namespace tilewise::cpu_folders_test
