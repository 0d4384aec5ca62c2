// Compares the tuned product with cuBLAS over a file of shapes and some kinds of products. All run
// alternately in one process on the same buffers, by the rules of docs/measuring.md.
#include "bench/compare/contest.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <iostream>

#include "bench/compare/kinds.hpp"
#include "bench/compare/report.hpp"
#include "bench/compare/shapes.hpp"
#include "device/machines.hpp"
#include "tilewise/error.hpp"

using namespace tilewise;

namespace {

struct Options {
  bench::ContestOptions contest;
  std::string kinds = "f32", shapes = "bench/shapes/public.csv", list, only;
  std::vector<std::string> epilogues;
  double peak_tflops = 0, copy_tbps = 0;
  bool warm = false, json = false;
};

void declare(CLI::App& app, Options& options) {
  app.add_option("--device", options.contest.device, "index or UUID of a GPU; or host")
      ->capture_default_str();
  app.add_option("--db", options.contest.database, "database of winners (default: as autotune)");
  app.add_option("--nvrtc", options.contest.nvrtc, "NVRTC library or folder (default: searched)");
  app.add_option("--types", options.kinds,
                 "kinds of products, in this order: f32, tf32, f32x3, f64, f16, bf16, i8, e4m3, "
                 "e5m2; bf16:f32 has its result in f32; all: each of them")
      ->capture_default_str();
  CLI::Option* shapes =
      app.add_option("--shapes", options.shapes, "CSV of layout,m,n,k or layout,m,n,k,batch")
          ->capture_default_str();
  app.add_option("--list", options.list, "shapes instead of a file: 4096,nt:8x4096x4096,nn:32*64")
      ->excludes(shapes);
  app.add_option("--only", options.only,
                 "shapes of the file to take: nt, 4096, 8x4096x4096, nt:8x4096x4096, 32*64");
  app.add_option("--epilogue", options.epilogues,
                 "of each shape, beside the product without it; several: one row each")
      ->type_name("TEXT");
  app.add_flag("--warm", options.warm, "leave operands in the L2 (else they come from memory)");
  app.add_option("--rounds", options.contest.rounds, "of the race, about 10 ms a column each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--lt-candidates", options.contest.lt_candidates, "asked of cublasLt and timed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--peak", options.peak_tflops,
                 "TFLOP/s of the floor, of every kind (default: the H200's)")
      ->check(CLI::PositiveNumber);
  app.add_option("--copy-rate", options.copy_tbps, "TB/s of the floor (default: H200 4.29)")
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", options.json, "print JSON, and the tables to standard error");
  app.footer(
      "Exit status 1 when a shape could not be measured, 130 after Ctrl-C; the others are printed "
      "all the same. bench/record.py keeps the result with what it must carry.\n\n"
      "Examples:\n"
      "  compare --db winners.db --only nn:4096,nt --rounds 31\n"
      "  compare --db winners.db --types all --list 1024,nt:8x4096x4096\n"
      "  compare --db winners.db --types bf16 --list nt:4096 --epilogue 'acc + bias[j]'\n"
      "  bench/record.py h200_bf16 -- build/bench/compare --db winners.db --types bf16 --json");
}

// Set by Ctrl-C. The rows measured so far are still printed.
volatile std::sig_atomic_t interrupted = 0;
constexpr int kInterrupted = 130;

void catch_interrupts() {
  if (std::signal(SIGINT, SIG_IGN) == SIG_IGN) return;  // it stays ignored
  std::signal(SIGINT, [](int) {
    interrupted = 1;
    std::signal(SIGINT, SIG_DFL);  // a second Ctrl-C ends the program
  });
}

std::string compiler_version(const Target& target, const std::string& nvrtc) {
  try {
    return load_compiler(target, nvrtc)->version();
  } catch (const Error&) {
    return "no run-time compiler";
  }
}

std::string toolkit(const bench::Contest& contest, const std::string& nvrtc) {
  const std::string cublas = contest.cublas_version();
  return compiler_version(contest.device().info().target, nvrtc) +
         (cublas.empty() ? ", no cuBLAS" : ", cuBLAS " + cublas);
}

std::vector<Problem> shapes_of(const Options& options) {
  return bench::only(options.list.empty() ? bench::read_shapes_file(options.shapes)
                                          : bench::parse_shapes(options.list),
                     options.only);
}

bench::Section measure(bench::Contest& contest, const ProductKind& kind,
                       const std::vector<Problem>& shapes, const Options& options) {
  bench::Section section;
  section.kind = &kind;
  section.rates = bench::rates_for(contest.device().info(), kind, options.peak_tflops * 1e12,
                                   options.copy_tbps * 1e12);
  for (const Problem& problem :
       bench::with_epilogues(bench::of_kind(shapes, kind), options.epilogues)) {
    if (interrupted) break;
    section.rows.push_back(contest.run(problem));
    std::cerr << bench::progress_text(
                     section.rows.back(), section.rows.size(),
                     shapes.size() * std::max<std::size_t>(1, options.epilogues.size()))
              << '\n';
  }
  return section;
}

bench::Report compare(const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<const ProductKind*> kinds = bench::parse_kinds(options.kinds);
  const std::vector<Problem> shapes = shapes_of(options);
  bench::Contest contest(options.contest);
  bench::Report result;
  result.device = contest.device().info();
  result.driver = contest.device().driver_version();
  result.toolkit = toolkit(contest, options.contest.nvrtc);
  result.cold = contest.timing().cold;
  result.rounds = contest.timing().race_rounds;
  for (const ProductKind* kind : kinds) {
    if (interrupted) break;
    result.sections.push_back(measure(contest, *kind, shapes, options));
  }
  result.notes = contest.notes();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

bool any_failed(const bench::Report& report) {
  return std::any_of(report.sections.begin(), report.sections.end(), [](const auto& section) {
    return bench::summarize(section.rows, section.rates).failed > 0;
  });
}

int run(const Options& options) {
  catch_interrupts();
  const bench::Report result = compare(options);
  (options.json ? std::cerr : std::cout) << bench::table_text(result);
  if (options.json) std::cout << bench::json_text(result) << '\n';
  for (const std::string& note : result.notes) std::cerr << "note: " << note << '\n';
  if (interrupted) return kInterrupted;
  return any_failed(result) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Tuned products beside cuBLAS: times, ratios, and the physical floor.");
  declare(app, options);
  CLI11_PARSE(app, argc, argv);
  options.contest.cold = !options.warm;
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::cerr << "compare: " << error.what() << '\n';
    return 1;
  }
}
