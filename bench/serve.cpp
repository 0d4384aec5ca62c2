// The host's cost of serving: served calls alternating with bare launches of the same plan, from
// one thread and from several; the time to the first product in a new process; choices for problems
// that were not tuned; device memory.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/matmul_parts.hpp"
#include "bench/compare/kinds.hpp"
#include "bench/serve/operands.hpp"
#include "bench/serve/run_filled.hpp"
#include "bench/serve/table.hpp"
#include "bench/serve/threads.hpp"
#include "device/machines.hpp"
#include "matmul/build.hpp"
#include "matmul/executable.hpp"
#include "matmul/resolution.hpp"
#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/record.hpp"

using namespace tilewise;
using bench::Operands;
using bench::Statistics;
using bench::statistics_of;

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double microseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

struct Options {
  std::string device = "auto", database, size = "256", layout = "nn", type = "f32";
  int rounds = 201, calls = 64, sets = 1, choices = 0;
  std::int64_t records = 0;
  std::vector<int> threads;
  bool json = false;
};

Problem problem_of(const Options& options) {
  const std::vector<Size> sizes = parse_sizes(options.size);
  if (sizes.size() != 1)
    throw Error(ErrorKind::invalid_argument, "--size takes one size, not " + options.size);
  Problem problem;
  set_layout(problem, parse_layout(options.layout));
  problem.m = sizes[0].m;
  problem.n = sizes[0].n;
  problem.k = sizes[0].k;
  const std::vector<const ProductKind*> kinds = bench::parse_kinds(options.type);
  if (kinds.size() != 1)
    throw Error(ErrorKind::invalid_argument, "--type takes one type, not " + options.type);
  return bench::of_kind({problem}, *kinds.front()).front();
}

/// The executable that serves a problem, made without the Matmul.
Executable same_executable(Device& device, const Problem& problem, const Resolution& resolution,
                           const MatmulOptions& options) {
  MatmulParts parts = parts_for(nullptr, options);
  const std::unique_ptr<ImageCache> cache = parts.open_cache();
  const ImageStore store(parts.database ? &*parts.database : nullptr, cache.get(), nullptr);
  const KernelTemplate& kernel = find_template(resolution.candidate.kernel_template);
  Built built = build(resolution.candidate, kernel, problem, device.info(), store);
  if (built.fault) throw Error(*built.fault);
  return Executable(device, problem, std::move(built.plan), built.images);
}

template <class Work>
double per_call(Device& device, int calls, Work work) {
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) work();
  const auto end = Clock::now();
  device.synchronize(nullptr);  // the next sample starts with an empty queue
  return microseconds(begin, end) / calls;
}

/// Times calls that use the operands of `sets` in turn.
Json host_time(Matmul& multiply, Device& device, const Problem& problem,
               const std::vector<Operands>& sets, const Executable& executable,
               const Options& options) {
  const DeviceBuffer workspace(device, executable.plan().workspace_bytes);
  std::vector<std::vector<BoundLaunch>> launches;
  for (const Operands& set : sets) launches.push_back(executable.bind(set.call, workspace.data()));
  std::size_t nth = 0;
  const auto served = [&] { multiply(problem, sets[nth++ % sets.size()].call); };
  const auto bare = [&] {
    for (const BoundLaunch& launch : launches[nth++ % sets.size()])
      device.launch(*launch.kernel, launch.shape, launch.arguments.data(), nullptr);
  };
  std::vector<double> served_us, bare_us, ratios;
  for (int warm = 0; warm < 5; ++warm) {
    per_call(device, options.calls, served);
    per_call(device, options.calls, bare);
  }
  for (int round = 0; round < options.rounds; ++round) {
    served_us.push_back(per_call(device, options.calls, served));
    bare_us.push_back(per_call(device, options.calls, bare));
    ratios.push_back(served_us.back() / bare_us.back());
  }
  const Statistics s = statistics_of(served_us), b = statistics_of(bare_us),
                   r = statistics_of(ratios);
  return {{"served_us", s.median},
          {"served_spread", s.spread},
          {"bare_us", b.median},
          {"bare_spread", b.spread},
          {"ratio", r.median},
          {"ratio_spread", r.spread},
          {"rounds", options.rounds},
          {"calls_per_round", options.calls},
          {"operand_sets", sets.size()},
          {"launches", launches.front().size()},
          {"workspace_bytes", executable.plan().workspace_bytes}};
}

Json thread_times(Matmul& multiply, Device& device, const Problem& problem,
                  const Executable& executable, const Options& options) {
  Json list = Json::array();
  for (const int threads : options.threads) {
    const bench::ThreadTimes times = bench::time_threads(multiply, device, problem, executable,
                                                         threads, options.rounds, options.calls);
    list.push_back({{"threads", threads},
                    {"served_us", times.served.median},
                    {"served_spread", times.served.spread},
                    {"bare_us", times.bare.median},
                    {"bare_spread", times.bare.spread},
                    {"ratio", times.ratio.median},
                    {"ratio_spread", times.ratio.spread}});
  }
  return list;
}

