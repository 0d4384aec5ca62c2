// Products on host pointers compared with their bound: the largest of the times of copying A and B,
// of copying C, and of the product itself.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "api/matmul_parts.hpp"
#include "bench/compare/kinds.hpp"
#include "device/machines.hpp"
#include "tilewise/error.hpp"
#include "tilewise/number.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/record.hpp"
#include "vocabulary/thread_pool.hpp"

using namespace tilewise;

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string device = "auto", database, size = "16384", layout = "nn", type = "f32";
  std::uint64_t limit = 0, chunk = HostSettings{}.chunk_bytes;
  int repeats = 5, threads = 0;
  bool pinned = false, json = false;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

Problem problem_of(const Options& options) {
  const std::vector<Size> sizes = parse_sizes(options.size);
  const std::vector<const ProductKind*> kinds = bench::parse_kinds(options.type);
  if (sizes.size() != 1 || kinds.size() != 1)
    throw Error(ErrorKind::invalid_argument, "--size and --type take one size and one type");
  Problem problem;
  set_layout(problem, parse_layout(options.layout));
  problem.m = sizes[0].m, problem.n = sizes[0].n, problem.k = sizes[0].k;
  return bench::of_kind({problem}, *kinds.front()).front();
}

/// Host memory: ordinary or page-locked.
class HostMemory {
 public:
  HostMemory(Device& device, std::int64_t bytes, bool pinned)
      : device_(device), pinned_(pinned), bytes_(bytes) {
    data_ = pinned ? device.allocate_host(bytes) : std::malloc(static_cast<std::size_t>(bytes));
    if (!data_) throw Error(ErrorKind::out_of_memory, "no host memory is left");
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() { pinned_ ? device_.free_host(data_) : std::free(data_); }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::int64_t bytes() const { return bytes_; }

  /// Fills with numbers between -1 and 1 (integers: -8 to 8), repeated after about 1 MiB.
  void fill(DType type, unsigned seed) {
    std::mt19937 random(seed);
    constexpr std::int64_t part = 1'000'003;
    std::vector<std::byte> pattern(static_cast<std::size_t>(part * bytes_of(type)));
    for (std::int64_t i = 0; i < part; ++i) {
      const double x = static_cast<double>(random()) / 2147483648.0 - 1;
      from_double(type, is_integer(type) ? x * 8 : x, pattern.data() + i * bytes_of(type));
    }
    const std::int64_t length = std::ssize(pattern);
    parallel_for((bytes_ + length - 1) / length, 0, [&](std::int64_t i, int) {
      std::memcpy(data() + i * length, pattern.data(),
                  static_cast<std::size_t>(std::min(length, bytes_ - i * length)));
    });
  }

 private:
  Device& device_;
  bool pinned_;
  std::int64_t bytes_;
  void* data_ = nullptr;
};

/// Bytes per second of copies from and to page-locked memory.
struct CopyRates {
  double up = 0, down = 0;                  ///< one direction at a time
  double up_of_both = 0, down_of_both = 0;  ///< both directions at the same time
};
CopyRates copy_rates(Device& device) {
  constexpr std::int64_t bytes = std::int64_t{256} << 20;
  constexpr int times = 12;
  const HostMemory from(device, bytes, true), to(device, bytes, true);
  const DeviceBuffer first(device, bytes), second(device, bytes);
  const Stream up = device.create_stream(), down = device.create_stream();
  const auto rate = [&](bool with_up, bool with_down) {
    const auto copy = [&] {
      if (with_up) device.copy_to_device(first.data(), from.data(), bytes, up);
      if (with_down) device.copy_to_host(to.data(), second.data(), bytes, down);
    };
    const auto wait = [&] { device.synchronize(up), device.synchronize(down); };
    copy();
    wait();
    const auto begin = Clock::now();
    for (int i = 0; i < times; ++i) copy();
    wait();
    return times * static_cast<double>(bytes) / seconds_since(begin);
  };
  CopyRates rates;
  rates.up = rate(true, false), rates.down = rate(false, true);
  rates.up_of_both = rates.down_of_both = rate(true, true);
  device.destroy_stream(up);
  device.destroy_stream(down);
  return rates;
}

/// Median seconds of the product on device pointers; 0 if the matrices do not fit.
double compute_seconds(Matmul& multiply, Device& device, const Problem& p, const HostMemory& a,
                       const HostMemory& b, const HostMemory& c, int repeats) {
  if (operand_bytes(p) > 0.9 * static_cast<double>(device.free_memory())) return 0;
  const DeviceBuffer on_a(device, a.bytes()), on_b(device, b.bytes()), on_c(device, c.bytes());
  device.copy_to_device(on_a.data(), a.data(), a.bytes(), nullptr);
  device.copy_to_device(on_b.data(), b.data(), b.bytes(), nullptr);
  Call call;
  call.a = on_a.data(), call.b = on_b.data(), call.c = on_c.data();
  call.lda = min_lda(p), call.ldb = min_ldb(p), call.ldc = min_ldc(p);
  const auto begin = device.create_event(), end = device.create_event();
  std::vector<double> samples;
  for (int i = -1; i < repeats; ++i) {
    begin->record(nullptr);
    multiply(p, call);
    end->record(nullptr);
    end->wait();
    if (i >= 0) samples.push_back(end->microseconds_since(*begin) * 1e-6);
  }
  return median(samples);
}

/// Median milliseconds of the work of a product on host pointers before and after its copies.
struct Overheads {
  double plan = 0;      ///< choosing the split
  double memory = 0;    ///< allocating and freeing the device memory of the split
  double products = 0;  ///< the products of all tiles, without copies
};
Overheads overheads(Matmul& multiply, Device& device, const Problem& p, const HostSplit& split,
                    int repeats) {
  const auto milliseconds = [&](auto work) {
    std::vector<double> samples;
    for (int i = 0; i < repeats; ++i) {
      const auto begin = Clock::now();
      work();
      samples.push_back(seconds_since(begin) * 1e3);
    }
    return median(samples);
  };
  Overheads x;
  x.plan = milliseconds([&] { static_cast<void>(multiply.host_split(p)); });
  x.memory = milliseconds([&] { const DeviceBuffer all(device, split.device_bytes); });
  if (split.tile_batch != 1 || split.tile_k != p.k) return x;
  Problem tile = p;
  tile.m = split.tile_m, tile.n = split.tile_n;
  set_alignment(tile, {16, 16, 16});
  const std::int64_t a_bytes = tile.m * p.k * bytes_of(p.a.type),
                     b_bytes = p.k * tile.n * bytes_of(p.b.type),
                     c_bytes = tile.m * tile.n * bytes_of(p.c.type);
  HostMemory numbers(device, std::max(a_bytes, b_bytes), true);
  numbers.fill(p.a.type, 1);
  const DeviceBuffer a(device, a_bytes), b(device, b_bytes), c(device, c_bytes);
  device.copy_to_device(a.data(), numbers.data(), a_bytes, nullptr);
  device.copy_to_device(b.data(), numbers.data(), b_bytes, nullptr);
  Call call;
  call.a = a.data(), call.b = b.data(), call.c = c.data();
  call.lda = min_lda(tile), call.ldb = min_ldb(tile), call.ldc = min_ldc(tile);
  const Stream stream = device.create_stream();
  call.stream = stream;
  multiply(tile, call);
  device.synchronize(stream);
  x.products = milliseconds([&] {
    for (std::int64_t i = 0; i < split.tiles; ++i) multiply(tile, call);
    device.synchronize(stream);
  });
  device.destroy_stream(stream);
  return x;
}

/// The number of wrong elements among 200 samples.
int wrong_elements(const Problem& p, const HostMemory& a, const HostMemory& b,
                   const HostMemory& c) {
  std::mt19937_64 random(1);
  int wrong = 0;
  for (int turn = 0; turn < 200; ++turn) {
    const auto i = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(p.m)),
               j = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(p.n));
    double sum = 0, size = 0;
    for (std::int64_t q = 0; q < p.k; ++q) {
      const std::int64_t at_a = p.a.transposed ? q * p.m + i : i * p.k + q,
                         at_b = p.b.transposed ? j * p.k + q : q * p.n + j;
      const double x = to_double(p.a.type, a.data() + at_a * bytes_of(p.a.type)) *
                       to_double(p.b.type, b.data() + at_b * bytes_of(p.b.type));
      sum += x, size += std::abs(x);
    }
    const double got = to_double(p.c.type, c.data() + (i * p.n + j) * bytes_of(p.c.type));
    const double bound = 2 * error_bound(p) * size +
                         2 * dtype_info(p.c.type).unit_roundoff * std::abs(sum) +
                         smallest_of(p.c.type);
    if (!(std::abs(got - sum) <= bound) && std::abs(sum) <= dtype_info(p.c.type).largest) ++wrong;
  }
  return wrong;
}

