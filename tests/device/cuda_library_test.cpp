// The search for NVIDIA's libraries: places and order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "device/cuda/library.hpp"

namespace tilewise::cuda::cuda_library_test {
namespace {
namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class LibrarySearchTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("tilewise_library_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override {
    fs::remove_all(folder_);
    for (const char* name : {"TILEWISE_TEST_LIBRARY", "VIRTUAL_ENV"}) unsetenv(name);
  }
  /// Creates an empty file; the search does not read files.
  std::string put(const std::string& path) {
    const fs::path file = folder_ / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file).flush();
    return file.string();
  }
  static std::vector<std::string> paths(const LibrarySearch& search) {
    std::vector<std::string> result;
    for (const LibraryCandidate& candidate : search.candidates) result.push_back(candidate.path);
    return result;
  }
  LibraryQuery query(const std::string& named = "") const {
    return {"libexample", {13, 12}, named, "TILEWISE_TEST_LIBRARY"};
  }

  fs::path folder_;
};

TEST_F(LibrarySearchTest, ANamedFileIsTheOnlyCandidate) {
  const std::string file = put("libexample.so.12.4.1");
  const LibrarySearch search = find_library(query(file), 0);
  EXPECT_THAT(paths(search), ElementsAre(file));
  EXPECT_EQ(search.candidates[0].major, 12);
}

TEST_F(LibrarySearchTest, AMissingFileIsNoCandidateButAPlace) {
  const std::string file = (folder_ / "absent.so").string();
  const LibrarySearch search = find_library(query(file), 0);
  EXPECT_TRUE(search.candidates.empty());
  EXPECT_THAT(search.places, ElementsAre(file));
}

TEST_F(LibrarySearchTest, ANamedFolderMayBeAToolkitOrAnEnvironment) {
  const std::string direct = put("a/libexample.so.13");
  const std::string toolkit = put("b/lib64/libexample.so.13");
  const std::string wheel13 =
      put("c/lib/python3.11/site-packages/nvidia/cu13/lib/libexample.so.13");
  const std::string wheel12 =
      put("d/lib/python3.12/site-packages/nvidia/cuda_example/lib/libexample.so.12");
  EXPECT_THAT(paths(find_library(query((folder_ / "a").string()), 0)), ElementsAre(direct));
  EXPECT_THAT(paths(find_library(query((folder_ / "b").string()), 0)), ElementsAre(toolkit));
  EXPECT_THAT(paths(find_library(query((folder_ / "c").string()), 0)), ElementsAre(wheel13));
  EXPECT_THAT(paths(find_library(query((folder_ / "d").string()), 0)), ElementsAre(wheel12));
}

TEST_F(LibrarySearchTest, TheVariableNamesAFolderAndTheOptionGoesBeforeIt) {
  const std::string by_variable = put("variable/libexample.so.13");
  const std::string by_option = put("option/libexample.so.13");
  setenv("TILEWISE_TEST_LIBRARY", (folder_ / "variable").c_str(), 1);
  EXPECT_THAT(paths(find_library(query(), 0)), ElementsAre(by_variable));
  EXPECT_THAT(paths(find_library(query((folder_ / "option").string()), 0)), ElementsAre(by_option));
}

TEST_F(LibrarySearchTest, TheActiveEnvironmentIsSearched) {
  const std::string wheel = put("lib/python3.11/site-packages/nvidia/cu13/lib/libexample.so.13");
  setenv("VIRTUAL_ENV", folder_.c_str(), 1);
  const LibrarySearch search = find_library(query(), 0);
  EXPECT_THAT(paths(search), ElementsAre("libexample.so.13", wheel, "libexample.so.12"));
  EXPECT_THAT(search.places, Contains(folder_.string()));
  EXPECT_THAT(search.places, Contains("the loader's path"));
  EXPECT_THAT(search.places, Contains(HasSubstr(".tilewise/venv")));
}

TEST_F(LibrarySearchTest, VersionsAboveTheDriversComeLast) {
  const std::string newer = put("libexample.so.13");
  const std::string older = put("libexample.so.12");
  const LibraryQuery both = query(folder_.string());
  EXPECT_THAT(paths(find_library(both, 0)), ElementsAre(newer, older));
  EXPECT_THAT(paths(find_library(both, 13)), ElementsAre(newer, older));
  EXPECT_THAT(paths(find_library(both, 12)), ElementsAre(older, newer));
}

TEST_F(LibrarySearchTest, OneFileUnderTwoNamesIsOneCandidate) {
  put("lib64/libexample.so.13");
  fs::create_directory_symlink(folder_ / "lib64", folder_ / "lib");
  EXPECT_EQ(find_library(query(folder_.string()), 0).candidates.size(), 1u);
}

TEST_F(LibrarySearchTest, WhatIsNoLibraryDoesNotOpen) {
  const std::string file = put("libexample.so.13");
  std::string why;
  EXPECT_FALSE(open_with_neighbours({file, 13}, {"libexample-more"}, why));
  EXPECT_THAT(why, HasSubstr(file));
}

TEST_F(LibrarySearchTest, SymbolsAreFoundByName) {
  std::string why;
  const Library library = Library::open("libc.so.6", why);
  ASSERT_TRUE(library) << why;
  int (*absolute)(int) = nullptr;
  ASSERT_TRUE(library.get(absolute, "abs"));
  EXPECT_EQ(absolute(-3), 3);
  EXPECT_FALSE(library.get(absolute, "no_such_symbol"));
}

}  // namespace
}  // namespace tilewise::cuda::cuda_library_test
