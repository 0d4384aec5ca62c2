#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/common/output.hpp"
#include "tilewise/error.hpp"

/// The program `autotune`: one file per subcommand. Each file has an options struct, a setup
/// function that declares the options to CLI11, and a run function. An add_NAME function (declared
/// below, called in main.cpp) connects them.
namespace tilewise::cli {

/// Exit statuses, documented in --help and docs/cli.md. Never renumber them.
enum ExitCode : int {
  kOk = 0,
  kFailure = 1,        ///< something unexpected; a kernel that does not compile
  kUsage = 2,          ///< bad usage or input
  kNoDevice = 3,       ///< no driver, or no such GPU
  kNoCompiler = 4,     ///< no run-time compiler
  kDatabase = 5,       ///< the database cannot be opened, read or written
  kNoWinner = 6,       ///< winner missing (no valid candidate), wrong, or with a changed time
  kOutOfMemory = 7,    ///< host or device memory does not suffice
  kInterrupted = 130,  ///< status of a command; the program exits with interrupt_status()
};
ExitCode exit_code(ErrorKind kind);

/// Selects the commands that help, completion and the manual show; a filter for get_subcommands().
inline bool is_shown(const CLI::App* command) { return !command->get_group().empty(); }

/// The command that the command line selected. A subcommand's callback sets it while CLI11 parses;
/// it runs afterwards.
struct Selection {
  std::function<int()> run;
};

/// The arguments after "--" of `autotune record`, unchanged: CLI11 would split some of them
/// ("[a,b]"). Set before parsing.
std::vector<std::string>& words_behind_dashes();

/// Adds --json, --quiet and -v, the options of every subcommand.
void add_output_options(CLI::App& app, Output& output);

/// "Examples:" and the lines, for the end of a subcommand's help.
std::string examples(std::initializer_list<const char*> lines);

/// Adds a subcommand; its options live as long as `app`.
template <class Options>
CLI::App* add_command(CLI::App& app, Selection& selection, const std::string& name,
                      const std::string& summary, void (*setup)(CLI::App&, Options&),
                      int (*run)(const Options&, const Output&)) {
  struct State {
    Options options;
    Output output;
  };
  auto state = std::make_shared<State>();
  CLI::App* command = app.add_subcommand(name, summary);
  setup(*command, state->options);
  add_output_options(*command, state->output);
  command->callback([state, run, &selection] {
    selection.run = [state, run] { return run(state->options, state->output); };
  });
  return command;
}

void add_tune(CLI::App& app, Selection& selection);
void add_cover(CLI::App& app, Selection& selection);
void add_query(CLI::App& app, Selection& selection);
void add_devices(CLI::App& app, Selection& selection);
void add_compile(CLI::App& app, Selection& selection);
void add_report(CLI::App& app, Selection& selection);
void add_explain(CLI::App& app, Selection& selection);
void add_source(CLI::App& app, Selection& selection);
void add_verify(CLI::App& app, Selection& selection);
void add_ladder(CLI::App& app, Selection& selection);
void add_space(CLI::App& app, Selection& selection);
void add_templates(CLI::App& app, Selection& selection);
void add_db(CLI::App& app, Selection& selection);
void add_db_model(CLI::App& db, Selection& selection);
void add_export(CLI::App& app, Selection& selection);
void add_bundle(CLI::App& app, Selection& selection);
void add_images(CLI::App& app, Selection& selection);
void add_record(CLI::App& app, Selection& selection);
void add_import(CLI::App& app, Selection& selection);
void add_replay(CLI::App& app, Selection& selection);
void add_completion(CLI::App& app, Selection& selection);
void add_manual(CLI::App& app, Selection& selection);
void add_launch(CLI::App& app, Selection& selection);
void add_worker(CLI::App& app, Selection& selection);

/// Parses, runs, reports errors. Never throws; returns the exit status.
int run_cli(int argc, char** argv);

}  // namespace tilewise::cli
