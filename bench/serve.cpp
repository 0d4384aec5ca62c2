// The host's cost of serving: a served call compared with bare launches of the same plan,
// alternating; and the time to the first product in a new process.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/compare/kinds.hpp"
#include "device/machines.hpp"
#include "matmul/build.hpp"
#include "matmul/executable.hpp"
#include "matmul/matmul_internal.hpp"
#include "matmul/resolution.hpp"
#include "templates/kernel_template.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/record.hpp"

using namespace tilewise;

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double microseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

struct Options {
  std::string device = "auto", database, size = "256", layout = "nn", type = "f32";
  int rounds = 201, calls = 64, sets = 1;
  bool json = false;
};

struct Statistics {
  double median = 0, spread = 0;  ///< spread: half the interquartile range over the median
};
Statistics statistics_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double part) {
    return samples[static_cast<std::size_t>(part * static_cast<double>(samples.size() - 1))];
  };
  return {at(0.5), (at(0.75) - at(0.25)) / 2 / at(0.5)};
}

Problem problem_of(const Options& options) {
  const std::vector<Size> sizes = parse_sizes(options.size);
  if (sizes.size() != 1)
    throw Error(ErrorKind::invalid_argument, "--size takes one size, not " + options.size);
  Problem problem;
  problem.layout = parse_layout(options.layout);
  problem.m = sizes[0].m;
  problem.n = sizes[0].n;
  problem.k = sizes[0].k;
  const std::vector<const ProductKind*> kinds = bench::parse_kinds(options.type);
  if (kinds.size() != 1)
    throw Error(ErrorKind::invalid_argument, "--type takes one type, not " + options.type);
  return bench::of_kind({problem}, *kinds.front()).front();
}

/// Packed operands of a problem, all zero.
struct Operands {
  Operands(Device& device, const Problem& p)
      : a(device, p.m * p.k * bytes_of(p.a)),
        b(device, p.k * p.n * bytes_of(p.b)),
        c(device, p.m * p.n * bytes_of(p.c)) {
    for (const DeviceBuffer* buffer : {&a, &b, &c})
      device.fill32(buffer->data(), 0, buffer->bytes() / 4, nullptr);
    device.synchronize(nullptr);
    call.a = a.data(), call.b = b.data(), call.c = c.data();
    call.lda = min_lda(p), call.ldb = min_ldb(p), call.ldc = min_ldc(p);
  }
  DeviceBuffer a, b, c;
  Call call;
};

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

/// The calls take the operands of `sets` in turn.
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

Json measure(const Options& options) {
  MatmulOptions asked;
  asked.database = options.database;
  const Problem problem = problem_of(options);
  // Two handles of one context: the Matmul owns its own.
  const std::unique_ptr<Device> own = open_device(options.device);
  std::unique_ptr<Device> to_serve = open_device(options.device);
  Device& device = *own;
  bool compiler_loaded = false;

  // The time to the first product begins here: the context and the caller's operands exist.
  std::vector<Operands> sets;
  for (int i = 0; i < options.sets; ++i) sets.emplace_back(device, problem);
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
  const Executable executable = same_executable(device, problem, resolution, asked);
  result["host_time"] = host_time(multiply, device, problem, sets, executable, options);
  return result;
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
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Host time of served products, and time to the first one.");
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
  app.add_flag("--json", options.json, "print JSON");
  CLI11_PARSE(app, argc, argv);
  try {
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
