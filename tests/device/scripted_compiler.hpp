#pragma once
// A compiler written as a shell script, in the test's temporary folder.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "device/cpu/cpu.hpp"
#include "tests/device/cpu_kernels.hpp"

namespace tilewise::test {

/// Polls `holds` for at most ten seconds. Returns its last value.
inline bool soon(const std::function<bool()>& holds) {
  for (int i = 0; i < 1000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

class ScriptedCompilerTest : public testing::Test {
 protected:
  ScriptedCompilerTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "scripted-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    std::filesystem::create_directory(temporary());
    setenv("TMPDIR", temporary().c_str(), 1);
    setenv("TEST_FOLDER", folder_.c_str(), 1);
  }
  ~ScriptedCompilerTest() override {
    for (const char* name : {"TMPDIR", "TEST_FOLDER", "TILEWISE_CXX"}) unsetenv(name);
    std::filesystem::remove_all(folder_);
  }

  /// The child's TMPDIR.
  std::filesystem::path temporary() const { return folder_ / "temporary"; }
  std::filesystem::path file(const std::string& name) const { return folder_ / name; }
  std::string read(const std::string& name) const {
    std::ifstream stream(file(name));
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  std::ptrdiff_t folders() const {
    return std::distance(std::filesystem::directory_iterator(temporary()),
                         std::filesystem::directory_iterator());
  }

  /// Makes later compiles run these lines, in which `real` is c++.
  void compile_by(const std::string& lines) const {
    std::ofstream script(file("compiler"));
    script << "#!/bin/bash\nreal() { exec c++ \"$@\"; }\n"
           << "[[ $1 == --version ]] && { echo 'scripted 1.0'; exit 0; }\n"
           << lines << "\n";
    script.close();
    chmod(file("compiler").c_str(), 0700);
    setenv("TILEWISE_CXX", file("compiler").c_str(), 1);
  }
  static CompileResult compile(const std::string& keep_in = "") {
    const CompileRequest request{{"fill.cu", "fill", {}},
                                 "#include \"words/dialect.cuh\"\nstruct Args { float* to; };\n"
                                 "KERNEL(1, 1) fill(ARGUMENTS Args args) { args.to[0] = 1.0f; }\n",
                                 {{"words/dialect.cuh", dialect_text()}},
                                 cpu::device_info("host").target};
    return cpu::load_compiler({"-O0", keep_in})->compile(request);
  }

  /// A child process that runs `body` and ends.
  static pid_t in_child(const std::function<void()>& body) {
    const pid_t child = fork();
    if (child != 0) return child;
    try {
      body();
    } catch (...) {
      std::_Exit(99);
    }
    std::_Exit(0);
  }
  static int end_of(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }
  /// Whether the process is alive whose id is in a file.
  bool lives(const std::string& name) const {
    const std::string number = read(name);
    if (number.empty()) return false;
    std::ifstream stat("/proc/" + std::to_string(std::stoi(number)) + "/stat");
    std::string pid, command, state;
    stat >> pid >> command >> state;
    return !state.empty() && state != "Z" && state != "X";
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace tilewise::test