Json measure(const Options& options) {
  const Problem p = problem_of(options);
  MatmulOptions asked;
  asked.database = options.database;
  asked.host_memory_limit = static_cast<std::int64_t>(options.limit);
  const std::unique_ptr<Device> own = open_device(options.device);
  Device& device = *own;
  MatmulParts parts = parts_for(open_device(options.device), asked);
  parts.host.threads = options.threads;
  parts.host.chunk_bytes = static_cast<std::int64_t>(options.chunk);
  Matmul multiply = make_matmul(std::move(parts));

  const CopyRates rates = copy_rates(device);
  HostMemory a(device, p.m * p.k * bytes_of(p.a.type), options.pinned),
      b(device, p.k * p.n * bytes_of(p.b.type), options.pinned),
      c(device, p.m * p.n * bytes_of(p.c.type), options.pinned);
  a.fill(p.a.type, 1), b.fill(p.b.type, 2), c.fill(p.c.type, 3);
  const double compute = compute_seconds(multiply, device, p, a, b, c, options.repeats);

  const HostSplit split = multiply.host_split(p);
  Call call;
  call.a = a.data(), call.b = b.data(), call.c = c.data();
  call.lda = min_lda(p), call.ldb = min_ldb(p), call.ldc = min_ldc(p);
  std::vector<double> samples;
  double first = 0;
  for (int i = -1; i < options.repeats; ++i) {
    const auto begin = Clock::now();
    multiply.host(p, call);
    (i < 0 ? first : samples.emplace_back()) = seconds_since(begin);
  }
  const double seconds = median(samples);
  const Overheads extra = overheads(multiply, device, p, split, options.repeats);
  const auto bound = [&](double up, double down) {
    return std::max({up / rates.up, down / rates.down, compute});
  };
  const double needed = bound(static_cast<double>(a.bytes() + b.bytes()),
                              static_cast<double>(c.bytes())),
               of_split = bound(static_cast<double>(split.bytes_up),
                                static_cast<double>(split.bytes_down));
  return {{"problem", to_string(p)},
          {"gpu", gpu_key(device.info())},
          {"driver", device.driver_version()},
          {"memory", options.pinned ? "page-locked" : "ordinary"},
          {"limit_bytes", options.limit},
          {"up_gb_s", rates.up / 1e9},
          {"down_gb_s", rates.down / 1e9},
          {"each_way_at_once_gb_s", rates.up_of_both / 1e9},
          {"compute_ms", compute * 1e3},
          {"split", Json::parse(to_json(split))},
          {"split_text", to_string(split)},
          {"plan_ms", extra.plan},
          {"memory_ms", extra.memory},
          {"products_of_tiles_ms", extra.products},
          {"first_ms", first * 1e3},
          {"median_ms", seconds * 1e3},
          {"fastest_ms", *std::min_element(samples.begin(), samples.end()) * 1e3},
          {"bound_ms", needed * 1e3},
          {"of_bound", needed / seconds},
          {"bound_of_split_ms", of_split * 1e3},
          {"of_bound_of_split", of_split / seconds},
          {"wrong", wrong_elements(p, a, b, c)}};
}

