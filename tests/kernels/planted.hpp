#pragma once
// Mistakes planted in kernel sources, and what the checkers say of them.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/kernels/markers.hpp"

namespace tilewise::test {

inline const std::string kTiled = R"(tiled {"READ_B":2,"TILE":8,"UNROLL":4})";
inline const std::string kStaged = R"(staged {"STAGES":3})";
inline const std::string kTiles = R"(tiles {"STAGES":2,"SWIZZLE":128})";
inline const std::string kFragments = R"(fragments {"BF16":0,"STEP":16})";

/// A marker of a kernel source (markers.hpp), written "name"_marker: planted_markers_test.cpp looks
/// for this spelling.
struct Marker {
  std::string name;
};
inline Marker operator""_marker(const char* name, std::size_t size) { return {{name, size}}; }

struct Result {
  int status = -1;
  std::string output;
};

inline std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// A mistake planted in marked lines, as options of a checker; the default is none.
struct Mistake {
  std::string options;
};
/// The code of the marker's line becomes another, in which "{line}" stands for what it was.
inline Mistake replaced(const Marker& marker, const std::string& code) {
  return {" --mutate " + marker.name + ' ' + quoted(code)};
}
inline Mistake removed(const Marker& marker) { return replaced(marker, ""); }
/// A part of the marker's line becomes another.
inline Mistake changed(const Marker& marker, const std::string& from, const std::string& to) {
  return {" --mutate-in " + marker.name + ' ' + quoted(from) + ' ' + quoted(to)};
}
inline Mistake operator+(const Mistake& first, const Mistake& second) {
  return {first.options + second.options};
}

inline Result check(const std::string& checker, const std::string& candidate,
                    const Mistake& mistake = {}, const std::string& more = "") {
  const std::string command =
      quoted(checker) + " --layout nn --only " + quoted(candidate) + " " + more + mistake.options;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  Result result;
  char piece[4096];
  for (std::size_t got; (got = fread(piece, 1, sizeof piece, pipe)) > 0;)
    result.output.append(piece, got);
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

/// What a checker is to run, with and without mistakes: a candidate, and on what kind of products.
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
/// The checker ends with status 1 (2: the mistake cannot be planted) and
/// says all of `what`.
inline void expect_found(const Subject& subject, const Mistake& mistake,
                         const std::vector<std::string>& what) {
  const Result result = check(subject.checker, subject.candidate, mistake, subject.options);
  EXPECT_EQ(result.status, 1) << result.output;
  EXPECT_THAT(result.output, testing::Not(testing::HasSubstr("does not compile")));
  for (const std::string& words : what) EXPECT_THAT(result.output, testing::HasSubstr(words));
}

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The kernel sources of the tree, the checkers' own among them.
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

/// Headers are named by their paths under templates/, as an #include names them.
inline std::string name_in_messages(const std::filesystem::path& path) {
  if (path.extension() == ".cu") return path.filename().string();
  return path.lexically_relative(TILEWISE_SOURCE_DIR "/templates").string();
}

/// "tiled.cu:47": the line that has the marker.
inline std::string line_of(const Marker& marker) {
  for (const auto& path : kernel_source_files())
    for (const check::MarkedLine& line : check::marked_lines(text_of(path)))
      if (line.has(marker.name)) return name_in_messages(path) + ":" + std::to_string(line.number);
  ADD_FAILURE() << "no line of a kernel source has the marker " << marker.name;
  return "";
}

}  // namespace tilewise::test
