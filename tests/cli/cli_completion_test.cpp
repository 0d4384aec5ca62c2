// The completion scripts in their shells; a shell that is not installed is skipped.
#include <gmock/gmock.h>

#include <sstream>

#include "tests/cli/program.hpp"

namespace cli_test::cli_completion_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Not;
using testing::UnorderedElementsAre;

using Words = std::vector<std::string>;

class CliCompletion : public ProgramTest {
 protected:
  static bool missing(const std::string& shell) {
    return std::system(("command -v " + shell + " > /dev/null 2>&1").c_str()) != 0;
  }
  /// The contents of "reply" in the test's folder after a shell has run `script`.
  std::string reply_to(const std::string& shell, const std::string& script) const {
    write(file("script"), script);
    const std::string command = "cd " + file("").string() + " && HOME=$PWD TERM=dumb timeout 60 " +
                                shell + " script > log 2>&1 < /dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0) << read(file("log"));
    return read(file("reply"));
  }
  static Words split(const std::string& text) {
    std::istringstream stream(text);
    Words words;
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
  }
};

class BashCompletion : public CliCompletion {
 protected:
  void SetUp() override {
    if (missing("bash")) GTEST_SKIP() << "bash is not installed";
    write(file("autotune.bash"), run({"completion", "bash"}).out);
  }
  /// The completions of the last of `words`, separated as by bash.
  Words offered(const std::string& words) const {
    return split(reply_to("bash", "set -u; source autotune.bash; COMP_WORDS=(" + words +
                                      "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _autotune; "
                                      "echo \"${COMPREPLY[*]-}\" > reply"));
  }
};

TEST_F(BashCompletion, Subcommands) {
  EXPECT_THAT(offered("autotune q"), ElementsAre("query"));
  EXPECT_THAT(offered("autotune db pr"), ElementsAre("prune"));
  EXPECT_THAT(offered("autotune db ''"),
              UnorderedElementsAre("path", "info", "list", "model", "delete", "prune", "check"));
  EXPECT_THAT(offered("autotune ''"), AllOf(Contains("tune"), Not(Contains("worker"))));
}

TEST_F(BashCompletion, Options) {
  EXPECT_THAT(offered("autotune --max"), ElementsAre("--max-evaluations"));
  EXPECT_THAT(offered("autotune db list --outc"), ElementsAre("--outcome"));
  EXPECT_THAT(offered("autotune query -"), AllOf(Contains("--gpu"), Not(Contains("--budget"))));
}

TEST_F(BashCompletion, Values) {
  EXPECT_THAT(offered("autotune tune --layout n"), ElementsAre("nn", "nt"));
  EXPECT_THAT(offered("autotune tune --layout = n"), ElementsAre("nn", "nt"));
  EXPECT_THAT(offered("autotune tune --strategy ="),
              UnorderedElementsAre("local", "model", "random", "exhaustive"));
  EXPECT_THAT(offered("autotune --device ''"), AllOf(Contains("host"), Not(Contains("UUID"))));
  EXPECT_THAT(offered("autotune completion z"), ElementsAre("zsh"));
  EXPECT_THAT(offered("autotune tune --dtype e"), ElementsAre("e4m3", "e5m2"));
  EXPECT_THAT(offered("autotune query --math ''"),
              UnorderedElementsAre("strict", "tf32", "f32x3", "fast", "emulated"));
}

TEST_F(BashCompletion, NothingOfItsOwnWhereAFileIsMeant) {
  EXPECT_THAT(offered("autotune import ''"), ElementsAre()) << "then bash offers files";
  EXPECT_THAT(offered("autotune --db ''"), ElementsAre());
}

class FishCompletion : public CliCompletion {
 protected:
  void SetUp() override {
    if (missing("fish")) GTEST_SKIP() << "fish is not installed";
    write(file("autotune.fish"), run({"completion", "fish"}).out);
  }
  /// Completions with descriptions, as printed by fish.
  std::string described(const std::string& line) const {
    return reply_to("fish --no-config", "source autotune.fish; complete -C '" + line + "' > reply");
  }
  Words offered(const std::string& line) const {
    std::istringstream lines(described(line));
    Words words;
    for (std::string text; std::getline(lines, text);)
      words.push_back(text.substr(0, text.find('\t')));
    return words;
  }
};

TEST_F(FishCompletion, Subcommands) {
  EXPECT_THAT(offered("autotune q"), ElementsAre("query"));
  EXPECT_THAT(offered("autotune db "),
              UnorderedElementsAre("path", "info", "list", "model", "delete", "prune", "check"));
  EXPECT_THAT(offered("autotune "), AllOf(Contains("tune"), Not(Contains("worker"))));
}

