// Faults of the system during a compile for the CPU: the compile is repeated once in another place,
// and the kernel is not blamed.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include "device/cpu/program.hpp"
#include "tests/device/scripted_compiler.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cpu_faults_test {
namespace {
namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CpuFaults : public test::ScriptedCompilerTest {
 protected:
  /// "transient: message", "refused: log" or "made".
  static std::string compiled(const std::string& keep_in = "") {
    try {
      const CompileResult result = compile(keep_in);
      return result.image ? "made" : "refused: " + result.log;
    } catch (const Error& error) {
      return std::string(to_string(error.kind())) + ": " + error.what();
    }
  }
  /// A line that runs at the first compile only.
  static std::string once(const std::string& line) {
    return "if [[ ! -e $TEST_FOLDER/once ]]; then touch $TEST_FOLDER/once\n" + line +
           "\nfi\nreal \"$@\"";
  }
};

TEST_F(CpuFaults, ACompilerThatIsKilledOnceRunsAgainElsewhere) {
  compile_by("echo $TMPDIR >> $TEST_FOLDER/places\n" + once("kill -9 $$"));
  EXPECT_EQ(compiled(), "made");
  std::istringstream places(read("places"));
  std::string first, second;
  places >> first >> second;
  EXPECT_EQ(fs::path(first).parent_path(), temporary());
  EXPECT_NE(fs::path(second).parent_path(), temporary());
  EXPECT_EQ(folders(), 0);
}

TEST_F(CpuFaults, OneThatIsAlwaysKilledIsNotTheKernelsFault) {
  compile_by("echo x >> $TEST_FOLDER/runs\nkill -9 $$");
  EXPECT_THAT(compiled(), AllOf(testing::StartsWith("transient: "), HasSubstr("fill.cu"),
                                HasSubstr("signal 9 (Killed)"), HasSubstr(temporary())));
  EXPECT_EQ(read("runs"), "x\nx\n");
}

TEST_F(CpuFaults, WordsOfAFaultAreRecognised) {
  for (const char* words :
       {"g++: fatal error: Killed signal terminated program cc1plus",
        "g++: internal compiler error: File size limit exceeded signal terminated program as",
        "collect2: fatal error: ld terminated with signal 9 [Killed]",
        "cc1plus: out of memory allocating 65536 bytes after a total of 1048576 bytes",
        "virtual memory exhausted: Cannot allocate memory",
        "/usr/bin/ld: final link failed: No space left on device",
        "{standard input}: Fatal error: can't write 16 bytes: Disk quota exceeded",
        "g++: fatal error: pipe2: Too many open files",
        "clang++: error: unable to execute command: Killed",
        "kernel.cpp:1: fatal error: error writing to x.s: Input/output error"}) {
    compile_by("echo \"" + std::string(words) + "\" >&2; exit 1");
    EXPECT_THAT(compiled(), AllOf(testing::StartsWith("transient: "), HasSubstr(words)));
    fs::remove(file("once"));
    compile_by(once("echo \"" + std::string(words) + "\" >&2; exit 1"));
    EXPECT_EQ(compiled(), "made") << words;
  }
}

TEST_F(CpuFaults, AMistakeInTheKernelIsTheKernels) {
  for (const char* words :
       {"fill.cu:3:1: error: 'nonsense' was not declared in this scope",
        "    3 | // No space left on device",
        "g++: internal compiler error: Segmentation fault signal terminated program cc1plus"}) {
    compile_by("echo x >> $TEST_FOLDER/runs\necho \"" + std::string(words) + "\" >&2; exit 1");
    EXPECT_EQ(compiled(), "refused: " + std::string(words) + "\n");
    EXPECT_EQ(read("runs"), "x\n") << "a second try changes nothing";
    fs::remove(file("runs"));
  }
  compile_by("kill -SEGV $$");
  EXPECT_THAT(compiled(), AllOf(testing::StartsWith("refused: "), HasSubstr("signal 11")));
}

TEST_F(CpuFaults, WithoutABinaryItWasNotCompiled) {
  compile_by(once("exit 0"));
  EXPECT_EQ(compiled(), "made");
  compile_by("exit 0");
  EXPECT_THAT(compiled(), AllOf(testing::StartsWith("transient: "), HasSubstr("image.so")));
  compile_by("head -c 100 /bin/true > image.so");
  EXPECT_THAT(compiled(), AllOf(testing::StartsWith("transient: "), HasSubstr("cut short")));
  compile_by("rm -r \"$TMPDIR\"; exit 1");
  EXPECT_THAT(compiled(), AllOf(testing::StartsWith("transient: "), HasSubstr("is gone")));
}

/// The child's file size limit acts like a nearly full disk. It is too small first for the sources,
/// then for the assembler's output, then for the linker's.
TEST_F(CpuFaults, AFullTemporaryFolderIsNotTheKernelsFault) {
  for (const rlim_t bytes : {1000, 9000, 14000}) {
    const pid_t child = in_child([&] {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{bytes, bytes};
      setrlimit(RLIMIT_FSIZE, &limit);
      const std::string text = compiled();
      if (!text.starts_with("transient: ")) std::fprintf(stderr, "%s\n", text.c_str());
      std::_Exit(text.starts_with("transient: ") ? 0 : 1);
    });
    EXPECT_EQ(end_of(child), 0) << bytes;
    EXPECT_EQ(folders(), 0);
  }
}

TEST_F(CpuFaults, APlaceThatCannotBeWrittenIsLeftForAnother) {
  setenv("TMPDIR", (file("nowhere")).c_str(), 1);
  unsetenv("TILEWISE_CXX");
  EXPECT_EQ(compiled(), "made");
}

TEST_F(CpuFaults, AFolderToKeepThatCannotBeMadeIsTheCallersFault) {
  std::ofstream(file("plain")) << "a file";
  EXPECT_THAT(compiled(file("plain") / "kept"),
              AllOf(testing::StartsWith("io: "), HasSubstr("TILEWISE_HOST_KEEP")));
}

TEST_F(CpuFaults, ACompilerThatIsGoneIsNoPassingFault) {
  compile_by("real \"$@\"");
  const auto compiler = cpu::load_compiler({"-O0", ""});
  fs::remove(file("compiler"));
  try {
    compiler->compile({{"fill.cu", "fill", {}}, "", {}, cpu::device_info("host").target});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::compiler);
    EXPECT_THAT(error.what(), HasSubstr("No such file"));
  }
}

TEST_F(CpuFaults, AVersionIsAskedForTwiceWhenItsProcessIsKilled) {
  std::ofstream(file("c++")) << "#!/bin/bash\nif [[ ! -e $TEST_FOLDER/once ]]; then\n"
                                "touch $TEST_FOLDER/once; kill -9 $$\nfi\necho 'scripted 2.0'\n";
  chmod(file("c++").c_str(), 0700);
  setenv("TILEWISE_CXX", file("c++").c_str(), 1);
  EXPECT_EQ(cpu::load_compiler()->version(), "scripted 2.0");
}

}  // namespace
}  // namespace tilewise::cpu_faults_test