/// Free device memory before the Matmul, and the memory taken by its first product and by 10,000
/// more.
Json memory_use(Matmul& multiply, Device& device, const Problem& problem, const Operands& operands,
                std::int64_t free_before) {
  constexpr int kCalls = 10000, kTogether = 50;
  const std::int64_t after_first = device.free_memory();
  for (int i = 0; i < kCalls; ++i) {
    multiply(problem, operands.call);
    if (i % kTogether == 0) device.synchronize(nullptr);
  }
  device.synchronize(nullptr);
  return {{"free_bytes_before", free_before},
          {"first_product_bytes", free_before - after_first},
          {"calls", kCalls},
          {"calls_bytes", after_first - device.free_memory()}};
}

Json table_of(const std::string& path, const DeviceInfo& info, const Problem& kind, int choices) {
  const Database database = Database::open(default_database_path(path), OpenMode::read_only);
  Json table = {{"records", database.count({.gpu = gpu_key(info)})}};
  if (choices < 2) return table;
  const bench::ChoiceTimes times = bench::time_choices(database, info, kind, choices);
  table["choices"] = {{"winners", times.winners},  {"corrections", times.corrections},
                      {"count", choices},          {"first_us", times.first},
                      {"median_us", times.median}, {"most_us", times.most}};
  return table;
}

Json measure(const Options& options) {
  MatmulOptions asked;
  asked.database = options.database;
  const Problem problem = problem_of(options);
  // Two handles of one context: the Matmul owns its own.
  const std::unique_ptr<Device> own = open_device(options.device);
  std::unique_ptr<Device> to_serve = open_device(options.device);
  Device& device = *own;
  bool compiler_loaded = false;

  // The time to the first product starts here: the context and the caller's operands exist.
  std::vector<Operands> sets;
  for (int i = 0; i < options.sets; ++i) sets.emplace_back(device, problem);
  const std::int64_t free_before = device.free_memory();
  const auto begin = Clock::now();
  MatmulParts parts = parts_for(std::move(to_serve), asked);
  parts.load_compiler = [&compiler_loaded, load = parts.load_compiler] {
    compiler_loaded = true;
    return load();
  };
  const auto database_open = Clock::now();
  Matmul multiply = make_matmul(std::move(parts));
  const auto winners_read = Clock::now();
  multiply.prepare(problem);
  const auto kernel_loaded = Clock::now();
  multiply(problem, sets.front().call);
  const auto enqueued = Clock::now();
  device.synchronize(nullptr);
  const auto done = Clock::now();

  Json result;
  result["problem"] = to_string(problem);
  result["gpu"] = gpu_key(device.info());
  result["driver"] = device.driver_version();
  result["first_product"] = {{"open_database_us", microseconds(begin, database_open)},
                             {"read_winners_us", microseconds(database_open, winners_read)},
                             {"load_kernel_us", microseconds(winners_read, kernel_loaded)},
                             {"enqueue_us", microseconds(kernel_loaded, enqueued)},
                             {"wait_us", microseconds(enqueued, done)},
                             {"total_us", microseconds(begin, done)},
                             {"compiled", compiler_loaded}};
  const Resolution resolution = resolution_of(multiply, problem);
  result["match"] = to_string(resolution.kind);
  result["why"] = resolution.why;
  Json memory = memory_use(multiply, device, problem, sets.front(), free_before);
  const Executable executable = same_executable(device, problem, resolution, asked);
  memory["workspace_bytes"] = executable.plan().workspace_bytes;
  result["memory"] = std::move(memory);
  result["host_time"] = host_time(multiply, device, problem, sets, executable, options);
  if (!options.threads.empty()) {
    result["cpus"] = std::thread::hardware_concurrency();
    result["threads"] = thread_times(multiply, device, problem, executable, options);
  }
  if (options.choices > 0)
    result["table"] = table_of(options.database, device.info(), problem, options.choices);
  return result;
}

void print_threads(const Json& result) {
  if (!result.contains("threads")) return;
  std::printf("threads, each with its own stream, on %d cores\n%9s %12s %12s %8s\n",
              result["cpus"].get<int>(), "threads", "served us", "bare us", "ratio");
  for (const Json& row : result["threads"])
    std::printf("%9d %12.2f %12.2f %8.3f\n", row["threads"].get<int>(),
                row["served_us"].get<double>(), row["bare_us"].get<double>(),
                row["ratio"].get<double>());
}

