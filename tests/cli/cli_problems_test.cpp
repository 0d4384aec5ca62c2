// --problems FILE: lists of problems, their defaults, weights and mistakes.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <thread>

#include "db/database.hpp"
#include "matmul/missed.hpp"
#include "tests/cli/program.hpp"
#include "tilewise/matmul.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/record.hpp"

namespace cli_test::cli_problems_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class CliProblems : public ProgramTest {
 protected:
  CliProblems() {
    hide_gpus();
    tilewise::Database::open(database());
  }
  std::string list(const std::string& text, const std::string& name = "list.csv") {
    std::ofstream(file(name)) << text;
    return file(name).string();
  }
  /// The problems of a list in query's answer: "nn 3x4x5 f32,f32,f32,f32 strict 1 4,16,16".
  std::vector<std::string> read(const std::string& text,
                                const std::vector<std::string>& options = {}) {
    std::vector<std::string> arguments{"query",      "--device", "host:sm_90",
                                       "--problems", list(text), "--json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Result result = run(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    std::vector<std::string> problems;
    const Json document = result.json();
    for (const Json& answer : document.at("answers"))
      problems.push_back(
          tilewise::to_string(tilewise::problem_from_json(answer.at("problem").dump())));
    return problems;
  }
  std::string error_of(const std::string& text) {
    const Result result = run({"query", "--device", "host", "--problems", list(text)});
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_THAT(result.err, HasSubstr("list.csv"));
    return result.err;
  }
};

TEST_F(CliProblems, AColumnThatIsAbsentOrEmptyHasTheOptionsValue) {
  EXPECT_THAT(read("m,n,k,layout,dtype\n64,32,16,,\n8,8,8,tn,bf16\n", {"--layout", "nt"}),
              ElementsAre("nt 64x32x16 f32 strict align 16,16,16", HasSubstr("tn 8x8x8 bf16")));
}

TEST_F(CliProblems, ARowWithoutALayoutIsOneProblemInEachLayoutAskedFor) {
  EXPECT_THAT(read("m,n,k\n8,8,8\n", {"--layout", "nn,tt"}),
              ElementsAre(HasSubstr("nn 8x8x8"), HasSubstr("tt 8x8x8")));
}

TEST_F(CliProblems, EveryColumnIsRead) {
  EXPECT_THAT(read("# a comment\n\nweight,align,batch,math,out,dtype,layout,k,n,m\r\n"
                   "2.5,16/4/16,3,tf32,,f32,nt,32,16,8\r\n"
                   "1,,,,f32,bf16,nn,32,16,8\r\n"),
              ElementsAre("nt 8x16x32 f32 tf32 batch 3 align 16,4,16",
                          AllOf(HasSubstr("nn 8x16x32 bf16"), HasSubstr("f32"))));
}

TEST_F(CliProblems, AJsonArraySaysTheSame) {
  EXPECT_THAT(read(R"([{"m": 8, "n": 16, "k": 32, "layout": "nt", "math": "tf32", "batch": 3,
                        "align": [16, 4, 16], "weight": 2.5},
                       {"m": 8, "n": 16, "k": 32, "dtype": "bf16", "out": "f32", "align": null}])"),
              read("m,n,k,layout,math,batch,align,dtype,out\n8,16,32,nt,tf32,3,16/4/16,,\n"
                   "8,16,32,,,,,bf16,f32\n"));
}

