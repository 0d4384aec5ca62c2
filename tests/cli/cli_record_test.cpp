// `autotune record` without a library to preload.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/cli/program.hpp"

namespace cli_test::cli_record_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CliRecord : public ProgramTest {
 protected:
  /// The program must not run without being recorded.
  const std::vector<std::string> words_{"record", "-o",         file("list.csv").string(),
                                        "--",     "/bin/touch", file("ran").string()};
  void expect_refused(const Result& result, const std::string& reason) {
    EXPECT_EQ(result.status, 3) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("libtilewise_cublas.so"), HasSubstr(reason)));
    EXPECT_FALSE(fs::exists(file("ran")));
    EXPECT_FALSE(fs::exists(file("list.csv")));
  }
};

TEST_F(CliRecord, AFileThatIsNoLibraryIsRefused) {
  write(file("text"), "INPUT(libother.so)");
  write(file("empty"), "");
  write(file("begun"), std::string("\x7f"
                                   "ELF\2\1\1",
                                   7));
  fs::create_directory(file("folder"));
  const std::pair<std::string, const char*> files[] = {
      {file("text").string(), "no shared library"},  {file("empty").string(), "no shared library"},
      {file("begun").string(), "no shared library"}, {file("folder").string(), "a folder"},
      {file("absent").string(), "No such file"},     {"/dev/zero", "a device"},
      {"/bin/true", "it has no cublasGemmEx"},
  };
  for (const auto& [path, reason] : files) {
    set("TILEWISE_DROP_IN_LIBRARY", path);
    const Result result = run(words_);
    expect_refused(result, reason);
    EXPECT_THAT(result.err, HasSubstr(path));
  }
}

/// A build makes the library only on request.
TEST_F(CliRecord, WithoutTheLibraryABuildSaysHowToMakeIt) {
  const fs::path folder = file("a build/cli");
  fs::create_directories(folder);
  std::error_code other_file_system;
  fs::create_hard_link(TILEWISE_AUTOTUNE, folder / "autotune", other_file_system);
  if (other_file_system) fs::copy(TILEWISE_AUTOTUNE, folder / "autotune");
  expect_refused(run_program((folder / "autotune").string(), words_), "is not there: ");
  write(file("a build/CMakeCache.txt"), "");
  expect_refused(run_program((folder / "autotune").string(), words_),
                 "cmake --build '" + file("a build").string() + "' --target tilewise_cublas");
}

}  // namespace
}  // namespace cli_test::cli_record_test
