// Common habits of programs: checked numbers, aliases of names, help that fits the terminal,
// terminal settings.
#include <gmock/gmock.h>

#include <sstream>

#include "tests/cli/program.hpp"

namespace cli_test::cli_habits_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Words = std::vector<std::string>;

class CliHabits : public ProgramTest {
 protected:
  CliHabits() {
    hide_gpus();
    set("TILEWISE_HOST_FLAGS", "-O0");  // faster compiles outweigh slower kernels
  }
  static Words joined(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static Words quick_tune(const Words& more) {
    return joined({"--device", "host", "--sizes", "33", "--templates", "naive", "--in-process"},
                  more);
  }
};

TEST_F(CliHabits, NumbersThatAreNoneAreRefusedWithWhatIsAllowed) {
  const Words compile = {"compile", "--arch", "sm_90"}, space = {"space", "--arch", "sm_90"};
  const std::vector<Words> options = {
      {"--sizes", "64", "--seed"},      {"--sizes", "64", "--max-evaluations"},
      {"--sizes", "64", "--finalists"}, {"--sizes", "64", "--jobs"},
      {"--sizes", "64", "--batch"},     {"--sizes", "64", "--accuracy"},
      {"--sizes", "64", "--budget"},    {"--sizes", "64", "--align"},
      joined(compile, {"--random"}),    joined(compile, {"--random", "1", "--seed"}),
      joined(compile, {"--jobs"}),      joined(space, {"--draws"}),
      joined(space, {"--seed"}),        {"db", "list", "--limit"},
  };
  for (const Words& words : options) {
    for (const std::string value : {"foo", "-1", "1.5x", "", "99999999999999999999999x"}) {
      const Result result = run(joined(words, {value}));
      EXPECT_EQ(result.status, 2) << words.back() << " " << value;
      EXPECT_THAT(result.err, AllOf(HasSubstr(words.back()), HasSubstr("'" + value + "'"),
                                    HasSubstr("allowed")))
          << value;
    }
  }
  EXPECT_THAT(run({"--sizes", "64", "--seed", "foo"}).err,
              HasSubstr("a whole number from 0 to 18446744073709551615"));
  EXPECT_THAT(run({"--sizes", "64", "--finalists", "65"}).err, HasSubstr("from 1 to 64"));
}

TEST_F(CliHabits, NumbersAreDecimal) {
  const Result result = run({"space", "--arch", "sm_90", "--templates", "naive", "--draws", "010",
                             "--seed", "18446744073709551615", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.json().at("spaces")[0].at("draws"), 10);
}

TEST_F(CliHabits, ForeignNamesOfTypesAreAnsweredWithOurs) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"fp16", "f16"},      {"half", "f16"}, {"float16", "f16"},      {"F16", "f16"},
      {"float", "f32"},     {"FP32", "f32"}, {"float32", "f32"},      {"double", "f64"},
      {"bfloat16", "bf16"}, {"int8", "i8"},  {"fp8", "e4m3 or e5m2"}, {"float8_e4m3fn", "e4m3"},
  };
  for (const auto& [name, ours] : names) {
    const Result result = run({"--sizes", "64", "--dtype", name});
    EXPECT_EQ(result.status, 2) << name;
    EXPECT_THAT(result.err, AllOf(HasSubstr("'" + name + "'"),
                                  HasSubstr("did you mean " + ours + "?"), Not(HasSubstr("i32"))));
  }
  EXPECT_THAT(run({"--sizes", "64", "--dtype", "tf32"}).err, HasSubstr("--math tf32"));
  EXPECT_THAT(run({"--sizes", "64", "--dtype", "int32"}).err, Not(HasSubstr("did you mean")))
      << "i32 would be refused";
  EXPECT_THAT(run({"--sizes", "64", "--dtype", "e4m3", "--out", "fp8"}).err,
              AllOf(HasSubstr("did you mean e4m3?"), Not(HasSubstr("e5m2"))));
  EXPECT_THAT(run({"--sizes", "64", "--dtype", "int8", "--out", "int32"}).err, HasSubstr("i8?"));
}

