// OnMiss::tune with fake searches: what is tuned, that it is tuned once, and what a failed search
// causes.
#include <pwd.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <future>
#include <iterator>
#include <limits>
#include <thread>

#include "api/tuning_program.hpp"
#include "matmul_fixture.hpp"

namespace tilewise::tune_on_miss_test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
namespace fs = std::filesystem;

class TuneOnMiss : public MatmulTest {
 protected:
  TuneOnMiss() {
    std::string pattern = (fs::temp_directory_path() / "tune-on-miss-XXXXXX").string();
    folder = mkdtemp(pattern.data());
    file = folder / "test.db";
    database.emplace(Database::open(file));
    store(*database, known, "simt");
    parts.database = Database::open(file, OpenMode::read_only);
    parts.on_miss = OnMiss::tune;
    parts.tune = [this](const Problem& problem, const DeviceInfo&) {
      searched.push_back(problem);
      if (why_not.empty()) store(*database, problem, "simt");
      return why_not;
    };
  }
  ~TuneOnMiss() override {
    parts.database.reset();
    database.reset();
    fs::remove_all(folder);
  }

  static void serve(Matmul& multiply, const Problem& problem, Stream stream = nullptr) {
    Operands operands(problem);
    operands.call.stream = stream;
    multiply(problem, operands.call);
    EXPECT_THAT(operands.c, Each(static_cast<float>(2 * problem.k)));
  }
  std::string program(const std::string& lines) const {
    const fs::path path = folder / "autotune";
    std::ofstream(path) << "#!/bin/sh\n" << lines << "\n";
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }
  std::vector<std::string> lines_of(const std::string& name) const {
    std::vector<std::string> found;
    std::ifstream in(folder / name);
    for (std::string line; std::getline(in, line);) found.push_back(line);
    return found;
  }
  TuningProgram::Settings settings(const std::string& lines) const {
    return {program(lines), 2.5, file, Trust::owner, ""};
  }

  const Problem known = problem_of(64, 64, 64), unknown = problem_of(60, 64, 64);
  fs::path folder, file;
  std::optional<Database> database;
  std::string why_not;  ///< result of the fake search
  std::vector<Problem> searched;
};

TEST_F(TuneOnMiss, TheFirstProductIsServedByWhatTheSearchFound) {
  Matmul multiply = make_matmul(std::move(parts));
  EXPECT_EQ(multiply.explain(unknown).kind, MatchKind::predicted);
  serve(multiply, unknown);
  EXPECT_THAT(searched, ElementsAre(unknown));
  EXPECT_EQ(multiply.explain(unknown).kind, MatchKind::exact);
  serve(multiply, unknown);
  serve(multiply, known);
  EXPECT_THAT(searched, SizeIs(1));
  EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(TuneOnMiss, PrepareTunesAndExplainDoesNot) {
  Matmul multiply = make_matmul(std::move(parts));
  (void)multiply.explain(unknown);
  EXPECT_THAT(searched, IsEmpty());
  multiply.prepare(unknown);
  EXPECT_THAT(searched, ElementsAre(unknown));
}

TEST_F(TuneOnMiss, ARangeIsPreparedWithoutASearch) {
  Matmul multiply = make_matmul(std::move(parts));
  multiply.prepare_range(problem_of(1, 64, 64), 40);
  serve(multiply, problem_of(17, 64, 64));
  EXPECT_THAT(searched, IsEmpty());
}

TEST_F(TuneOnMiss, NothingIsTunedInACaptureNorWithoutAProduct) {
  Matmul multiply = make_matmul(std::move(parts));
  const Stream stream(reinterpret_cast<void*>(std::uintptr_t{16}));
  device->captured.insert(stream);
  EXPECT_THROW(serve(multiply, unknown, stream), Error);
  Operands operands(problem_of(8, 8, 8));
  multiply(problem_of(8, 8, 0), operands.call);
  multiply(problem_of(0, 8, 8), operands.call);
  EXPECT_THAT(searched, IsEmpty());
}

TEST_F(TuneOnMiss, AFailedSearchIsAWarningAndIsNotRepeated) {
  why_not = "there is no compiler";
  Matmul multiply = make_matmul(std::move(parts));
  for (int i = 0; i < 2; ++i) serve(multiply, unknown);
  PackedOperand packed = multiply.pack_b(unknown, std::vector<float>(64 * 64).data(), 64);
  EXPECT_THAT(searched, ElementsAre(unknown));
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("60x64x64"), HasSubstr("could not be tuned"),
                                          HasSubstr("there is no compiler"))));
}