TEST_F(CliProblems, AProblemThatTheProgramPrintedIsReadBack) {
  const Result printed = run({"query", "--device", "host:sm_90", "--sizes", "24x16x8", "--dtype",
                              "bf16", "--out", "f32", "--layout", "tn", "--json"});
  const Json document = printed.json();
  Json problems = Json::array();
  for (const Json& answer : document.at("answers")) problems.push_back(answer.at("problem"));
  const Result again = run({"query", "--device", "host:sm_90", "--problems",
                            list(problems.dump(), "list.json"), "--json"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.json().at("answers").at(0).at("problem"),
            document.at("answers").at(0).at("problem"));
}

TEST_F(CliProblems, ARepeatedProblemIsThereOnce) {
  EXPECT_THAT(read("m,n,k\n8,8,8\n9,9,9\n8,8,8\n"),
              ElementsAre(HasSubstr("8x8x8"), HasSubstr("9x9x9")));
}

TEST_F(CliProblems, AccuracyLeavesARowsOwnModeAlone) {
  EXPECT_THAT(read("m,n,k,math\n64,64,64,f32x3\n64,64,64,\n", {"--accuracy", "1e-2"}),
              ElementsAre(HasSubstr("f32x3"), HasSubstr("tf32")));
}

TEST_F(CliProblems, MistakesAreNamedWithTheirPlace) {
  EXPECT_THAT(error_of("m,n,k\n8,8,8\n8,8\n"), AllOf(HasSubstr("line 3"), HasSubstr("2 fields")));
  EXPECT_THAT(error_of("m,n,k\n8,-8,8\n"), AllOf(HasSubstr("line 2"), HasSubstr("-8")));
  EXPECT_THAT(error_of("m,n,k\n8,0,8\n"), AllOf(HasSubstr("line 2"), HasSubstr("2^40")));
  EXPECT_THAT(error_of("m,n,k\n8,\"1,2\",8\n"), AllOf(HasSubstr("line 2"), HasSubstr("1,2")));
  EXPECT_THAT(error_of("m,n\n8,8\n"), HasSubstr("k is missing"));
  EXPECT_THAT(error_of("m,n,k,wieght\n8,8,8,2\n"),
              AllOf(HasSubstr("heading"), HasSubstr("wieght"), HasSubstr("weight")));
  for (const char* weight : {"0", "-1", "nan", "inf", "2x", "1e308"})
    EXPECT_THAT(error_of(std::string("m,n,k,weight\n8,8,8,") + weight + "\n"),
                AllOf(HasSubstr("weight"), HasSubstr(weight), HasSubstr("above 0")));
  EXPECT_THAT(error_of("m,n,k,batch\n8,8,8,0\n"), AllOf(HasSubstr("batch"), HasSubstr("'0'")));
  EXPECT_THAT(error_of("m,n,k,dtype\n8,8,8,f33\n"), AllOf(HasSubstr("line 2"), HasSubstr("f33")));
  EXPECT_THAT(error_of("m,n,k,layout\n8,8,8,xy\n"), AllOf(HasSubstr("line 2"), HasSubstr("xy")));
  EXPECT_THAT(error_of("m,n,k,align\n8,8,8,3\n"), AllOf(HasSubstr("line 2"), HasSubstr("'3'")));
  EXPECT_THAT(error_of("m,n,k\n"), HasSubstr("no problem"));
  EXPECT_THAT(error_of("[]"), HasSubstr("no problem"));
  EXPECT_THAT(error_of("[{\"m\":8,\"n\":8}]"), AllOf(HasSubstr("problem 1"), HasSubstr("k")));
  EXPECT_THAT(error_of("[8]"), AllOf(HasSubstr("problem 1"), HasSubstr("object")));
  EXPECT_THAT(error_of("[{\"m\":8,"), HasSubstr("not JSON"));
  EXPECT_THAT(error_of("[{\"m\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}]"),
              HasSubstr("nested"));
  EXPECT_THAT(error_of("m,n,k,m\n8,8,8,8\n"), HasSubstr("twice"));
}

TEST_F(CliProblems, AFileThatIsNotThereIsAnErrorOfItsOwn) {
  const Result result = run({"query", "--device", "host", "--problems", file("none.csv").string()});
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("none.csv"), HasSubstr("cannot read")));
  EXPECT_NE(run({"query", "--device", "host", "--problems", file("").string()}).status, 0);
}

TEST_F(CliProblems, AListMayComeThroughAPipe) {
  const std::string pipe = file("pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << "m,n,k\n8,8,8\n"; });
  const Result result = run({"query", "--device", "host", "--problems", pipe, "--json"});
  writer.join();
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST_F(CliProblems, ADashIsStandardInput) {
  const Result result = run({"query", "--device", "host", "--problems", "-", "--json"},
                            list("m,n,k\n8,8,8\n9,9,9\n"));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json().at("answers").size(), 2U);
  const Result wrong = run({"query", "--device", "host", "--problems", "-"}, list("m,n\n8,8\n"));
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("standard input"), HasSubstr("k is missing")));
}

TEST_F(CliProblems, AnEmptyListAndOneThatCannotBeReadAreToldApart) {
  for (const char* empty : {"", "\n\r\n", "\xEF\xBB\xBF"})
    EXPECT_THAT(error_of(empty), AllOf(HasSubstr("it is empty"), Not(HasSubstr("cannot read"))));
  const std::pair<std::string, const char*> unreadable[] = {{file("none.csv").string(), "No such"},
                                                            {file("").string(), "a folder"}};
  for (const auto& [path, reason] : unreadable) {
    const Result result = run({"query", "--device", "host", "--problems", path});
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err,
                AllOf(HasSubstr("cannot read"), HasSubstr(reason), Not(HasSubstr("empty"))));
  }
}

