// Messages for bad usage and bad input, help, version, completion scripts.
#include <gmock/gmock.h>

#include <sstream>

#include "tests/cli/program.hpp"

namespace cli_test::cli_usage_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using CliUsage = ProgramTest;

const std::vector<std::vector<std::string>> kCommands = {
    {"tune"},         {"query"},       {"devices"},     {"compile"},    {"verify"},
    {"ladder"},       {"space"},       {"templates"},   {"db"},         {"export"},
    {"import"},       {"completion"},  {"db", "path"},  {"db", "info"}, {"db", "list"},
    {"db", "delete"}, {"db", "prune"}, {"db", "model"},
};

std::vector<std::string> plus(std::vector<std::string> words, const std::string& word) {
  words.push_back(word);
  return words;
}

TEST_F(CliUsage, WithoutArgumentsItPrintsHelp) {
  const Result result = run({});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("Usage: autotune"));
}

TEST_F(CliUsage, HelpNamesEverySubcommandExitStatusesAndEnvironmentAndHidesTheWorker) {
  const Result result = run({"--help"});
  EXPECT_EQ(result.status, 0);
  for (const auto& command : kCommands) {
    if (command.size() > 1) continue;
    EXPECT_THAT(result.out, HasSubstr("\n  " + command[0] + " "));
  }
  EXPECT_THAT(result.out, AllOf(HasSubstr("Examples:"), HasSubstr("130, 143, 129, 141 interrupted"),
                                HasSubstr("TILEWISE_DB"), Not(HasSubstr("\n  worker"))));
}

TEST_F(CliUsage, EverySubcommandsHelpEndsWithTwoToFourExamplesOfItself) {
  for (const auto& command : kCommands) {
    const Result result = run(plus(command, "--help"));
    EXPECT_EQ(result.status, 0) << command.back();
    const auto at = result.out.rfind("Examples:\n");
    ASSERT_NE(at, std::string::npos) << command.back();
    std::istringstream lines(result.out.substr(at));
    int examples = 0;
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line))
      if (line.find("autotune") != std::string::npos) ++examples;
    EXPECT_GE(examples, 2) << command.back();
    EXPECT_LE(examples, 4) << command.back();
  }
}

TEST_F(CliUsage, TheDocumentationNamesEverySubcommandAndOption) {
  const std::string page = read(fs::path(TILEWISE_SOURCE_DIR) / "docs" / "cli.md");
  for (const auto& command : kCommands) {
    EXPECT_THAT(page, HasSubstr(command.back()));
    std::istringstream words(run(plus(command, "--help")).out);
    for (std::string word; words >> word;) {
      const auto at = word.find("--");
      if (at == std::string::npos || word.find_first_of("\"'`$.") != std::string::npos) continue;
      const std::string option = word.substr(at, word.find_first_of(",:;)", at) - at);
      if (option == "--help") continue;
      EXPECT_THAT(page, HasSubstr(option)) << command.back();
    }
  }
}

TEST_F(CliUsage, HelpNeedsNeitherGpuNorCompilerNorDatabase) {
  hide_gpus();
  set("TILEWISE_NVRTC", "/nowhere");
  set("TILEWISE_DB", "/dev/null/below.db");
  EXPECT_EQ(run({"--help"}).status, 0);
  EXPECT_EQ(run({"tune", "--help"}).status, 0);
}