TEST_F(TuneOnMiss, ASearchWithoutAWinnerIsAFailure) {
  parts.tune = [](const Problem&, const DeviceInfo&) { return std::string(); };
  Matmul multiply = make_matmul(std::move(parts));
  serve(multiply, unknown);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("found no winner")));
}

TEST_F(TuneOnMiss, ThreeFailuresInARowEndTheSearches) {
  why_not = "no memory";
  Matmul multiply = make_matmul(std::move(parts));
  for (int m = 20; m < 30; ++m) serve(multiply, problem_of(m, 64, 64));
  EXPECT_THAT(searched, SizeIs(3));
  ASSERT_THAT(warnings, SizeIs(4));
  EXPECT_THAT(warnings.back(), HasSubstr("no further problem is tuned"));
}

TEST_F(TuneOnMiss, WhatAnotherProcessTunedMeanwhileServes) {
  Matmul multiply = make_matmul(std::move(parts));
  store(*database, unknown, "simt");
  serve(multiply, unknown);
  EXPECT_THAT(searched, IsEmpty());
  EXPECT_EQ(multiply.explain(unknown).kind, MatchKind::exact);
}

TEST_F(TuneOnMiss, OneSearchForAllThreadsThatMissAProblem) {
  Matmul multiply = make_matmul(std::move(parts));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { serve(multiply, unknown); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(searched, ElementsAre(unknown));
}

TEST_F(TuneOnMiss, KnownProblemsDoNotWaitForASearch) {
  std::promise<void> begins, may_end;
  parts.tune = [&](const Problem& problem, const DeviceInfo&) {
    begins.set_value();
    may_end.get_future().wait();
    store(*database, problem, "simt");
    return std::string();
  };
  const Problem later = problem_of(32, 32, 32);  // tuned, but not made before the search starts
  store(*database, later, "simt");
  parts.database = Database::open(file, OpenMode::read_only);
  Matmul multiply = make_matmul(std::move(parts));
  serve(multiply, known);
  std::thread searching([&] { serve(multiply, unknown); });
  begins.get_future().wait();
  std::thread([&] { serve(multiply, known), serve(multiply, later); }).join();
  EXPECT_EQ(multiply.explain(unknown).kind, MatchKind::predicted);
  may_end.set_value();
  searching.join();
  EXPECT_EQ(multiply.explain(unknown).kind, MatchKind::exact);
}

TEST_F(TuneOnMiss, TheProgramIsGivenTheProblem) {
  const std::string record = "for word in \"$@\"; do echo \"$word\"; done > " +
                             (folder / "words").string() + "\ncat >> " +
                             (folder / "words").string();
  Problem problem = problem_of(60, 64, 64, Layout::nt);
  set_alignment(problem, {4, 8, 16});
  DeviceInfo info = device->facts;
  info.uuid = "GPU-01234567-89ab-cdef";
  TuningProgram::Settings asked = settings(record);
  EXPECT_EQ(TuningProgram(asked)(problem, info), "");
  EXPECT_THAT(
      lines_of("words"),
      ElementsAre("tune", "--sizes", "60x64x64", "--layout", "nt", "--align", "4,8,16", "--device",
                  "GPU-01234567-89ab-cdef", "--budget", "2.5", "--db", file.string()));
  asked.trust = Trust::anyone;
  asked.nvrtc = "/opt/cuda";
  info = nominal_device(default_host_target());
  EXPECT_EQ(TuningProgram(asked)(known, info), "");
  EXPECT_THAT(lines_of("words"),
              ElementsAre("tune", "--sizes", "64x64x64", "--device", "host", "--budget", "2.5",
                          "--db", file.string(), "--nvrtc", "/opt/cuda", "--trust-files"));
}

TEST_F(TuneOnMiss, ItsEndIsToldWithItsLastLine) {
  const auto end_of = [&](const std::string& lines) {
    return TuningProgram(settings(lines))(known, device->facts);
  };
  EXPECT_THAT(end_of("echo first >&2; echo 'no device' >&2; echo >&2; exit 3"),
              testing::EndsWith("ended with exit status 3: no device"));
  EXPECT_THAT(end_of("exit 4"), testing::EndsWith("ended with exit status 4"));
  EXPECT_THAT(end_of("kill -9 $$"), HasSubstr("was ended by Killed"));
  EXPECT_EQ(end_of("echo words >&2"), "");
  // Neither a closed pipe nor a process left behind delays the end.
  EXPECT_THAT(end_of("sleep 9 & echo gone >&2; exit 5"), HasSubstr("exit status 5: gone"));
  const TuningProgram vanished(settings(""));
  fs::remove(folder / "autotune");
  EXPECT_THAT(vanished(known, device->facts), HasSubstr("cannot be started: No such file"));
}

TEST_F(TuneOnMiss, ASearchWithoutAnEndIsEnded) {
  TuningProgram::Settings asked = settings("exec sleep 100");
  asked.seconds = 0.01;
  asked.beside_seconds = 0.1;
  EXPECT_THAT(TuningProgram(asked)(known, device->facts), HasSubstr("was ended after 0 s"));
}

TEST_F(TuneOnMiss, ThreadsRunTheProgramOnce) {
  parts.tune =
      TuningProgram(settings("echo run >> " + (folder / "runs").string() + "; sleep 0.1; exit 1"));
  Matmul multiply = make_matmul(std::move(parts));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { serve(multiply, unknown); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(lines_of("runs"), ElementsAre("run"));
}

TEST_F(TuneOnMiss, ABudgetIsAboveZero) {
  TuningProgram::Settings asked = settings("");
  for (const double seconds : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity()}) {
    asked.seconds = seconds;
    try {
      const TuningProgram made(asked);
      ADD_FAILURE() << seconds;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_THAT(error.what(), HasSubstr("tune_seconds is"));
    }
  }
}

std::string not_found_words(const fs::path& named, Trust trust = Trust::owner) {
  try {
    return "found " + find_autotune(named, trust).string();
  } catch (const Error& error) {
    return error.kind() == ErrorKind::not_found ? error.what() : "another kind";
  }
}

TEST_F(TuneOnMiss, TheProgramIsTheNamedOneOrOnPath) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/no/such/folder", 1);
  EXPECT_THAT(not_found_words(""), AllOf(HasSubstr("searched: "), HasSubstr("/bin/autotune"),
                                         HasSubstr("/no/such/folder/autotune")));
  const std::string there = program("");
  EXPECT_THAT(not_found_words(folder / "other"), HasSubstr((folder / "other").string()));
  EXPECT_THAT(not_found_words(folder), HasSubstr("no executable file"));
  EXPECT_EQ(not_found_words(there), "found " + there);
  setenv("PATH", ("relative:" + folder.string()).c_str(), 1);
  EXPECT_EQ(not_found_words(""), "found " + there);
  setenv("PATH", path.c_str(), 1);
}

