#include <algorithm>
#include <filesystem>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/common/signals.hpp"
#include "cli/help.hpp"
#include "cli/suggest.hpp"
#include "db/lock_waits.hpp"
#include "device/cpu/cpu.hpp"
#include "tilewise/version.hpp"
#include "vocabulary/own_errors.hpp"

namespace tilewise::cli {
namespace {

constexpr void (*kCommands[])(CLI::App&, Selection&) = {
    add_tune,    add_cover,      add_query,  add_explain, add_report, add_source,
    add_devices, add_compile,    add_verify, add_ladder,  add_space,  add_templates,
    add_db,      add_export,     add_import, add_bundle,  add_images, add_replay,
    add_record,  add_completion, add_manual, add_launch,  add_worker,
};

constexpr const char* kDefaultCommand = "tune";

constexpr const char* kFooter =
    R"(Without a subcommand, tune is meant. `autotune SUBCOMMAND --help` shows its options and examples.

Examples:
  autotune --device 0 --sizes 1024,4096       tune two square products on the first GPU
  autotune --sizes 4096 --dtype bf16          the same in another type
  autotune cover --dtype bf16                 every size of a type served near its best, in 10 minutes
  autotune query                              what is stored, for every GPU
  autotune record -- ./app                    the products that a program makes by cuBLAS, as a list to tune
  autotune explain --sizes 1024x512x2048      why that configuration, and what limits it
  autotune report -o report.html              a page with figures of what is stored
  autotune devices                            the GPUs, their peak rate and bandwidth
  autotune compile --arch sm_90 --sizes 1024  compile without a GPU

Exit status:
  0 ok
  1 unexpected failure
  2 bad usage or input
  3 no driver, no such GPU, or no library that record can preload
  4 no run-time compiler
  5 the database cannot be opened, read or written
  6 no valid candidate; a stored winner moved, is wrong, unchecked or not stored
  7 out of memory
  130, 143, 129, 141 interrupted by Ctrl-C, SIGTERM, SIGHUP or a closed pipe
      (what was measured is kept)

Environment: TILEWISE_DB (database file), TILEWISE_NVRTC (NVRTC library or folder), TILEWISE_PLOTLY (plotly.js of report), CUDA_VISIBLE_DEVICES, NO_COLOR, COLUMNS, TERM.)";

std::string version_text() {
  return "autotune " + std::string(tilewise::version_text()) + " (" + TILEWISE_BUILD_TYPE + ")";
}

int report(const std::string& kind, const std::string& message, int status, bool json) {
  std::cout.flush();
  print_complaint("error:", message);
  if (json) print_document(Json{{"error", {{"kind", kind}, {"message", message}}}});
  return status;
}

/// Prints help or version. CLI11 throws for both, but they are no failures.
int print_requested(const CLI::App& app, const CLI::Success& request, bool json) {
  if (request.get_name() != "CallForVersion") {
    std::cout << wrapped_help(app.help(), help_width());
  } else if (json) {
    print_document(Json{{"build", TILEWISE_BUILD_TYPE}});
  } else {
    print_line(version_text());
  }
  return kOk;
}

void add_all(CLI::App& app, Selection& selection) {
  app.name("autotune");
  app.footer(kFooter);
  app.get_formatter()->column_width(34);
  app.get_formatter()->label("OPTIONS", "options");
  app.set_version_flag("--version", version_text(), "Print version and build type");
  for (const auto add : kCommands) add(app, selection);
  app.require_subcommand(1);
}

/// Replaces the words "help" and "version" by the options: "help db list" is "db list --help".
std::vector<std::string> with_options_for(std::vector<std::string> arguments) {
  if (arguments.front() == "version") arguments.front() = "--version";
  if (arguments.front() != "help") return arguments;
  arguments.erase(arguments.begin());
  arguments.insert(std::find_if(arguments.begin(), arguments.end(),
                                [](const std::string& word) { return word.starts_with("-"); }),
                   "--help");
  return arguments;
}

int parse_and_run(CLI::App& app, Selection& selection, std::vector<std::string> arguments) {
  const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  try {
    if (arguments.empty()) {
      std::cout << wrapped_help(app.help(), help_width());
      return kOk;
    }
    arguments = with_options_for(std::move(arguments));
    const std::string& first = arguments.front();
    if (first.rfind("-", 0) == 0 && first != "--help" && first != "-h" && first != "--version")
      arguments.insert(arguments.begin(), kDefaultCommand);
    refuse_unknown_command(app, arguments);
    std::reverse(arguments.begin(), arguments.end());  // CLI11's order
    app.parse(std::move(arguments));
    return with_own_errors([&] { return selection.run(); });
  } catch (const CLI::Success& request) {
    return print_requested(app, request, json);
  } catch (const CLI::ParseError& error) {
    return report("usage", error.what() + suggestion(app), kUsage, json);
  } catch (const Error& error) {
    return report(to_string(error.kind()), error.what(), exit_code(error.kind()), json);
  } catch (const std::bad_alloc&) {
    return report("out_of_memory", "out of host memory", kOutOfMemory, json);
  } catch (const std::exception& error) {
    return report("unexpected", error.what(), kFailure, json);
  }
}

}  // namespace

ExitCode exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
    case ErrorKind::not_found:
    case ErrorKind::unsupported:
    case ErrorKind::io:
      return kUsage;
    case ErrorKind::no_device:
      return kNoDevice;
    case ErrorKind::compiler:
      return kNoCompiler;
    case ErrorKind::database:
      return kDatabase;
    case ErrorKind::out_of_memory:
      return kOutOfMemory;
    case ErrorKind::device:
    case ErrorKind::transient:
      return kFailure;
  }
  return kFailure;
}

void add_output_options(CLI::App& app, Output& output) {
  app.add_flag("--json", output.json, "One JSON document on stdout");
  app.add_flag("-q,--quiet", output.quiet, "No progress, no notes");
  app.add_flag("-v,--verbose", output.verbose, "More detail");
}

std::string examples(std::initializer_list<const char*> lines) {
  std::string text = "Examples:";
  for (const char* line : lines) text += std::string("\n  ") + line;
  return text;
}

std::vector<std::string>& words_behind_dashes() {
  static std::vector<std::string> words;
  return words;
}

int run_cli(int argc, char** argv) {
  set_own_signals();
  on_lock_wait([](const std::filesystem::path& database) {
    warn("waiting for the database " + database.string() +
         ", which another process has locked; it waits " + std::to_string(kMostLockWaitSeconds) +
         " s at most, which no budget counts");
  });
  cpu::sweep_temporary_folders();
  CLI::App app("Tunes matrix products on the GPU that is there, and remembers what it found.");
  Selection selection;
  add_all(app, selection);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments.front() == "record") {
    const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
    if (dashes != arguments.end()) words_behind_dashes().assign(dashes + 1, arguments.end());
    arguments.erase(dashes, arguments.end());
  }
  const int status = parse_and_run(app, selection, std::move(arguments));
  std::cout.flush();
  if (interrupted() && (status == kInterrupted || !std::cout)) return interrupt_status();
  if (!std::cout) return report("io", "cannot write to standard output", kFailure, false);
  return status;
}

}  // namespace tilewise::cli

int main(int argc, char** argv) { return tilewise::cli::run_cli(argc, argv); }