TEST_F(CliUsage, VersionSaysNumberAndBuildType) {
  const Result result = run({"--version"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, testing::MatchesRegex("autotune [0-9.]+ \\([A-Za-z]+\\)\n"));
  const Json json = run({"--version", "--json"}).json();
  EXPECT_THAT(result.out, HasSubstr(json.at("program_version").get<std::string>()));
  EXPECT_THAT(result.out, HasSubstr(json.at("build").get<std::string>()));
}

TEST_F(CliUsage, EveryBadSizeIsNamed) {
  const Result result = run({"--sizes", "0,-3,abc"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("'0'"), HasSubstr("'-3'"), HasSubstr("'abc'")));
  const Result one = run({"--sizes", "64,1x2,128"});
  EXPECT_EQ(one.status, 2);
  EXPECT_THAT(one.err, AllOf(HasSubstr("'1x2'"), Not(HasSubstr("'64'")), Not(HasSubstr("'128'"))));
}

TEST_F(CliUsage, AbsurdSizesAreRefusedWithNumbers) {
  hide_gpus();
  const Result large = run({"--sizes", "1000000"});
  EXPECT_EQ(large.status, 7);
  EXPECT_THAT(large.err,
              testing::ContainsRegex("needs [0-9.]+ TiB .* [0-9.]+ [GMT]iB are available"));
  const Result largest = run({"--sizes", "1099511627776"});
  EXPECT_EQ(largest.status, 7);
  EXPECT_THAT(largest.err, HasSubstr("YiB"));
  const Result larger = run({"--sizes", "99999999999999999999"});
  EXPECT_EQ(larger.status, 2);
  EXPECT_THAT(larger.err, HasSubstr("2^40"));
}

TEST_F(CliUsage, BadValuesNameWhatIsAllowed) {
  struct Case {
    std::vector<std::string> arguments;
    std::string expected;
  };
  for (const Case& bad : std::vector<Case>{
           {{"--sizes", "64", "--dtype", "float"}, "--dtype: unknown"},
           {{"--sizes", "64", "--dtype", "half"}, "f32, f64, f16, bf16, i8"},
           {{"--sizes", "64", "--dtype", "i32"}, "results only; A and B are f32, f64"},
           {{"--sizes", "64", "--dtype", "i8", "--out", "f32"}, "products of i8 give i32"},
           {{"--sizes", "64", "--dtype", "f16", "--out", "i32"}, "products of f16 give f16, f32"},
           {{"--sizes", "64", "--out", "wide"}, "--out: unknown"},
           {{"--sizes", "64", "--math", "quick"}, "strict, tf32, f32x3, fast"},
           {{"--sizes", "64", "--dtype", "bf16", "--math", "tf32"}, "one mode, strict"},
           {{"--sizes", "64", "--math", "tf32", "--accuracy", "1"}, "excludes"},
           {{"--sizes", "64", "--accuracy", "-1"}, "above 0"},
           {{"--sizes", "64", "--accuracy", "nan"}, "above 0"},
           {{"--sizes", "64", "--accuracy", "tight"}, "--accuracy"},
           {{"--sizes", "64", "--batch", "0"}, "--batch"},
           {{"--sizes", "64", "--dtype", "f64", "--align", "4"}, "from 8 (an element of f64)"},
           {{"ladder", "--dtype", "bf16"}, "strict f32, not bf16"},
           {{"ladder", "--math", "tf32"}, "strict f32, not f32 tf32"},
           {{"--sizes", "64", "--layout", "nx"}, "nn, nt, tn, tt"},
           {{"--sizes", "64", "--align", "3"}, "powers of two"},
           {{"--sizes", "64", "--align", "16,16"}, "three"},
           {{"--sizes", "64", "--align", "2"}, "from 4"},
           {{"--sizes", "64", "--strategy", "luck"}, "random"},
           {{"--sizes", "64", "--budget", "soon"}, "90s"},
           {{"--sizes", "64", "--budget", "0"}, "above 0"},
           {{"--sizes", "64", "--budget", "nan"}, "above 0"},
           {{"--sizes", "64", "--max-evaluations", "-1"}, "max-evaluations"},
           {{"--sizes", "64", "--finalists", "0"}, "finalists"},
           {{"--sizes", "64", "--templates", "nosuch"}, "simt"},
           {{"--sizes", "64", "--subspace", "TILE_M"}, "TILE_M"},
           {{"--sizes", "64", "--device", "fastest"}, "UUID"},
           {{"tune"}, "--sizes"},
           {{"compile", "--arch", "sm_banana"}, "sm_banana"},
           {{"compile", "--arch", "sm_50"}, "sm_50"},
           {{"compile"}, "--arch"},
           {{"compile", "--arch", "sm_90", "--only", "nosuch {}"}, "simt"},
           {{"compile", "--arch", "sm_90", "--only", "simt {\"NOSUCH\":1}"}, "NOSUCH"},
           {{"templates", "nosuch"}, "simt"},
           {{"query", "--layout", "tt"}, "--sizes"},
           {{"query", "--sizes", "64", "--nvrtc", "/nowhere"}, "--stale"},
           {{"query", "--gpu", "H200", "--device", "0"}, "--device"},
           {{"compile", "--arch", "sm_90", "--only", "simt", "--templates", "naive"}, "--only"},
           {{"--sizes", "64", "--only", "simt", "--subspace", "TILE_M=64"}, "--only"},
           {{"completion", "tcsh"}, "bash"},
           {{"db"}, "path, info, list"},
           {{"db", "delete"}, "--all"},
           {{"db", "list", "--outcome", "odd"}, "wrong_result"},
       }) {
    const Result result = run(bad.arguments);
    EXPECT_EQ(result.status, 2) << bad.arguments.back() << "\n" << result.err;
    EXPECT_THAT(result.err, HasSubstr(bad.expected)) << bad.arguments.back();
    EXPECT_EQ(result.out, "") << bad.arguments.back();
  }
}

TEST_F(CliUsage, UnknownOptionsAndSubcommandsAreErrorsWithTheNearest) {
  const Result option = run({"--sises", "64"});
  EXPECT_EQ(option.status, 2);
  EXPECT_THAT(option.err, HasSubstr("did you mean --sizes?"));
  const Result command = run({"qurey"});
  EXPECT_EQ(command.status, 2);
  EXPECT_THAT(command.err, HasSubstr("did you mean 'query'?"));
  const Result far = run({"benchmark"});
  EXPECT_EQ(far.status, 2);
  EXPECT_THAT(far.err, AllOf(HasSubstr("tune, cover, query"), Not(HasSubstr("worker"))));
  const Result below = run({"db", "frobnicate"});
  EXPECT_EQ(below.status, 2);
  EXPECT_THAT(below.err, AllOf(HasSubstr("'frobnicate'"),
                               HasSubstr("path, info, list, model, delete, prune")));
  EXPECT_THAT(run({"db", "lst"}).err, HasSubstr("did you mean 'list'?"));
  const Result order = run({"--json", "devices"});
  EXPECT_EQ(order.status, 2);
  EXPECT_THAT(order.err, HasSubstr("autotune devices"));
}

TEST_F(CliUsage, ErrorsAreJsonToo) {
  const Result result = run({"--sizes", "abc", "--json"});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.json().at("error").at("kind"), "invalid_argument");
  EXPECT_THAT(result.err, HasSubstr(result.json().at("error").at("message").get<std::string>()));
  const Result usage = run({"devices", "--nosuch", "--json"});
  EXPECT_EQ(usage.status, 2);
  EXPECT_EQ(usage.json().at("error").at("kind"), "usage");
}

