// Measures every number of rows of a range after prepare_range(): its time over that of the next
// tuned number, and the host time of its first call.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/compare/kinds.hpp"
#include "device/machines.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.hpp"
#include "vocabulary/record.hpp"

using namespace tilewise;

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string device = "0", database, layout = "nt", type = "bf16";
  std::int64_t last = 2048, n = 4096, k = 4096, step = 1;
  int launches = 8, samples = 5;
  bool json = false;
};

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

MatmulOptions options_of(const Options& options) {
  MatmulOptions made;
  made.device = options.device;
  made.database = options.database;
  return made;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

/// Operands of the largest product; smaller products use the same memory. The values are random
/// bits without NaN.
class Operands {
 public:
  Operands(Device& device, const Problem& largest) {
    for (DeviceBuffer* buffer : {&a_, &b_, &c_}) {
      const std::int64_t elements = buffer == &a_   ? largest.m * largest.k
                                    : buffer == &b_ ? largest.n * largest.k
                                                    : largest.m * largest.n;
      *buffer = DeviceBuffer(device,
                             elements * bytes_of(buffer == &c_ ? largest.c.type : largest.a.type));
    }
    std::vector<std::uint32_t> words(
        static_cast<std::size_t>(std::max(a_.bytes(), b_.bytes()) / 4));
    std::uint64_t state = 1;
    for (std::uint32_t& word : words) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      word = static_cast<std::uint32_t>(state >> 32) & 0xbf7fbf7fU;  // below 2 in 16 and in 32 bits
    }
    device.copy_to_device(a_.data(), words.data(), a_.bytes(), nullptr);
    device.copy_to_device(b_.data(), words.data(), b_.bytes(), nullptr);
    device.synchronize(nullptr);
  }
  Call call(const Problem& problem) const {
    Call call;
    call.a = a_.data(), call.b = b_.data(), call.c = c_.data();
    call.lda = min_lda(problem), call.ldb = min_ldb(problem), call.ldc = min_ldc(problem);
    return call;
  }

 private:
  DeviceBuffer a_, b_, c_;
};

struct Row {
  std::int64_t m = 0;
  bool tuned = false;
  double first_us = 0;  ///< host time of the first call
  double us = 0;        ///< GPU time, operands from memory
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        device_(open_device(options.device)),
        multiply_(options_of(options)),
        stream_(device_->create_stream()) {
    const auto kinds = bench::parse_kinds(options.type);
    if (kinds.size() != 1)
      throw Error(ErrorKind::invalid_argument, "--type takes one type, not " + options.type);
    kind_ = kinds.front();
    // Enough sets that no operand is found in the L2 again.
    const Problem largest = problem_of(options.last);
    const double bytes = operand_bytes(problem_of(1));
    const int sets = std::clamp(static_cast<int>(std::ceil(2.0 * (64 << 20) / bytes)) + 1, 2, 64);
    for (int i = 0; i < sets; ++i) sets_.emplace_back(*device_, largest);
  }
  ~Bench() { device_->destroy_stream(stream_); }

  const DeviceInfo& device() const { return device_->info(); }

  double prepare() {
    const auto begin = Clock::now();
    multiply_.prepare_range(problem_of(1), options_.last);
    return microseconds_since(begin) / 1e3;
  }

  Row run(std::int64_t m) {
    Row row;
    row.m = m;
    const Problem problem = problem_of(m);
    row.tuned = multiply_.explain(problem).kind == MatchKind::exact;
    Call call = sets_[0].call(problem);
    call.stream = stream_;
    const auto begin = Clock::now();
    multiply_(problem, call);
    row.first_us = microseconds_since(begin);
    const auto graph = device_->capture(stream_, [&] {
      for (int i = 0; i < options_.launches; ++i) {
        Call next = sets_[static_cast<std::size_t>(i) % sets_.size()].call(problem);
        next.stream = stream_;
        multiply_(problem, next);
      }
    });
    const auto from = device_->create_event(), to = device_->create_event();
    std::vector<double> samples;
    for (int i = 0; i <= options_.samples; ++i) {  // the first is a warm-up
      from->record(stream_);
      graph->launch(stream_);
      to->record(stream_);
      to->wait();
      if (i > 0) samples.push_back(to->microseconds_since(*from) / options_.launches);
    }
    row.us = median(samples);
    return row;
  }