void print(const Json& result) {
  const Json& first = result["first_product"];
  const Json& host = result["host_time"];
  const auto line = [](const std::string& name, const Json& value, const char* unit) {
    std::printf("  %-34s %10.2f %s\n", name.c_str(), value.get<double>(), unit);
  };
  std::printf("%s on %s\n%s\n", result["problem"].get<std::string>().c_str(),
              result["gpu"].get<std::string>().c_str(), result["why"].get<std::string>().c_str());
  std::printf("first product, context there%s\n",
              first["compiled"].get<bool>() ? " (compiled: run again for a stored image)" : "");
  line("open the database", first["open_database_us"], "us");
  line("read the winners", first["read_winners_us"], "us");
  line("resolve, load the kernel", first["load_kernel_us"], "us");
  line("enqueue", first["enqueue_us"], "us");
  line("wait", first["wait_us"], "us");
  line("total", first["total_us"], "us");
  std::printf("host time, %d rounds of %d calls, alternating\n", host["rounds"].get<int>(),
              host["calls_per_round"].get<int>());
  line("served call", host["served_us"], "us");
  line("bare launches of the same plan", host["bare_us"], "us");
  line("ratio", host["ratio"], "");
  const Json& memory = result["memory"];
  const auto mebibytes = [](const Json& bytes) { return bytes.get<double>() / (1 << 20); };
  std::printf("device memory\n");
  line("kernels and first product", mebibytes(memory["first_product_bytes"]), "MiB");
  line("10,000 further products", mebibytes(memory["calls_bytes"]), "MiB");
  line("the plan's workspace", mebibytes(memory["workspace_bytes"]), "MiB");
  print_threads(result);
  if (!result.contains("table")) return;
  const Json& table = result["table"];
  std::printf("choices for problems that were not tuned, %lld records\n",
              table["records"].get<long long>());
  if (!table.contains("choices")) return;
  line("winners of these types", table["choices"]["winners"], "");
  line("the first, reads corrections", table["choices"]["first_us"], "us");
  line("median", table["choices"]["median_us"], "us");
  line("most", table["choices"]["most_us"], "us");
}

}  // namespace

namespace {

void add_options(CLI::App& app, Options& options) {
  app.add_option("--device", options.device, "index, UUID or auto")->capture_default_str();
  app.add_option("--db", options.database, "database (default: as autotune)");
  app.add_option("--size", options.size, "N or MxNxK")->capture_default_str();
  app.add_option("--layout", options.layout, "nn, nt, tn, tt")->capture_default_str();
  app.add_option("--type", options.type, "kind of product: f32, tf32, bf16, bf16:f32, ...")
      ->capture_default_str();
  app.add_option("--sets", options.sets,
                 "operands that calls take in turn: each has its own pointers, which a call of the "
                 "same problem before it did not have")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "samples of each")
      ->check(CLI::Range(3, 100000))
      ->capture_default_str();
  app.add_option("--calls", options.calls, "calls a sample; a full launch queue would block")
      ->check(CLI::Range(1, 250))
      ->capture_default_str();
  app.add_option("--threads", options.threads,
                 "also from so many threads at once, each with its own stream: 1,2,4,8,16")
      ->delimiter(',')
      ->check(CLI::Range(1, 256));
  app.add_option("--records", options.records,
                 "measure on a copy of the database with so many more records, 1,000 of them "
                 "winners at most, in a new process; with --choices 200")
      ->check(CLI::Range(1, 10'000'000));
  app.add_option("--choices", options.choices, "also choose for so many problems without a winner")
      ->check(CLI::Range(2, 100'000));
  app.add_flag("--json", options.json, "print JSON");
}

/// The command line without --records, for `database`.
std::vector<std::string> words_on(const std::string& database, const Options& options) {
  std::vector<std::string> words = {"serve",
                                    "--device",
                                    options.device,
                                    "--db",
                                    database,
                                    "--size",
                                    options.size,
                                    "--layout",
                                    options.layout,
                                    "--type",
                                    options.type,
                                    "--sets",
                                    std::to_string(options.sets),
                                    "--rounds",
                                    std::to_string(options.rounds),
                                    "--calls",
                                    std::to_string(options.calls),
                                    "--choices",
                                    std::to_string(options.choices > 0 ? options.choices : 200)};
  for (const int threads : options.threads)
    words.insert(words.end(), {"--threads", std::to_string(threads)});
  if (options.json) words.emplace_back("--json");
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Host time of served products, and time to the first one.");
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.records > 0)
      return bench::run_filled(
          options.database, options.device, problem_of(options), options.records,
          [&](const std::string& database) { return words_on(database, options); });
    const Json result = measure(options);
    if (options.json)
      std::cout << result.dump(2) << '\n';
    else
      print(result);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "serve: " << error.what() << '\n';
    return 1;
  }
}