TEST_F(TuneOnMiss, AProgramThatOthersMayWriteIsSkippedUnlessNamed) {
  const std::string path = std::getenv("PATH"), there = program("");
  fs::create_directory(folder / "own");
  fs::copy_file(there, folder / "own" / "autotune");
  fs::permissions(there, fs::perms::all);
  setenv("PATH", folder.c_str(), 1);
  EXPECT_THAT(not_found_words(""),
              HasSubstr(there + " (skipped: every user may write the file (mode 0777))"));
  EXPECT_EQ(not_found_words("", Trust::anyone), "found " + there);
  EXPECT_EQ(not_found_words(there), "found " + there);
  setenv("PATH", (folder.string() + ":" + (folder / "own").string()).c_str(), 1);
  EXPECT_EQ(not_found_words(""), "found " + (folder / "own" / "autotune").string());
  setenv("PATH", path.c_str(), 1);
}

TEST_F(TuneOnMiss, AProgramInAFolderThatOthersMayWriteIsSkipped) {
  const std::string path = std::getenv("PATH");
  const fs::path shared = folder / "shared", links = folder / "links";
  fs::create_directory(shared);
  fs::create_directory(links);
  fs::copy_file(program(""), shared / "autotune");
  fs::create_symlink(shared / "autotune", links / "autotune");
  for (const fs::path& place : {shared, links}) {
    setenv("PATH", place.c_str(), 1);
    fs::permissions(shared, fs::perms::owner_all);
    EXPECT_EQ(not_found_words(""), "found " + (place / "autotune").string());
    for (const auto mode : {fs::perms(0777), fs::perms(01777)}) {
      fs::permissions(shared, mode);
      EXPECT_THAT(not_found_words(""),
                  HasSubstr((place / "autotune").string() + " (skipped: " + shared.string() +
                            ": every user may write the folder (mode "));
    }
    EXPECT_EQ(not_found_words("", Trust::anyone), "found " + (place / "autotune").string());
  }
  setenv("PATH", path.c_str(), 1);
}