TEST_F(CliHabits, SingularAndPluralAreOneOption) {
  const auto space = [&](const Words& more) {
    const Result result =
        run(joined({"space", "--arch", "sm_90", "--draws", "10", "--json"}, more));
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  EXPECT_EQ(space({"--size", "64,65", "--layouts", "nn,tt", "--template", "naive"}),
            space({"--sizes", "64,65", "--layout", "nn,tt", "--templates", "naive"}));
  EXPECT_THAT(run({"ladder", "--device", "host", "--sizes", "64,128"}).err,
              HasSubstr("takes one, N or MxNxK"));
  EXPECT_THAT(run({"query", "--layouts", "tt"}).err, HasSubstr("--sizes"));
}

TEST_F(CliHabits, HelpFitsTheTerminal) {
  const std::vector<Words> commands = {
      {},
      {"tune"},
      {"query"},
      {"devices"},
      {"compile"},
      {"verify"},
      {"ladder"},
      {"space"},
      {"templates"},
      {"db"},
      {"export"},
      {"import"},
      {"completion"},
      {"db", "path"},
      {"db", "info"},
      {"db", "list"},
      {"db", "delete"},
      {"db", "prune"},
      {"db", "model"},
  };
  const auto words_of = [](const std::string& text) {
    std::string words;
    for (const char c : text)
      if (c != ' ' && c != '\n' && c != '\\') words += c;
    return words;
  };
  for (const Words& command : commands) {
    set("COLUMNS", "1000");
    const std::string whole = run(joined(command, {"--help"})).out;
    EXPECT_LE(widest_line(whole), 100U) << whole;
    for (const std::size_t width : {40U, 60U, 80U}) {
      set("COLUMNS", std::to_string(width));
      const std::string help = run(joined(command, {"--help"})).out;
      EXPECT_LE(widest_line(help), width) << help;
      EXPECT_EQ(words_of(help), words_of(whole)) << "something is lost";
    }
    unset("COLUMNS");
    EXPECT_LE(widest_line(run(joined(command, {"--help"})).out), 80U);
  }
}

TEST_F(CliHabits, ExamplesOfNarrowHelpCanBeCopied) {
  set("COLUMNS", "40");
  const std::string help = run({"query", "--help"}).out;
  EXPECT_THAT(help, HasSubstr("autotune query --gpu \"NVIDIA H200\""));
  EXPECT_THAT(help, HasSubstr("--sizes \\\n      1024,3000x500x700 --layout all\n"));
}

TEST_F(CliHabits, ListsGivenSeveralTimesAddUp) {
  const auto answers = [&](const Words& words) {
    const Result result =
        run(joined({"space", "--arch", "sm_90", "--draws", "10", "--json"}, words));
    EXPECT_EQ(result.status, 0) << result.err;
    std::vector<std::string> all;
    const Json document = result.json();
    for (const Json& space : document.at("spaces"))
      all.push_back(space.at("template").get<std::string>() + space.at("problem").dump() +
                    space.at("raw").dump() + space.at("target").dump());
    return all;
  };
  const Words naive{"--templates", "naive"};
  const std::pair<Words, Words> alike[] = {
      {joined(naive, {"--sizes", "24,32x8x8,40"}),
       joined(naive, {"--sizes", "24", "--size", "32x8x8,40"})},
      {joined(naive, {"--sizes", "24", "--layout", "nt,tn"}),
       joined(naive, {"--sizes", "24", "--layout", "nt", "--layout", "tn"})},
      {{"--sizes", "24", "--templates", "naive,tiled"},
       {"--sizes", "24", "--template", "naive", "--templates", "tiled"}},
      {joined(naive, {"--subspace", "TILE_M=8,16;UNROLL=4"}),
       joined(naive, {"--subspace", "TILE_M=8,16", "--subspace", "UNROLL=4"})},
  };
  for (const auto& [once, several] : alike) {
    EXPECT_EQ(answers(several), answers(once)) << several.back();
    EXPECT_FALSE(answers(once).empty());
  }
  const auto targets = run({"space", "--arch", "sm_80", "--arch", "sm_90", "--templates", "naive",
                            "--draws", "10", "--json"})
                           .json();
  EXPECT_EQ(targets.at("spaces").size(), 2U);
  const Result devices = run({"tune", "--device", "host", "--device", "host:sm_90", "--sizes", "24",
                              "--templates", "naive", "--dry-run", "--json"});
  EXPECT_EQ(devices.json().at("searches").size(), 2U) << devices.err;
  EXPECT_THAT(run({"space", "--arch", "sm_90", "--sizes", "24", "--sizes", "x"}).err,
              HasSubstr("'x'"));
  EXPECT_EQ(
      run({"space", "--arch", "sm_90", "--sizes", "24", "--dtype", "f32", "--dtype", "f16"}).status,
      2)
      << "one value, not a list";
}

TEST_F(CliHabits, HelpAndVersionAreWords) {
  EXPECT_EQ(run({"help"}).out, run({"--help"}).out);
  EXPECT_EQ(run({"help", "tune"}).out, run({"tune", "--help"}).out);
  EXPECT_EQ(run({"help", "db", "list"}).out, run({"db", "list", "--help"}).out);
  EXPECT_EQ(run({"version"}).out, run({"--version"}).out);
  EXPECT_EQ(run({"version", "--json"}).json(), run({"--version", "--json"}).json());
  EXPECT_EQ(run({"help"}).status, 0);
  const Result unknown = run({"help", "tuen"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'tune'?"));
}

TEST_F(CliHabits, NoEscapesGoToATerminalThatIsDumb) {
  for (const char* terminal : {"dumb", ""}) {
    set("TERM", terminal);
    const Result result = run_on_terminal(quick_tune({"--max-evaluations", "2"}));
    if (result.status == -1) GTEST_SKIP() << "no terminals here";
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("warning:"), Not(HasSubstr("\x1b"))));
  }
}

TEST_F(CliHabits, NoColorForbidsColoursOnly) {
  set("TERM", "xterm");
  const Result coloured = run_on_terminal(quick_tune({"--max-evaluations", "2"}));
  if (coloured.status == -1) GTEST_SKIP() << "no terminals here";
  EXPECT_THAT(coloured.err, AllOf(HasSubstr("\x1b[31m"), HasSubstr("\x1b[K")));
  set("NO_COLOR", "1");
  const Result plain = run_on_terminal(quick_tune({"--max-evaluations", "2", "--force"}));
  EXPECT_THAT(plain.err, AllOf(HasSubstr("\x1b[K"), Not(HasSubstr("\x1b[31m"))));
}

/// The lines of a terminal's text, without escape sequences.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b')
      i = text.find_first_of("mKA", i);
    else if (text[i] == '\n' || text[i] == '\r')
      lines.emplace_back();
    else
      lines.back() += text[i];
  }
  return lines;
}

