// autotune cover on the CPU.
#include <gmock/gmock.h>

#include "tests/cli/program.hpp"

namespace cli_test::cli_cover_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CliCover : public ProgramTest {
 protected:
  CliCover() {
    hide_gpus();
    set("TILEWISE_HOST_FLAGS", "-O0");
  }
};

TEST_F(CliCover, ARangeIsMeasuredAndThenServed) {
  const Result result = run_with_budget({"cover", "--device", "host", "--layout", "nn", "--m",
                                         "8..32", "--n", "16", "--k", "16", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json document = result.json();
  ASSERT_GE(document.at("points").size(), 1U);
  EXPECT_EQ(document.at("range").at("m"), "8..32");
  EXPECT_EQ(document.at("interrupted"), false);
  EXPECT_EQ(document.at("layouts").at(0).at("layout"), "nn");
  const Json point = document.at("points").at(0);
  EXPECT_GT(point.at("best_us").get<double>(), 0);
  // The records also serve another size of the range.
  const Result query = run({"query", "--device", "host", "--sizes", "31x16x16", "--json"});
  EXPECT_THAT(query.json().at("answers").at(0).at("match").get<std::string>(),
              testing::AnyOf("predicted", "exact"));
  const Result table = run_with_budget(
      {"cover", "--device", "host", "--layout", "nn", "--m", "8", "--n", "16", "--k", "16"});
  ASSERT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("covered f32, nn, m 8, n 16, k 16"), HasSubstr("configurations")));
  EXPECT_THAT(table.err, HasSubstr("no other sizes"));
}

TEST_F(CliCover, AListOfRangesIsCoveredByKinds) {
  write(file("ranges.csv"),
        "# A comment.\n"
        "layout,m,n,k,dtype,math,weight,source\n"
        "nn,8,16,16,\"f32,f16\",,2,\"sizes of one program, and another\"\n"
        "nt,\"8,9\",24,16,f32,,,\n");
  const std::vector<std::string> cover = {
      "cover", "--device", "host", "--problems", file("ranges.csv").string(), "--json"};
  const Result result = run_with_budget(cover);
  ASSERT_EQ(result.status, 0) << result.err;
  const Json covered = result.json().at("covered");
  ASSERT_EQ(covered.size(), 2U);
  const Json& f32 = covered.at(0);
  EXPECT_EQ(f32.at("range").at("dtype"), "f32");
  EXPECT_EQ(f32.at("range").at("ranges").at(1).at("m"), "8,9");
  EXPECT_EQ(f32.at("range").at("ranges").at(1).at("layouts").at(0), "nt");
  EXPECT_EQ(covered.at(1).at("range").at("dtype"), "f16");
  EXPECT_EQ(covered.at(1).at("range").at("n"), "16");
  ASSERT_EQ(covered.at(1).at("points").size(), 1U);
  EXPECT_EQ(covered.at(1).at("points").at(0).at("problem").at("n"), 16);
  // Later runs go on with what is left.
  std::size_t points = f32.at("points").size();
  std::vector<std::string> again = cover;
  again.insert(again.end(), {"--budget", "9s"});
  Json last = f32;
  for (int turn = 0; turn < 4 && last.at("exhausted") == false; ++turn) {
    const Result more = run(again);
    ASSERT_EQ(more.status, 0) << more.err;
    last = more.json().at("covered").at(0);
    points += last.at("points").size();
  }
  EXPECT_EQ(last.at("exhausted"), true);
  EXPECT_EQ(points, 3U);
}

