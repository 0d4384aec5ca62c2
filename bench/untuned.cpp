// The loss of sizes that were not tuned. Each problem, random or of a list, is served from a
// database, or from a portfolio alone, as if it were new. The winner of its own search and cuBLAS
// run in the same race.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "bench/compare/kinds.hpp"
#include "bench/compare/shapes.hpp"
#include "device/machines.hpp"
#include "matmul/build.hpp"
#include "matmul/portfolio.hpp"
#include "matmul/resolve.hpp"
#include "matmul/stored_corrections.hpp"
#include "tilewise/error.hpp"
#include "tuner/tuner.hpp"
#include "tuner/worker/worker.hpp"
#include "vocabulary/problem.hpp"

using namespace tilewise;

namespace {

using Json = nlohmann::ordered_json;

std::atomic<bool> interrupted{false};

struct Options {
  std::string device = "0", database, kinds = "f32,bf16", autotune, tuned;
  std::string list, portfolio_file;
  int count = 30;
  std::uint64_t seed = 1;
  double budget = 15, largest_m = 8192, largest_n = 8192, largest_k = 65536;
  bool portfolio = false, without_best = false, without_tuning = false, json = false;
};

bool serves_portfolio(const Options& options) {
  return options.portfolio || !options.portfolio_file.empty();
}

/// The times of one problem in us, from one race; 0: missing.
struct Row {
  Problem problem;
  std::string match, why_not;
  bool shipped = false;  ///< whether the portfolio has a record of this very problem
  double served = 0, tuned = 0, oracle = 0, cublas = 0;
  Candidate served_by, tuned_by, oracle_by;
  /// Candidates of the table: expected times, and times measured outside the race (0: not valid).
  std::vector<Resolver::Expected> table;
  std::vector<double> measured;
};

/// Draws problems with log-uniform sizes and any layout; in half of them rows are multiples of 16
/// elements. At most 1e12 floating-point operations and 1 GiB of operands.
class Draw {
 public:
  explicit Draw(const Options& options) : options_(options), generator_(options.seed) {}
  Problem operator()(const ProductKind& kind) {
    for (;;) {
      Problem problem;
      set_types(problem, kind);
      set_layout(problem,
                 static_cast<Layout>(std::uniform_int_distribution<int>(0, 3)(generator_)));
      const bool aligned = std::bernoulli_distribution(0.5)(generator_);
      problem.m = size(options_.largest_m, aligned);
      problem.n = size(options_.largest_n, aligned);
      problem.k = size(options_.largest_k, aligned);
      set_alignment(problem, natural_alignment(problem));
      if (flops_of(problem) <= 1e12 && operand_bytes(problem) <= 1 << 30) return problem;
    }
  }

 private:
  std::int64_t size(double largest, bool aligned) {
    const double log = std::uniform_real_distribution<>(0, std::log2(largest))(generator_);
    const auto any = static_cast<std::int64_t>(std::exp2(log));
    return aligned ? (any + 15) / 16 * 16 : any;
  }
  const Options& options_;
  std::mt19937_64 generator_;
};

/// A portfolio that serves: the one that ships, or that of a file.
class Shipped {
 public:
  Shipped(const std::string& file, const DeviceInfo& device) : device_(device) {
    if (file.empty()) {
      records_ = portfolio_for(device);
      return;
    }
    std::ifstream stream(file);
    std::ostringstream text;
    text << stream.rdbuf();
    if (!stream) throw Error(ErrorKind::io, "cannot read the portfolio " + file);
    of_file_ = read_portfolio(text.str());
    records_ = of_file_->records;
    if (records_.empty() || records_.front().gpu != gpu_key(device))
      throw Error(ErrorKind::invalid_argument, file + " is no portfolio of " + gpu_key(device));
    std::vector<const Record*> own;
    for (const Record& record : of_file_->records) own.push_back(&record);
    for (Record& record : records_of_other_kinds(own)) records_.push_back(std::move(record));
  }