TEST_F(CliUsage, WithoutAGpuOneLineSaysSoAndPointsToTheCpu) {
  hide_gpus();
  const Result result = run({"--device", "all", "--sizes", "64"});
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.err, HasSubstr("autotune compile --arch"));
  EXPECT_THAT(result.err, HasSubstr("--device host"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_EQ(run({"verify", "--device", "0"}).status, 3);
  EXPECT_EQ(run({"query", "--device", "0"}).status, 3);
}

TEST_F(CliUsage, ADeviceThatIsNotThereIsStatusThree) {
  const Result result = run({"--device", "9", "--sizes", "64", "--json"});
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.json().at("error").at("kind"), "no_device");
  EXPECT_EQ(run({"--device", "GPU-0000", "--sizes", "64"}).status, 3);
}

TEST_F(CliUsage, ADatabaseThatCannotBeWrittenIsStatusFive) {
  write(file("plain"), "text");
  const Result below = run({"--sizes", "64", "--db", file("plain") / "below.db"});
  EXPECT_EQ(below.status, 5);
  EXPECT_THAT(below.err, HasSubstr((file("plain") / "below.db").string()));
  write(file("text.db"), std::string(5000, 'x'));
  const Result text = run({"query", "--db", file("text.db")});
  EXPECT_EQ(text.status, 5);
  EXPECT_THAT(text.err, HasSubstr(file("text.db").string()));
  EXPECT_EQ(read(file("text.db")), std::string(5000, 'x')) << "it was touched";
}

TEST_F(CliUsage, WithoutACompilerStatusFour) {
  const Result result =
      run({"compile", "--arch", "sm_90", "--sizes", "64", "--nvrtc", "/nowhere/libnvrtc.so"});
  EXPECT_EQ(result.status, 4);
  EXPECT_THAT(result.err, HasSubstr("/nowhere"));
}

TEST_F(CliUsage, NoColoursWhenPiped) {
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"templates"},
                                             {"db", "info"},
                                             {"--sizes", "0"},
                                             {"space", "--arch", "sm_90", "--draws", "10"}}) {
    const Result result = run(arguments);
    EXPECT_EQ((result.out + result.err).find('\x1b'), std::string::npos) << arguments[0];
  }
}

TEST_F(CliUsage, CompletionScriptsNameTheOptionsThereAre) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const Result result = run({"completion", shell});
    EXPECT_EQ(result.status, 0);
    for (const std::string word : {"max-evaluations", "query", "prune", "nn nt tn tt", "sm_75"})
      EXPECT_THAT(result.out, HasSubstr(word)) << shell;
    EXPECT_THAT(result.out, Not(HasSubstr("'worker"))) << shell;
  }
}

TEST_F(CliUsage, CompletionScriptsComeAsJsonToo) {
  const Json json = run({"completion", "zsh", "--json"}).json();
  EXPECT_EQ(json.at("shell"), "zsh");
  EXPECT_EQ(json.at("script").get<std::string>() + "\n", run({"completion", "zsh"}).out);
}

}  // namespace
}  // namespace cli_test::cli_usage_test
