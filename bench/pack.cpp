// Speed of the pack steps for one operand (pad, transpose) and for two (A padded, B transposed):
// GPU time, compared with a copy of the same bytes within device memory. The two alternate, both
// from graphs of launches over rotating buffers.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "device/machines.hpp"
#include "matmul/executable.hpp"
#include "matmul/image_store.hpp"
#include "templates/kernel_template.hpp"
#include "templates/plan/multiply_plan.hpp"
#include "tilewise/error.hpp"
#include "tuner/evaluate/placement.hpp"
#include "vocabulary/problem.hpp"

using namespace tilewise;

namespace {

using Json = nlohmann::ordered_json;

// One type per element size; f32 also rounded to tf32, and split into two parts (f32x3).
struct Kind {
  DType type;
  MathMode math;
};
constexpr Kind kKinds[] = {{DType::i8, MathMode::strict},  {DType::f16, MathMode::strict},
                           {DType::f32, MathMode::strict}, {DType::f64, MathMode::strict},
                           {DType::f32, MathMode::tf32},   {DType::f32, MathMode::f32x3}};
/// How A and B of a product are packed.
struct Packed {
  const char* name;
  Pack a, b;
};
constexpr Packed kPacks[] = {{"pad", Pack::pad, Pack::none},
                             {"transpose", Pack::transpose, Pack::none},
                             {"both", Pack::pad, Pack::transpose}};
constexpr double kSampleMicroseconds = 2000;

struct Options {
  std::string device = "0", nvrtc, sizes = "1024,4096,8192,1023,4095";
  int rounds = 15;
  bool json = false;
};

/// A product whose A and B are rows x columns and columns x rows as stored.
Problem problem_of(const Kind& kind, std::int64_t rows, std::int64_t columns) {
  Problem problem;
  problem.m = problem.n = rows, problem.k = columns;
  set_types(problem, kind.type, default_result(kind.type), kind.math);
  set_alignment(problem, natural_alignment(problem));
  return problem;
}

/// A plan that has only the pack step.
Plan pack_plan(const Problem& problem, const Packed& packed) {
  MultiplyShape shape;
  shape.kernel = {"naive.cu", "naive", {}};
  shape.pack_a = packed.a;
  shape.pack_b = packed.b;
  shape.packs_split = problem.math == MathMode::f32x3;
  Plan plan = multiply_plan(problem, shape);
  std::erase_if(plan.steps, [](const LaunchStep& step) { return step.packs.empty(); });
  return plan;
}

/// Source and destination buffers: enough sets to exceed twice the L2 together.
class Buffers {
 public:
  Buffers(Device& device, std::int64_t from_bytes, std::int64_t to_bytes) {
    const std::int64_t cold = 2 * device.info().l2_bytes;
    do {
      from_.emplace_back(device, from_bytes);
      to_.emplace_back(device, to_bytes);
      device.fill32(from_.back().data(), 0x3C3C3C3C, from_bytes / 4, nullptr);
    } while (std::ssize(from_) * (from_bytes + to_bytes) < cold);
    device.synchronize(nullptr);
  }
  std::size_t sets() const { return from_.size(); }
  void* from(std::size_t set) const { return from_[set].data(); }
  void* to(std::size_t set) const { return to_[set].data(); }

 private:
  std::vector<DeviceBuffer> from_, to_;
};

/// A graph that does some work on each set in turn.
class Repeated {
 public:
  /// `enqueue` does the work for one set.
  Repeated(Device& device, Stream stream, std::size_t sets,
           const std::function<void(std::size_t)>& enqueue)
      : stream_(stream), start_(device.create_event()), end_(device.create_event()) {
    count_ = sets;
    graph_ = capture(device, sets, enqueue);
    run();  // the first launch of a graph uploads it
    const double rounds = std::ceil(kSampleMicroseconds / std::max(0.1, run()) / double(sets));
    count_ = sets * static_cast<std::size_t>(std::clamp(rounds, 1.0, 1000.0));
    graph_ = capture(device, sets, enqueue);
    run();
  }
  /// Microseconds per set.
  double run() {
    start_->record(stream_);
    graph_->launch(stream_);
    end_->record(stream_);
    end_->wait();
    return end_->microseconds_since(*start_) / static_cast<double>(count_);
  }