TEST_F(FishCompletion, OptionsWithWhatTheyMean) {
  EXPECT_THAT(offered("autotune tune --lay"), ElementsAre("--layout"));
  EXPECT_THAT(offered("autotune --max"), ElementsAre("--max-evaluations"));
  EXPECT_THAT(offered("autotune query --"), AllOf(Contains("--gpu"), Not(Contains("--budget"))));
  EXPECT_EQ(described("autotune tune --see"), "--seed\tOf the strategy's random numbers\n");
}

TEST_F(FishCompletion, Values) {
  EXPECT_THAT(offered("autotune tune --layout n"), UnorderedElementsAre("nn", "nt"));
  EXPECT_THAT(offered("autotune tune --layout=n"),
              UnorderedElementsAre("--layout=nn", "--layout=nt"));
  EXPECT_THAT(offered("autotune --device "), AllOf(Contains("host"), Not(Contains("UUID"))));
  EXPECT_THAT(offered("autotune completion z"), ElementsAre("zsh"));
}

TEST_F(FishCompletion, FilesWhereAFileIsMeant) {
  EXPECT_THAT(offered("autotune import auto"), ElementsAre("autotune.fish"));
  EXPECT_THAT(offered("autotune --db auto"), ElementsAre("autotune.fish"));
}

/// An interactive zsh on its own terminal. The test types each line, a tab, which inserts all
/// completions, and a key that prints the line. Each line has its own shell, because the first tab
/// also loads the script.
class ZshCompletion : public CliCompletion {
 protected:
  void SetUp() override {
    if (missing("zsh")) GTEST_SKIP() << "zsh is not installed";
    if (std::system("zsh -fc 'zmodload zsh/zpty' > /dev/null 2>&1") != 0)
      GTEST_SKIP() << "this zsh has no zsh/zpty to type into";
    fs::create_directory(file("functions"));
    write(file("functions") / "_autotune", run({"completion", "zsh"}).out);
  }
  /// The line with all completions of its last word.
  std::string completed(const std::string& line) const {
    fs::remove(file("reply"));
    std::string text = reply_to("zsh -f", kTyping + ("type_line '" + line + "'"));
    return text.substr(0, text.find_last_not_of(" \n") + 1);
  }

 private:
  static constexpr const char* kTyping = R"(
zmodload zsh/zpty
wait_for() { repeat 2000; do [[ -s $1 ]] && return; sleep 0.01; done; exit 1 }
zpty shell 'zsh -f -i'
zpty -w shell 'fpath=($PWD/functions $fpath); autoload -Uz compinit; compinit -u -D
zstyle ":completion:*" completer _all_matches _complete
zstyle ":completion:*" insert true
print ready > ready'
wait_for ready
type_line() {
  zpty -n -w shell $1$'\t >reply.part\x01print -r -- \n'
  zpty -w shell 'mv reply.part reply'
  wait_for reply
}
)";
};

TEST_F(ZshCompletion, SubcommandsFromTheFirstTabOn) {
  EXPECT_EQ(completed("autotune q"), "autotune query");
  EXPECT_EQ(completed("autotune db "), "autotune db check delete info list model path prune");
}

TEST_F(ZshCompletion, Options) {
  EXPECT_EQ(completed("autotune tune --lay"), "autotune tune --layout");
  EXPECT_EQ(completed("autotune --max"), "autotune --max-evaluations");
  EXPECT_THAT(split(completed("autotune query -")),
              AllOf(Contains("--gpu"), Not(Contains("--budget"))));
}

TEST_F(ZshCompletion, Values) {
  EXPECT_EQ(completed("autotune tune --layout n"), "autotune tune --layout nn nt");
  EXPECT_EQ(completed("autotune tune --strategy=r"), "autotune tune --strategy=random");
  EXPECT_THAT(split(completed("autotune completion ")),
              UnorderedElementsAre("autotune", "completion", "bash", "fish", "zsh"));
  EXPECT_THAT(split(completed("autotune --device ")),
              AllOf(Contains("host"), Not(Contains("UUID"))));
}

TEST_F(ZshCompletion, FilesWhereAFileIsMeant) {
  EXPECT_EQ(completed("autotune import func"), "autotune import functions");
  EXPECT_THAT(split(completed("autotune import ")), Contains("functions"));
  EXPECT_EQ(completed("autotune --db func"), "autotune --db functions");
}

}  // namespace
}  // namespace cli_test::cli_completion_test