 private:
  Problem problem_of(std::int64_t m) const {
    return typed_problem(parse_layout(options_.layout), m, options_.n, options_.k, kind_->a,
                         kind_->c, kind_->math);
  }

  const Options& options_;
  const ProductKind* kind_ = nullptr;
  std::unique_ptr<Device> device_;
  Matmul multiply_;
  Stream stream_;
  std::vector<Operands> sets_;
};

/// The time of each number of rows over that of the next tuned number (itself if it was tuned).
Json summary(const std::vector<Row>& rows) {
  std::vector<std::pair<double, std::int64_t>> ratios;
  std::vector<double> first;
  const Row* next = nullptr;
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    if (row->tuned) next = &*row;
    if (next && !row->tuned) ratios.emplace_back(row->us / next->us, row->m);
    first.push_back(row->first_us);
  }
  Json json;
  if (!ratios.empty()) {
    std::sort(ratios.rbegin(), ratios.rend());
    double logs = 0;
    for (const auto& [ratio, m] : ratios) logs += std::log(ratio);
    json["over_next_tuned"] = {
        {"geometric_mean", std::exp(logs / static_cast<double>(ratios.size()))},
        {"most", ratios.front().first}};
    json["above_1.25"] =
        std::count_if(ratios.begin(), ratios.end(), [](const auto& x) { return x.first > 1.25; });
    for (std::size_t i = 0; i < std::min<std::size_t>(5, ratios.size()); ++i)
      json["worst"].push_back({{"m", ratios[i].second}, {"ratio", ratios[i].first}});
  }
  json["first_call_us"] = {{"median", median(first)},
                           {"most", *std::max_element(first.begin(), first.end())}};
  return json;
}

int run(const Options& options) {
  Bench bench(options);
  Json document = {{"device", Json::parse(to_json(bench.device()))},
                   {"layout", options.layout},
                   {"type", options.type},
                   {"n", options.n},
                   {"k", options.k},
                   {"prepare_ms", bench.prepare()}};
  std::vector<Row> rows;
  for (std::int64_t m = 1; m <= options.last; m += options.step) rows.push_back(bench.run(m));
  document["summary"] = summary(rows);
  document["columns"] = {"m", "tuned", "us", "first_call_us"};
  for (const Row& row : rows) document["rows"].push_back({row.m, row.tuned, row.us, row.first_us});
  if (options.json)
    std::cout << document.dump() << '\n';
  else
    std::cout << "prepare_range: " << document["prepare_ms"] << " ms\n"
              << document["summary"].dump(1) << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Every number of rows of a range, served after prepare_range().");
  app.add_option("--device", options.device, "index or UUID of a GPU; or host")
      ->capture_default_str();
  app.add_option("--db", options.database, "database of winners (default: as autotune)");
  app.add_option("--type", options.type, "kind of products, as in compare")->capture_default_str();
  app.add_option("--layout", options.layout, "nn, nt, tn, tt")->capture_default_str();
  const auto positive = CLI::Range(std::int64_t{1}, std::int64_t{65536});
  app.add_option("--last", options.last, "the largest number of rows")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--step", options.step, "from one number of rows to the next")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--n", options.n)->check(positive)->capture_default_str();
  app.add_option("--k", options.k)->check(positive)->capture_default_str();
  app.add_flag("--json", options.json, "print JSON with every row");
  app.footer(
      "Example, with m = 2^i and 3 2^i tuned before:\n"
      "  autotune tune --sizes 1x4096x4096,2x4096x4096,3x4096x4096,4x4096x4096 --layout nt --dtype "
      "bf16 --db rows.db\n"
      "  rows --db rows.db --last 4");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::cerr << "rows: " << error.what() << '\n';
    return 1;
  }
}