void print(const Json& result) {
  const auto line = [&](const char* name, const char* key, const char* unit) {
    std::printf("  %-44s %10.2f %s\n", name, result[key].get<double>(), unit);
  };
  std::printf("%s on %s, %s host memory\n%s\n", result["problem"].get<std::string>().c_str(),
              result["gpu"].get<std::string>().c_str(), result["memory"].get<std::string>().c_str(),
              result["split_text"].get<std::string>().c_str());
  line("copies to the device, page-locked", "up_gb_s", "GB/s");
  line("copies to the host", "down_gb_s", "GB/s");
  line("each way, both at once", "each_way_at_once_gb_s", "GB/s");
  line("product on device pointers (0: does not fit)", "compute_ms", "ms");
  line("choosing the split", "plan_ms", "ms");
  line("allocating and freeing device memory", "memory_ms", "ms");
  line("products of all tiles, without copies", "products_of_tiles_ms", "ms");
  line("first product on host pointers", "first_ms", "ms");
  line("median of the next", "median_ms", "ms");
  line("fastest", "fastest_ms", "ms");
  line("bound: A, B up once, C down once, product", "bound_ms", "ms");
  line("bound over median", "of_bound", "");
  line("bound of the split's own bytes", "bound_of_split_ms", "ms");
  line("bound of the split over median", "of_bound_of_split", "");
  std::printf("  wrong elements of 200: %d\n", result["wrong"].get<int>());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Products on host pointers, by tiles, beside the bound of copies and product.");
  app.add_option("--device", options.device, "index, UUID, auto or host")->capture_default_str();
  app.add_option("--db", options.database, "database (default: as autotune)");
  app.add_option("--size", options.size, "N or MxNxK")->capture_default_str();
  app.add_option("--layout", options.layout, "nn, nt, tn, tt")->capture_default_str();
  app.add_option("--type", options.type, "kind of product: f32, tf32, bf16, bf16:f32, ...")
      ->capture_default_str();
  app.add_option("--limit", options.limit, "device memory: 1GiB, 800MiB, bytes; 0: what is free")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--chunk", options.chunk, "bytes of a staging buffer: 1MiB")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--repeats", options.repeats, "timed products")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "that copy in each direction; 0: the default");
  app.add_flag("--pinned", options.pinned, "the caller's memory is page-locked");
  app.add_flag("--json", options.json, "print JSON");
  CLI11_PARSE(app, argc, argv);
  try {
    const Json result = measure(options);
    if (options.json)
      std::cout << result.dump(2) << '\n';
    else
      print(result);
    return result["wrong"].get<int>() == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "host_stream: " << error.what() << '\n';
    return 1;
  }
}