TEST_F(CliHabits, ProgressAndWarningsFitTheTerminal) {
  set("TERM", "xterm");
  for (const int columns : {40, 80, 132}) {
    const Result result =
        run_on_terminal(quick_tune({"--max-evaluations", "6", "--force"}), columns);
    if (result.status == -1) GTEST_SKIP() << "no terminals here";
    ASSERT_EQ(result.status, 0) << result.err;
    for (const std::string& line : lines_of(result.err))
      EXPECT_LE(line.size(), static_cast<std::size_t>(columns)) << line;
    EXPECT_THAT(lines_of(result.err), testing::Contains(testing::StartsWith("best ")));
    EXPECT_THAT(result.err, HasSubstr("1 problem in "));
  }
}

TEST_F(CliHabits, ANarrowerTerminalIsErasedByItsRows) {
  set("TERM", "xterm"), set("NO_COLOR", "1");
  std::size_t narrow_from = 0;
  const Result result = run_on_terminal(
      quick_tune({"--max-evaluations", "40", "--force"}), 200, [&](int terminal, const auto& text) {
        const std::size_t best = text.find("best ");
        if (narrow_from > 0 || best == text.npos || text.find('\r', best) == text.npos) return;
        narrow_from = text.size();
        resize(terminal, 20);
      });
  if (result.status == -1) GTEST_SKIP() << "no terminals here";
  ASSERT_EQ(result.status, 0) << result.err;
  ASSERT_GT(narrow_from, 0U);
  EXPECT_THAT(result.err.substr(narrow_from), HasSubstr("\x1b[A\x1b[K\x1b[A\x1b[K\x1b[A\x1b[K"))
      << "two lines that were up to 200 columns wide take at least four rows of 20";
}

TEST_F(CliHabits, TimeLeftIsReadableHoweverLong) {
  set("TERM", "xterm");
  const auto left = [&](const char* budget) {
    return run_on_terminal({"--device", "host", "--sizes", "33", "--templates", "tiled",
                            "--max-evaluations", "8", "--force", "--budget", budget});
  };
  const Result hours = left("2h");
  if (hours.status == -1) GTEST_SKIP() << "no terminals here";
  EXPECT_THAT(hours.err, testing::ContainsRegex(", (1 h 59|2 h 00) min left"));
  EXPECT_THAT(left("1000h").err, HasSubstr(" 41 d left"));
  EXPECT_THAT(left("999999999").err, HasSubstr("more than 9999 d left"));
  EXPECT_THAT(left("1e300h").err, HasSubstr("more than 9999 d left"));
}

}  // namespace
}  // namespace cli_test::cli_habits_test