TEST_F(CliCover, AKindOfAListWithoutASizeThatFitsIsLeftOut) {
  write(file("ranges.csv"),
        "m,n,k,dtype\n"
        "1000000,1000000,1000000,f64\n"
        "8,16,16,f32\n");
  const Result result = run_with_budget({"cover", "--device", "host", "--layout", "nn",
                                         "--problems", file("ranges.csv").string(), "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("left out: f64"), HasSubstr("more work or memory")));
  ASSERT_EQ(result.json().at("covered").size(), 1U);
  EXPECT_EQ(result.json().at("covered").at(0).at("range").at("dtype"), "f32");
  write(file("ranges.csv"),
        "m,n,k,dtype\n"
        "1000000,1000000,1000000,\"f64,f32\"\n");
  const Result none = run({"cover", "--device", "host", "--problems", file("ranges.csv").string()});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("autotune: error: "));
}

TEST_F(CliCover, MistakesInAListHaveTheirLine) {
  const auto error_of = [&](const std::string& text, std::vector<std::string> options = {}) {
    write(file("bad.csv"), text);
    options.insert(options.begin(),
                   {"cover", "--device", "host", "--problems", file("bad.csv").string()});
    const Result result = run(options);
    EXPECT_EQ(result.status, 2) << text;
    return result.err;
  };
  EXPECT_THAT(error_of("m,n\n1,2\n"), AllOf(HasSubstr("line 2"), HasSubstr("k is missing")));
  EXPECT_THAT(error_of("m,n,k\n\n1,2,9..3\n"), AllOf(HasSubstr("line 3"), HasSubstr("9..3")));
  EXPECT_THAT(error_of("m,n,k,align\n1,2,3,4\n"), HasSubstr("'align' is not a column"));
  EXPECT_THAT(error_of("m,n,k,weight\n1,2,3,0\n"), AllOf(HasSubstr("weight"), HasSubstr("'0'")));
  EXPECT_THAT(error_of("m,n,k,dtype\n1,2,3,f33\n"),
              AllOf(HasSubstr("line 2: dtype"), HasSubstr("f33")));
  EXPECT_THAT(error_of("m,n,k,layout\n1,2,3,xx\n"), AllOf(HasSubstr("layout"), HasSubstr("xx")));
  EXPECT_THAT(error_of("m,n,k\n"), HasSubstr("no range"));
  EXPECT_THAT(error_of("m,n,k\n1,2,3\n", {"--m", "8"}), HasSubstr("--m"));
}

TEST_F(CliCover, TheRepositorysListIsRead) {
  const Result result =
      run({"cover", "--device", "host", "--problems",
           TILEWISE_SOURCE_DIR "/portfolios/products.csv", "--templates", "skinny,none"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("none"));
}

TEST_F(CliCover, SeveralAlikeDevicesTakePoints) {
  const Result result = run_with_budget({"cover", "--device", "host,host", "--layout", "nn", "--m",
                                         "8..32", "--n", "16", "--k", "16", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json().at("devices"), 2);
  EXPECT_GE(result.json().at("points").size(), 1U);
  const Result unlike = run({"cover", "--device", "host,host:sm_90", "--m", "8"});
  EXPECT_EQ(unlike.status, 2);
  EXPECT_THAT(unlike.err, AllOf(HasSubstr("--device"), HasSubstr("2 kinds")));
  EXPECT_EQ(run({"cover", "--device", "host,host", "--in-process", "--m", "8"}).status, 2);
}

TEST_F(CliCover, MistakesNameTheOption) {
  const auto error_of = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"cover", "--device", "host"});
    const Result result = run(options);
    EXPECT_EQ(result.status, 2);
    return result.err;
  };
  EXPECT_THAT(error_of({"--m", "0..5"}), AllOf(HasSubstr("--m"), HasSubstr("0..5")));
  EXPECT_THAT(error_of({"--k", "9..5"}), AllOf(HasSubstr("--k"), HasSubstr("9..5")));
  EXPECT_THAT(error_of({"--n", ""}), HasSubstr("--n"));
  EXPECT_THAT(error_of({"--budget", "0"}), HasSubstr("--budget"));
  EXPECT_THAT(error_of({"--dtype", "f33"}), HasSubstr("f33"));
  EXPECT_THAT(error_of({"--m", "1000000", "--n", "1000000", "--k", "1000000"}),
              HasSubstr("more work or memory"));
}

}  // namespace
}  // namespace cli_test::cli_cover_test