TEST_F(TuneOnMiss, AProgramOfAnotherUserIsSkippedAlsoByRoot) {
  const passwd* daemon = getpwnam("daemon");
  if (geteuid() != 0 || !daemon) GTEST_SKIP() << "needs root, and the user daemon";
  const std::string path = std::getenv("PATH"), there = program("");
  ASSERT_EQ(chown(there.c_str(), daemon->pw_uid, daemon->pw_gid), 0);
  setenv("PATH", folder.c_str(), 1);
  EXPECT_THAT(not_found_words(""), HasSubstr(there + " (skipped: the file belongs to user daemon"));
  ASSERT_EQ(chown(there.c_str(), 0, 0), 0);
  ASSERT_EQ(chown(folder.c_str(), daemon->pw_uid, daemon->pw_gid), 0);
  EXPECT_THAT(not_found_words(""), HasSubstr("the folder belongs to user daemon"));
  ASSERT_EQ(chown(folder.c_str(), 0, 0), 0);
  EXPECT_EQ(not_found_words(""), "found " + there);
  setenv("PATH", path.c_str(), 1);
}

TEST_F(TuneOnMiss, TheOptionsMakeTheDatabase) {
  MatmulOptions options;
  options.on_miss = OnMiss::tune;
  options.database = folder / "new" / "other.db";
  options.autotune = program("exit 7");
  options.warn = [this](const std::string& line) { warnings.push_back(line); };
  auto made = std::make_unique<FakeDevice>();
  made->on_launch = fake_product;
  MatmulParts of_options = parts_for(std::move(made), options);
  EXPECT_TRUE(of_options.database.has_value());
  of_options.load_compiler = parts.load_compiler;
  Matmul multiply = make_matmul(std::move(of_options));
  serve(multiply, unknown);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("exit status 7")));
}

TEST_F(TuneOnMiss, WithoutADatabaseNothingIsTunedAndANoteSaysSo) {
  MatmulOptions options;
  options.on_miss = OnMiss::tune;
  std::ofstream(folder / "file") << "no folder";
  options.database = folder / "file" / "other.db";
  options.autotune = program("exit 7");
  const MatmulParts of_options = parts_for(nullptr, options);
  EXPECT_FALSE(of_options.tune);
  EXPECT_THAT(of_options.notes, testing::Contains(HasSubstr("the database cannot be written")));
}

TEST_F(TuneOnMiss, OptionsInC) {
  const std::string there = program("exit 7"), path = file.string();
  tilewise_options options = TILEWISE_OPTIONS_INIT;
  options.device = "host";
  options.database = path.c_str();
  options.on_miss = TILEWISE_TUNE_ON_MISS;
  options.autotune = "/no/such/program";
  tilewise_matmul* handle = nullptr;
  EXPECT_EQ(tilewise_create(&options, &handle), TILEWISE_NOT_FOUND);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("/no/such/program"));
  options.autotune = there.c_str();
  options.tune_seconds = -1;
  EXPECT_EQ(tilewise_create(&options, &handle), TILEWISE_INVALID_ARGUMENT);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("tune_seconds is -1"));
  options.tune_seconds = 0;
  EXPECT_EQ(tilewise_create(&options, &handle), TILEWISE_OK) << tilewise_last_error();
  tilewise_destroy(handle);
  options.struct_size = offsetof(tilewise_options, tune_seconds);  // the size of an older caller
  options.on_miss = TILEWISE_SERVE;
  EXPECT_EQ(tilewise_create(&options, &handle), TILEWISE_OK) << tilewise_last_error();
  tilewise_destroy(handle);
}

}  // namespace
}  // namespace tilewise::tune_on_miss_test