TEST_F(CliProblems, ListsAreReadAsOtherProgramsWriteThem) {
  const auto problem = ElementsAre("nn 8x16x32 f32 strict align 16,16,16");
  EXPECT_THAT(read("\xEF\xBB\xBF\"m\",\"n\",\"k\"\r\n\r\n\"8\",\"16\",\"32\"\r\n\r\n"), problem);
  EXPECT_THAT(read("\xEF\xBB\xBF[{\"m\": 8, \"n\": 16, \"k\": 32}]\r\n"), problem);
  for (const char* number : {"NaN", "Infinity", "-Infinity"}) {
    EXPECT_THAT(error_of(std::string("[{\"m\":8,\"n\":8,\"k\":8,\"weight\":") + number + "}]"),
                AllOf(HasSubstr("problem 1: weight"), HasSubstr(number), HasSubstr("above 0")));
    EXPECT_THAT(error_of(std::string("[{\"m\":8,\"n\":8,\"k\":") + number + "}]"),
                AllOf(HasSubstr("problem 1: k"), HasSubstr(number)));
  }
  EXPECT_THAT(error_of("m,n,k\n8,\"8,8\n"), AllOf(HasSubstr("line 2"), HasSubstr("not closed")));
}

TEST_F(CliProblems, WhatAProgramMissedIsRead) {
  tilewise::MissedProblems missed(file("missed.csv"));
  const auto problem =
      tilewise::typed_problem(tilewise::Layout::tn, 8, 24, 40, tilewise::DType::bf16,
                              tilewise::DType::f32, tilewise::MathMode::strict, 3);
  auto grouped = problem;
  set_layout(grouped, tilewise::Layout::nt);
  grouped.grouping = tilewise::Grouping::counts;
  grouped.distribution = tilewise::Distribution::one_hot;
  set_alignment(grouped, natural_alignment(grouped));
  ASSERT_EQ(missed.add(problem), "");
  ASSERT_EQ(missed.add(grouped), "");
  const Result result =
      run({"query", "--device", "host:sm_90", "--problems", file("missed.csv").string(), "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json document = result.json();
  ASSERT_EQ(document.at("answers").size(), 2U);
  const auto answered = [&](int nth) {
    return tilewise::problem_from_json(document.at("answers").at(nth).at("problem").dump());
  };
  EXPECT_EQ(answered(0), problem);
  EXPECT_EQ(answered(1), grouped);
}

TEST_F(CliProblems, SizesAndAListExcludeEachOtherAndOptionsNeedOne) {
  const std::string path = list("m,n,k\n8,8,8\n");
  EXPECT_EQ(run({"query", "--sizes", "8", "--problems", path}).status, 2);
  const Result result = run({"query", "--dtype", "bf16"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--sizes"), HasSubstr("--problems")));
  EXPECT_THAT(run({"tune", "--device", "host"}).err, HasSubstr("--problems"));
}

TEST_F(CliProblems, WeightsShareOutTheBudget) {
  set("TILEWISE_HOST_FLAGS", "-O0");
  const Result result =
      run({"tune", "--device", "host", "--problems",
           list("m,n,k,weight\n16,16,16,3\n17,17,17,1\n18,18,18,1e-9\n"), "--budget", "9",
           "--max-evaluations", "1", "--templates", "naive", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json results = result.json().at("results");
  ASSERT_EQ(results.size(), 3U);
  const auto stored = tilewise::Database::open(database());
  std::vector<double> budgets;
  for (const Json& row : results) {
    const auto problem = tilewise::problem_from_json(row.at("problem").dump());
    const auto searches = stored.searches(problem, row.at("gpu").get<std::string>());
    ASSERT_EQ(searches.size(), 1U);
    budgets.push_back(searches.front().budget_seconds);
  }
  // Half of the 27 s evenly, half by weight.
  EXPECT_NEAR(budgets[0], 4.5 + 13.5 * 3 / 4, 1e-6);
  EXPECT_NEAR(budgets[1], 4.5 + 13.5 * 1 / 4, 1e-6);
  EXPECT_NEAR(budgets[2], 4.5, 1e-6);
}

}  // namespace
}  // namespace cli_test::cli_problems_test