 private:
  std::unique_ptr<LaunchGraph> capture(Device& device, std::size_t sets,
                                       const std::function<void(std::size_t)>& enqueue) const {
    return device.capture(stream_, [&] {
      for (std::size_t i = 0; i < count_; ++i) enqueue(i % sets);
    });
  }
  Stream stream_;
  std::size_t count_ = 0;
  std::unique_ptr<Event> start_, end_;
  std::unique_ptr<LaunchGraph> graph_;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

Executable executable_of(Device& device, const Compiler& compiler, const Problem& problem,
                         Plan plan) {
  const ImageStore store(nullptr, nullptr, &compiler);
  const ImageStore::Made made = store.make(plan.steps.front().kernel, device.info().target,
                                           launch_revision(find_template("naive")));
  if (!made.image) throw Error(ErrorKind::compiler, made.log);
  return Executable(device, problem, std::move(plan), std::array{*made.image});
}

Json measure(Device& device, const Compiler& compiler, const Problem& problem, const Packed& packed,
             int rounds) {
  const OwnedStream stream(device);
  const Executable executable =
      executable_of(device, compiler, problem, pack_plan(problem, packed));
  // The operands are adjacent; each begins on a 128-byte line.
  const std::int64_t one = problem.m * problem.k * bytes_of(problem.a.type);
  const std::int64_t second = (one + 127) / 128 * 128;
  const std::int64_t bytes = packed.b == Pack::none ? one : second + one;
  const Buffers buffers(device, bytes, std::max(bytes, executable.plan().workspace_bytes));
  std::vector<std::vector<BoundLaunch>> launches;
  for (std::size_t set = 0; set < buffers.sets(); ++set) {
    Call call;
    call.a = buffers.from(set);
    call.b = static_cast<const std::byte*>(call.a) + second;
    call.lda = min_lda(problem);
    call.ldb = min_ldb(problem);
    launches.push_back(executable.bind(call, buffers.to(set)));
  }
  Repeated packs(device, stream.get(), buffers.sets(), [&](std::size_t set) {
    for (const BoundLaunch& launch : launches[set])
      device.launch(*launch.kernel, launch.shape, launch.arguments.data(), stream.get());
  });
  Repeated copies(device, stream.get(), buffers.sets(), [&](std::size_t set) {
    device.copy_on_device(buffers.to(set), buffers.from(set), bytes, stream.get());
  });
  std::vector<double> pack_us, copy_us;
  for (int round = 0; round < rounds; ++round) {
    pack_us.push_back(packs.run());
    copy_us.push_back(copies.run());
  }
  const double pack_time = median(pack_us), copy_time = median(copy_us);
  // TB/s times microseconds, without padding. A pack that splits writes two parts.
  const double moved = 2e-6 * static_cast<double>(bytes);
  const double packed_bytes = problem.math == MathMode::f32x3 ? 1.5 * moved : moved;
  const double pack_rate = packed_bytes / pack_time, copy_rate = moved / copy_time;
  return {{"rows", problem.m},
          {"columns", problem.k},
          {"type", to_string(problem.a.type)},
          {"math", to_string(problem.math)},
          {"pack", packed.name},
          {"pack_us", pack_time},
          {"pack_tbps", pack_rate},
          {"copy_us", copy_time},
          {"copy_tbps", copy_rate},
          {"share", pack_rate / copy_rate}};
}

Json measure_all(const Options& options) {
  const std::unique_ptr<Device> device = open_device(options.device);
  const std::unique_ptr<Compiler> compiler = load_compiler(device->info().target, options.nvrtc);
  Json packs = Json::array();
  for (const Size& size : parse_sizes(options.sizes))
    for (const Kind& kind : kKinds)
      for (const Packed& packed : kPacks)
        packs.push_back(
            measure(*device, *compiler, problem_of(kind, size.m, size.k), packed, options.rounds));
  return {{"gpu", device->info().name},
          {"toolkit", compiler->version()},
          {"rounds", options.rounds},
          {"packs", packs}};
}

void print(const Json& result) {
  std::printf("%s, %s\n%12s  %4s  %-6s  %-9s  %9s  %6s  %9s  %6s  %s\n",
              result["gpu"].get<std::string>().c_str(),
              result["toolkit"].get<std::string>().c_str(), "operand", "type", "math", "pack",
              "pack us", "TB/s", "copy us", "TB/s", "of the copy rate");
  for (const Json& row : result["packs"]) {
    const std::string operand =
        std::to_string(row["rows"].get<int>()) + "x" + std::to_string(row["columns"].get<int>());
    std::printf("%12s  %4s  %-6s  %-9s  %9.2f  %6.2f  %9.2f  %6.2f  %3.0f%%\n", operand.c_str(),
                row["type"].get<std::string>().c_str(), row["math"].get<std::string>().c_str(),
                row["pack"].get<std::string>().c_str(), row["pack_us"].get<double>(),
                row["pack_tbps"].get<double>(), row["copy_us"].get<double>(),
                row["copy_tbps"].get<double>(), 100 * row["share"].get<double>());
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Pack steps beside copies of the same bytes: GPU time, cold.");
  app.add_option("--device", options.device, "index or UUID of a GPU; or host")
      ->capture_default_str();
  app.add_option("--nvrtc", options.nvrtc, "NVRTC library or folder (default: searched)");
  app.add_option("--sizes", options.sizes,
                 "operands, N or MxNxK: A of M rows of K elements, B of K rows of M")
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "samples of each, in turns, about 2 ms each")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_flag("--json", options.json, "print JSON");
  CLI11_PARSE(app, argc, argv);
  try {
    const Json result = measure_all(options);
    if (options.json)
      std::cout << result.dump(1) << '\n';
    else
      print(result);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "pack: " << error.what() << '\n';
    return 1;
  }
}