  const std::vector<Record>& records() const { return records_; }
  bool has(const Problem& problem) const {
    return std::any_of(records_.begin(), records_.end(),
                       [&](const Record& record) { return record.problem == problem; });
  }
  std::optional<Corrections> corrections(const Problem& kind) const {
    if (!of_file_) return portfolio_corrections(kind, device_);
    const auto found = of_file_->corrections.find(kind_text(kind));
    if (found == of_file_->corrections.end()) return std::nullopt;
    return Corrections::from_bytes(found->second, kind, device_);
  }

 private:
  const DeviceInfo& device_;
  std::optional<Portfolio> of_file_;
  std::vector<Record> records_;
};

// As of compare: beyond these limits a reference has samples and sums over every row.
constexpr ReferenceLimits kReferenceLimits{2.0 * 1024 * 1024 * 1024, 2048.0 * 2048};

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        device_(open_device(options.device)->info()),
        compiler_(load_compiler(device_.target, "")),
        shipped_(options.portfolio_file, device_),
        portfolio_({}, device_, "", shipped_.records(),
                   [this](const Problem& kind) {
                     return database_ ? own_or_shipped_corrections(*database_, kind, device_)
                                      : shipped_.corrections(kind);
                   }),
        own_(options.tuned.empty() ? Database::in_memory() : Database::open(options.tuned)) {
    if (!serves_portfolio(options))
      database_.emplace(
          Database::open(default_database_path(options.database), OpenMode::read_only));
    WorkerOptions worker;
    worker.program = options.autotune;
    worker.device = options.device;
    evaluator_ = make_worker_evaluator(worker);
  }

  const DeviceInfo& device() const { return device_; }
  std::string driver() { return evaluator_->driver_version(); }

  Row run(const Problem& problem) {
    Row row;
    row.problem = problem;
    // Resolves as if this very problem had not been measured.
    const std::string gpu = gpu_key(device_);
    std::vector<Winner> winners;
    std::vector<Record> general;
    if (database_) {
      winners = database_->winners(gpu);
      general = database_->general(gpu);
      std::erase_if(winners, [&](const Winner& w) { return w.record.problem == problem; });
      std::erase_if(general, [&](const Record& r) { return r.problem == problem; });
    }
    const Resolver stored(std::move(winners), device_, "", std::move(general),
                          [this](const Problem& kind) -> std::optional<Corrections> {
                            if (!database_) return std::nullopt;
                            return load_corrections(*database_, kind, device_);
                          });
    const Resolution served = resolve_with_portfolio(
        stored, [this] { return &portfolio_; }, problem);
    row.match = to_string(served.kind);
    row.served_by = served.candidate;
    row.shipped = shipped_.has(problem);
    for (const Resolver* one : {&stored, static_cast<const Resolver*>(&portfolio_)})
      if (row.table.empty()) row.table = one->expected(problem, Resolver::kCompared);
    try {
      if (options_.without_tuning)
        measure_as_served(row);
      else
        measure(row);
    } catch (const Error& error) {
      row.why_not = error.what();
    }
    return row;
  }

 private:
  /// Races what serves with cuBLAS.
  void measure_as_served(Row& row) {
    evaluator_->begin(row.problem, std::make_shared<const Reference>(
                                       Reference::compute(row.problem, 1, 0, kReferenceLimits)));
    row.tuned_by = row.oracle_by = row.served_by;
    race(row);
    row.tuned = row.oracle = 0;
  }

  /// Searches from nothing, measures the table's candidates, then races the best of each.
  void measure(Row& row) {
    std::optional<Winner> own = own_.winner(row.problem, gpu_key(device_));
    if (!own) {
      TuneContext context{own_, nullptr, compiler_.get(), *evaluator_, {}, &interrupted};
      TuneOptions search;
      search.budget_seconds = options_.budget;
      own = tune(row.problem, search, context).winner;
    }
    if (!own) throw Error(ErrorKind::device, "the search found no valid candidate");
    row.tuned_by = own->record.candidate;
    row.oracle_by = row.served_by;
    Database compared = Database::in_memory();
    TuneContext context{compared, nullptr, compiler_.get(), *evaluator_, {}, &interrupted};
    TuneOptions all;
    if (!options_.without_best)
      for (const Resolver::Expected& one : row.table) all.only.push_back(one.candidate);
    all.only.push_back(row.served_by);
    all.budget_seconds = 120;
    if (const std::optional<Winner> best = tune(row.problem, all, context).winner)
      row.oracle_by = best->record.candidate;
    row.measured.resize(row.table.size());
    for (const Record& record : compared.records({}))
      for (std::size_t i = 0; i < row.table.size(); ++i)
        if (record.candidate == row.table[i].candidate && record.measurement)
          row.measured[i] = record.measurement->median_us;
    race(row);
  }

