#pragma once
// Mistakes planted in kernel sources, and what the checkers say of them.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace tilewise::test {

inline const std::string kTiled = R"(tiled {"READ_B":2,"TILE":8,"UNROLL":4})";
inline const std::string kStaged = R"(staged {"STAGES":3})";
inline const std::string kTiles = R"(tiles {"STAGES":2,"SWIZZLE":128})";
inline const std::string kFragments = R"(fragments {"BF16":0,"STEP":16})";

/// In staged.cu: wait for a stage, free the one before, refill it.
inline const std::string kStage =
    "    copies_done<STAGES - 2>();\n    barrier();\n    start(t + STAGES - 1);";
inline const std::string kSecondBarrier = "    barrier();\n    a += A_TRANSPOSED";

struct Result {
  int status = -1;
  std::string output;
};

inline std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

inline Result check(const std::string& checker, const std::string& candidate,
                    const std::string& file, const std::string& from, const std::string& to,
                    const std::string& more = "") {
  std::string command = quoted(checker) + " --layout nn --only " + quoted(candidate) + " " + more;
  if (!file.empty()) command += " --mutate " + file + " " + quoted(from) + " " + quoted(to);
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
  const Result result = check(subject.checker, subject.candidate, "", "", "", subject.options);
  EXPECT_EQ(result.status, 0) << result.output;
}
/// A text that occurs once in a kernel source, and what stands there by mistake.
struct Mistake {
  std::string file, from, to;
};

/// The checker ends with status 1 (2 would mean that the mistake's place is no longer there) and
/// says all of `what`.
inline void expect_found(const Subject& subject, const Mistake& mistake,
                         const std::vector<std::string>& what) {
  const Result result = check(subject.checker, subject.candidate, mistake.file, mistake.from,
                              mistake.to, subject.options);
  EXPECT_EQ(result.status, 1) << result.output;
  EXPECT_THAT(result.output, testing::Not(testing::HasSubstr("does not compile")));
  for (const std::string& words : what) EXPECT_THAT(result.output, testing::HasSubstr(words));
}

/// "tiled.cu:47": where a text stands in a kernel source.
inline std::string line_of(const std::string& file, const std::string& text) {
  for (const char* folder : {"/tests/kernels/", "/templates/", "/templates/steps/"}) {
    std::ifstream stream(TILEWISE_SOURCE_DIR + std::string(folder) + file);
    const std::string all{std::istreambuf_iterator<char>(stream), {}};
    if (const auto at = all.find(text); at != all.npos)
      return file + ":" +
             std::to_string(1 + std::count(all.begin(), all.begin() + std::ptrdiff_t(at), '\n'));
  }
  ADD_FAILURE() << file << " has no \"" << text << '"';
  return "";
}

}  // namespace tilewise::test
