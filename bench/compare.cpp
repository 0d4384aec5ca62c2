// The tuned product beside cuBLAS over a file of shapes: in one process, in turns, on the same
// buffers, by the rules of docs/measuring.md.
#include "bench/compare/contest.hpp"

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>

#include "bench/compare/report.hpp"
#include "bench/compare/shapes.hpp"
#include "device/machines.hpp"
#include "tilewise/error.hpp"

using namespace tilewise;

namespace {

struct Options {
  bench::ContestOptions contest;
  std::string shapes = "bench/shapes/public.csv", only, json;
  double peak_tflops = 0, copy_tbps = 0;
  bool warm = false;
};

void declare(CLI::App& app, Options& options) {
  app.add_option("--device", options.contest.device, "index or UUID of a GPU; or host")
      ->capture_default_str();
  app.add_option("--db", options.contest.database, "database of winners (default: as autotune)");
  app.add_option("--nvrtc", options.contest.nvrtc, "NVRTC library or folder (default: searched)");
  app.add_option("--shapes", options.shapes, "CSV of layout,m,n,k")->capture_default_str();
  app.add_option("--only", options.only, "shapes to take: nt, 4096, 8x4096x4096, nt:8x4096x4096");
  app.add_flag("--warm", options.warm, "leave operands in the L2 (else they come from memory)");
  app.add_option("--rounds", options.contest.rounds, "of the race, about 10 ms a column each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--lt-candidates", options.contest.lt_candidates, "asked of cublasLt and timed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--peak", options.peak_tflops, "TFLOP/s of the floor (default: H200 64.6)")
      ->check(CLI::PositiveNumber);
  app.add_option("--copy-rate", options.copy_tbps, "TB/s of the floor (default: H200 4.29)")
      ->check(CLI::PositiveNumber);
  app.add_option("--json", options.json, "also write the result to this file");
  app.footer(
      "Exit status 1 when a shape could not be measured, 130 after Ctrl-C; the others are shown "
      "and written all the same.\n\n"
      "Examples:\n"
      "  compare --db winners.db --json bench/results/h200_compare.json\n"
      "  compare --db winners.db --only nn:4096,nt --rounds 31");
}

// What was measured is printed and written all the same.
volatile std::sig_atomic_t interrupted = 0;
constexpr int kInterrupted = 130;

void catch_interrupts() {
  std::signal(SIGINT, [](int) {
    interrupted = 1;
    std::signal(SIGINT, SIG_DFL);  // the second one ends the program
  });
}

/// A command's first line; empty when it fails.
std::string first_line_of(const char* command) {
  FILE* pipe = popen(command, "r");
  if (!pipe) return "";
  char line[256] = "";
  const bool read = std::fgets(line, sizeof line, pipe) != nullptr;
  pclose(pipe);
  std::string text = read ? line : "";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

/// Of the tree this is run in.
std::string commit() {
  const std::string hash = first_line_of("git rev-parse --short HEAD 2>/dev/null");
  if (hash.empty()) return "unknown";
  const bool changed = !first_line_of("git status --porcelain -uno 2>/dev/null").empty();
  return hash + (changed ? "+changes" : "");
}

std::string today() {
  char text[16];
  const std::time_t now = std::time(nullptr);
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

std::string compiler_version(const Target& target, const std::string& nvrtc) {
  try {
    return load_compiler(target, nvrtc)->version();
  } catch (const Error&) {
    return "no run-time compiler";
  }
}

bench::Envelope envelope(const bench::Contest& contest, const Options& options,
                         const std::string& command) {
  const Device& device = contest.device();
  const std::string cublas = contest.cublas_version();
  bench::Envelope facts;
  facts.command = command;
  facts.commit = commit();
  facts.date = today();
  facts.gpu = device.info().name;
  facts.driver = device.driver_version();
  facts.toolkit = compiler_version(device.info().target, options.contest.nvrtc) +
                  (cublas.empty() ? ", no cuBLAS" : ", cuBLAS " + cublas);
  facts.max_sm_clock_mhz = device.info().clock_khz / 1000.0;
  facts.power_limit_w = device.status().power_limit_w;
  return facts;
}

bench::Report compare(const Options& options, const std::string& command) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Problem> problems =
      bench::only(bench::read_shapes_file(options.shapes), options.only);
  bench::Contest contest(options.contest);
  bench::Report result;
  result.envelope = envelope(contest, options, command);
  result.device = contest.device().info();
  result.rates =
      bench::rates_for(result.device, options.peak_tflops * 1e12, options.copy_tbps * 1e12);
  result.cold = contest.timing().cold;
  result.rounds = contest.timing().race_rounds;
  for (const Problem& problem : problems) {
    if (interrupted) break;
    result.rows.push_back(contest.run(problem));
    std::cerr << bench::progress_text(result.rows.back(), result.rows.size(), problems.size())
              << '\n';
  }
  result.notes = contest.notes();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << '\n';
  file.close();
  if (!file) throw Error(ErrorKind::io, "cannot write " + path);
}

/// Before minutes are spent on what could not be kept.
void require_writable(const std::string& path) {
  if (!std::ofstream(path, std::ios::app)) throw Error(ErrorKind::io, "cannot write " + path);
}

int run(const Options& options, const std::string& command) {
  if (!options.json.empty()) require_writable(options.json);
  catch_interrupts();
  const bench::Report result = compare(options, command);
  std::cout << bench::table_text(result);
  for (const std::string& note : result.notes) std::cerr << "note: " << note << '\n';
  if (!options.json.empty()) write(options.json, bench::json_text(result));
  if (interrupted) return kInterrupted;
  return bench::summarize(result.rows, result.rates).failed > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Tuned products beside cuBLAS: times, ratios, and the physical floor.");
  declare(app, options);
  CLI11_PARSE(app, argc, argv);
  options.contest.cold = !options.warm;
  std::string command = "bench/compare";
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  try {
    return run(options, command);
  } catch (const std::exception& error) {
    std::cerr << "compare: " << error.what() << '\n';
    return 1;
  }
}