  void race(Row& row) {
    const ImageStore images(nullptr, nullptr, compiler_.get());
    std::vector<Candidate> runners;
    std::vector<EvaluationRequest> requests;
    for (const Candidate* candidate : {&row.served_by, &row.tuned_by, &row.oracle_by}) {
      if (std::find(runners.begin(), runners.end(), *candidate) != runners.end()) continue;
      Built built = build(*candidate, find_template(candidate->kernel_template), row.problem,
                          device_, images);
      if (built.fault || !built.refusal.empty())
        throw Error(ErrorKind::compiler, to_string(*candidate) + " does not compile");
      runners.push_back(*candidate);
      requests.push_back({std::move(built.plan), std::move(built.images)});
    }
    const RaceResult result = evaluator_->race(requests, true);
    const auto time_of = [&](const Candidate& candidate) {
      const auto place = std::find(runners.begin(), runners.end(), candidate) - runners.begin();
      const Evaluation& evaluation = result.finalists.at(static_cast<std::size_t>(place));
      if (evaluation.outcome != Outcome::ok)
        throw Error(ErrorKind::device, to_string(candidate) + ": " + evaluation.detail);
      return evaluation.measurement->median_us;
    };
    row.served = time_of(row.served_by);
    row.oracle = time_of(row.oracle_by);
    row.tuned = time_of(row.tuned_by);
    row.cublas = fastest_us(result.baselines);
  }

  const Options& options_;
  DeviceInfo device_;
  std::unique_ptr<Compiler> compiler_;
  Shipped shipped_;
  Resolver portfolio_;
  std::optional<Database> database_;
  Database own_;
  std::unique_ptr<Evaluator> evaluator_;
};

/// Ratios above 1 mean that the second time is shorter.
struct Summary {
  std::size_t count = 0;
  double mean = 0, least = 0;
};
template <class Ratio>
Summary summarize(const std::vector<Row>& rows, Ratio ratio) {
  Summary summary;
  double sum = 0;
  for (const Row& row : rows) {
    const double value = ratio(row);
    if (!(value > 0)) continue;
    sum += std::log(value);
    summary.least = summary.count == 0 ? value : std::min(summary.least, value);
    ++summary.count;
  }
  if (summary.count > 0) summary.mean = std::exp(sum / static_cast<double>(summary.count));
  return summary;
}
double of_tuned(const Row& row) { return row.served > 0 ? row.tuned / row.served : 0; }
double oracle_of_tuned(const Row& row) { return row.oracle > 0 ? row.tuned / row.oracle : 0; }
double of_cublas(const Row& row) {
  return row.served > 0 && row.cublas > 0 ? row.cublas / row.served : 0;
}

Json json_of(const Summary& summary) {
  return {{"problems", summary.count}, {"geometric_mean", summary.mean}, {"least", summary.least}};
}

Json or_null(double value) { return value > 0 ? Json(value) : Json(); }

