#pragma once
// Mistakes planted in kernel sources, and the checkers' reports of them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/kernels/markers.hpp"
#include "tests/support/argv.hpp"

namespace tilewise::test {

inline const std::string kTiled = R"(tiled {"READ_B":2,"TILE":8,"UNROLL":4})";
inline const std::string kStaged = R"(staged {"STAGES":3})";
inline const std::string kTiles = R"(tiles {"STAGES":2,"SWIZZLE":128})";
inline const std::string kFragments = R"(fragments {"BF16":0,"STEP":16})";

/// A marker of a kernel source (markers.hpp), written "name"_marker: planted_markers_test.cpp
/// searches for this spelling.
struct Marker {
  std::string name;
};
inline Marker operator""_marker(const char* name, std::size_t size) { return {{name, size}}; }

/// The result of a checker's run.
struct Result {
  int status = -1;
  std::string output;
  bool seen = false;  ///< all awaited words are in the output
};

inline std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// A mistake planted in marked lines, as options of a checker. The default plants none.
struct Mistake {
  std::string options;
};
/// Replaces the code of the marked line; "{line}" stands for the old code.
inline Mistake replaced(const Marker& marker, const std::string& code) {
  return {" --mutate " + marker.name + ' ' + quoted(code)};
}
inline Mistake removed(const Marker& marker) { return replaced(marker, ""); }
/// Replaces a part of the marked line.
inline Mistake changed(const Marker& marker, const std::string& from, const std::string& to) {
  return {" --mutate-in " + marker.name + ' ' + quoted(from) + ' ' + quoted(to)};
}
inline Mistake operator+(const Mistake& first, const Mistake& second) {
  return {first.options + second.options};
}

/// Names the compiler that keeps what it compiled. Words of the variable end at blanks.
inline std::string with_cached_compiler() {
  const std::string words = TILEWISE_CACHED_CXX, folder = TILEWISE_COMPILED;
  if ((words + folder).find(' ') != std::string::npos) return "";
  return "env " + quoted("TILEWISE_CXX=" + words + " " + folder) + " ";
}

/// Runs a checker. With `awaited`, ends the run as soon as all these words are in its output,
/// because a kernel can run for minutes after its mistake is found.
inline Result check(const std::string& checker, const std::string& candidate,
                    const Mistake& mistake = {}, const std::string& more = "",
                    const std::vector<std::string>& awaited = {}) {
  std::vector<std::string> words{"sh", "-c",
                                 "exec " + with_cached_compiler() + quoted(checker) +
                                     " --layout nn --only " + quoted(candidate) + " " + more +
                                     mistake.options + " 2>&1"};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;  // its own group, to be ended with its children
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, "/bin/sh", &actions, &attributes, argv_of(words).data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error != 0) throw std::runtime_error("cannot start a shell");
  Result result;
  char piece[4096];
  for (ssize_t got; !result.seen && (got = read(ends[0], piece, sizeof piece)) > 0;) {
    result.output.append(piece, static_cast<std::size_t>(got));
    result.seen = !awaited.empty() && std::all_of(awaited.begin(), awaited.end(), [&](auto& text) {
      return result.output.find(text) != std::string::npos;
    });
  }
  close(ends[0]);
  if (result.seen) kill(-pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

/// A checker with a candidate and a kind of product.
struct Subject {
  std::string name, checker, candidate, options;
};
inline std::string name_of(const testing::TestParamInfo<Subject>& tested) {
  return tested.param.name;
}
inline void expect_nothing_found(const Subject& subject) {
  const Result result = check(subject.checker, subject.candidate, {}, subject.options);
  EXPECT_EQ(result.status, 0) << result.output;
}
/// Expects that all of `what` are in the output.
inline void expect_found(const Subject& subject, const Mistake& mistake,
                         const std::vector<std::string>& what) {
  const Result result = check(subject.checker, subject.candidate, mistake, subject.options, what);
  EXPECT_TRUE(result.seen) << "exit status " << result.status << ", without all of "
                           << testing::PrintToString(what) << ":\n"
                           << result.output;
  EXPECT_THAT(result.output, testing::Not(testing::HasSubstr("does not compile")));
}

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The kernel sources of the tree, including the checkers' own.
inline std::vector<std::filesystem::path> kernel_source_files() {
  std::vector<std::filesystem::path> paths;
  for (const char* folder : {"/templates", "/tests/kernels"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(TILEWISE_SOURCE_DIR + std::string(folder)))
      if (const auto extension = entry.path().extension();
          extension == ".cu" || extension == ".cuh")
        paths.push_back(entry.path());
  return paths;
}

/// The name of a source in messages. Headers are named by their paths under templates/, as in an
/// #include.
inline std::string name_in_messages(const std::filesystem::path& path) {
  if (path.extension() == ".cu") return path.filename().string();
  return path.lexically_relative(TILEWISE_SOURCE_DIR "/templates").string();
}

/// "tiled.cu:47": the line with the marker.
inline std::string line_of(const Marker& marker) {
  for (const auto& path : kernel_source_files())
    for (const check::MarkedLine& line : check::marked_lines(text_of(path)))
      if (line.has(marker.name)) return name_in_messages(path) + ":" + std::to_string(line.number);
  ADD_FAILURE() << "no line of a kernel source has the marker " << marker.name;
  return "";
}

}  // namespace tilewise::test