Json json_of(const Row& row) {
  Json json = {{"problem", Json::parse(to_json(row.problem))},
               {"match", row.match},
               {"in_portfolio", row.shipped}};
  if (!row.why_not.empty()) {
    json["error"] = row.why_not;
    return json;
  }
  json["served_us"] = row.served;
  json["tuned_us"] = or_null(row.tuned);
  json["oracle_us"] = or_null(row.oracle);
  json["cublas_us"] = or_null(row.cublas);
  json["served_of_tuned"] = or_null(of_tuned(row));
  json["served_of_cublas"] = or_null(of_cublas(row));
  json["served"] = Json::parse(to_json(row.served_by));
  if (row.tuned == 0) return json;
  json["tuned"] = Json::parse(to_json(row.tuned_by));
  json["oracle"] = Json::parse(to_json(row.oracle_by));
  json["table"] = Json::array();
  for (std::size_t i = 0; i < row.table.size(); ++i)
    json["table"].push_back({{"candidate", Json::parse(to_json(row.table[i].candidate))},
                             {"expected_us", row.table[i].us},
                             {"measured_us", row.measured[i]}});
  return json;
}

void print_line(std::ostream& out, const Row& row) {
  char line[400];
  if (row.why_not.empty() && row.tuned > 0)
    std::snprintf(line, sizeof line, "%-40s %-9s served/tuned %.2f  oracle %.2f  cuBLAS %.2f",
                  table_text(row.problem).c_str(), row.match.c_str(), of_tuned(row),
                  oracle_of_tuned(row), of_cublas(row));
  else if (row.why_not.empty())
    std::snprintf(line, sizeof line, "%-40s %-9s %.2f us  cuBLAS %.2f  %s",
                  table_text(row.problem).c_str(), row.match.c_str(), row.served, of_cublas(row),
                  row.served_by.kernel_template.c_str());
  else
    std::snprintf(line, sizeof line, "%-40s %s", table_text(row.problem).c_str(),
                  row.why_not.c_str());
  out << line << std::endl;
}

void print_summary(std::ostream& out, const std::string& kind, const std::vector<Row>& rows) {
  const auto print = [&](const char* what, const Summary& summary) {
    if (summary.count == 0) return;
    char line[200];
    std::snprintf(line, sizeof line, "%-6s %-34s %3zu problems  geometric mean %.3f  least %.3f",
                  kind.c_str(), what, summary.count, summary.mean, summary.least);
    out << line << '\n';
  };
  print("speed served, of its own tuning:", summarize(rows, of_tuned));
  print("best of the table, of its own:", summarize(rows, oracle_of_tuned));
  print("speed served, of cuBLAS:", summarize(rows, of_cublas));
  const bool tuned =
      std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.tuned > 0; });
  const auto of = tuned ? of_tuned : of_cublas;
  std::vector<Row> worst = rows;
  std::erase_if(worst, [&](const Row& row) { return !(of(row) > 0); });
  std::sort(worst.begin(), worst.end(), [&](const Row& x, const Row& y) { return of(x) < of(y); });
  for (std::size_t i = 0; i < std::min<std::size_t>(3, worst.size()); ++i)
    print_line(out, worst[i]);
}

/// The problems of each kind: of the list, or random ones.
std::vector<std::pair<const ProductKind*, std::vector<Problem>>> problems_of(
    const Options& options) {
  std::vector<std::pair<const ProductKind*, std::vector<Problem>>> of_kinds;
  if (options.list.empty()) {
    Draw draw(options);
    for (const ProductKind* kind : bench::parse_kinds(options.kinds)) {
      auto& [_, problems] = of_kinds.emplace_back(kind, std::vector<Problem>());
      for (int i = 0; i < options.count; ++i) problems.push_back(draw(*kind));
    }
    return of_kinds;
  }
  for (const Problem& problem : bench::read_products_file(options.list)) {
    const ProductKind* kind = product_kind(problem);
    auto place = std::find_if(of_kinds.begin(), of_kinds.end(),
                              [&](const auto& one) { return one.first == kind; });
    if (place == of_kinds.end())
      place = of_kinds.emplace(of_kinds.end(), kind, std::vector<Problem>());
    place->second.push_back(problem);
  }
  return of_kinds;
}

int run(const Options& options) {
  if (std::signal(SIGINT, SIG_IGN) != SIG_IGN)  // else it stays ignored
    std::signal(SIGINT, [](int) { interrupted = true; });
  const auto of_kinds = problems_of(options);
  Bench bench(options);
  Json document = {{"device", Json::parse(to_json(bench.device()))},
                   {"driver", bench.driver()},
                   {"from", serves_portfolio(options) ? "portfolio" : "database"},
                   {"kinds", Json::array()}};
  if (options.list.empty()) document["seed"] = options.seed;
  if (!options.without_tuning) document["budget_seconds"] = options.budget;
  std::ostream& text = options.json ? std::cerr : std::cout;
  bool failed = false;
  for (const auto& [kind, all] : of_kinds) {
    std::vector<Row> rows;
    Json problems = Json::array();
    for (const Problem& problem : all) {
      if (interrupted) break;
      Row row = bench.run(problem);
      if (interrupted) break;  // the search was interrupted
      rows.push_back(std::move(row));
      failed |= !rows.back().why_not.empty();
      problems.push_back(json_of(rows.back()));
      print_line(std::cerr, rows.back());
    }
    print_summary(text, kind_name(*kind), rows);
    document["kinds"].push_back({{"kind", kind_name(*kind)},
                                 {"asked", all.size()},
                                 {"served_of_tuned", json_of(summarize(rows, of_tuned))},
                                 {"oracle_of_tuned", json_of(summarize(rows, oracle_of_tuned))},
                                 {"served_of_cublas", json_of(summarize(rows, of_cublas))},
                                 {"problems", problems}});
  }
  if (options.json) std::cout << document.dump(1) << '\n';
  return interrupted ? 130 : failed ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.autotune =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../cli/autotune").string();
  CLI::App app("Random problems that nobody tuned: as they are served, and tuned by themselves.");
  app.add_option("--device", options.device, "index or UUID of a GPU; or host")
      ->capture_default_str();
  CLI::Option* database =
      app.add_option("--db", options.database, "what serves (default: as autotune)");
  CLI::Option* portfolio = app.add_flag("--portfolio", options.portfolio,
                                        "served by what ships alone: an empty database")
                               ->excludes(database);
  app.add_option("--portfolio-file", options.portfolio_file,
                 "the same, of a file as those of portfolios/ instead of the one that ships")
      ->excludes(database)
      ->excludes(portfolio);
  CLI::Option* list = app.add_option(
      "--problems", options.list,
      "instead of random ones: CSV with a heading of layout, m, n, k, dtype and math, as of "
      "`autotune cover --problems` with numbers only");
  app.add_flag("--without-tuning", options.without_tuning,
               "only what serves, beside cuBLAS: no search of each problem's own");
  app.add_flag("--without-best", options.without_best,
               "Do not measure all that the table allows, which takes longest");
  app.add_option("--types", options.kinds, "kinds of products, as in compare")
      ->capture_default_str()
      ->excludes(list);
  app.add_option("--count", options.count, "problems of each kind")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str()
      ->excludes(list);
  app.add_option("--seed", options.seed, "of the problems")->capture_default_str()->excludes(list);
  app.add_option("--budget", options.budget, "seconds of each problem's own search")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--tuned", options.tuned,
                 "database of the problems' own searches: those in it are not repeated, new ones "
                 "are added");
  app.add_option("--largest-m", options.largest_m, "sizes are log-uniform from 1 to this")
      ->check(CLI::Range(1.0, 1e9))
      ->capture_default_str();
  app.add_option("--largest-n", options.largest_n)
      ->check(CLI::Range(1.0, 1e9))
      ->capture_default_str();
  app.add_option("--largest-k", options.largest_k)
      ->check(CLI::Range(1.0, 1e9))
      ->capture_default_str();
  app.add_option("--autotune", options.autotune, "the program that measures in a worker process")
      ->capture_default_str();
  app.add_flag("--json", options.json, "print JSON, and the table to standard error");
  app.footer(
      "Example:\n"
      "  autotune cover --dtype bf16 --db cover.db\n"
      "  bench/record.py h200_untuned_bf16 -- build/bench/untuned --db cover.db --types bf16 "
      "--json\n"
      "  bench/record.py h200_untuned_list -- build/bench/untuned --portfolio --problems "
      "bench/shapes/untuned.csv --without-tuning --json");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::cerr << "untuned: " << error.what() << '\n';
    return 1;
  }
}
