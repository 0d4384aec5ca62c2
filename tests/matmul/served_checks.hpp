#pragma once
// Checks on every machine, GPU or CPU: each kind of product through the entry points, and packed
// operands.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "db/database.hpp"
#include "device/machines.hpp"
#include "matmul/resolution.hpp"
#include "templates/kernel_template.hpp"
#include "tests/matmul/whole_numbers.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::test {

/// The options of a Matmul with the test's database, on the device with this name.
class Served : public testing::Test {
 protected:
  explicit Served(const std::string& name) {
    std::string pattern = (std::filesystem::temp_directory_path() / "served-XXXXXX").string();
    folder = mkdtemp(pattern.data());
    options.device = name;
    options.database = (folder / "tilewise.db").string();
    options.warn = [](const std::string&) {};
  }
  ~Served() override { std::filesystem::remove_all(folder); }
  void SetUp() override {
    setenv("TILEWISE_HOST_FLAGS", "-O0", 0);  // faster compiles outweigh slower kernels
    try {
      device = open_device(options.device);
      load_compiler(device->info().target);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  DeviceBuffer uploaded(const Elements& elements) {
    DeviceBuffer buffer(*device, elements.bytes());
    device->copy_to_device(buffer.data(), elements.memory.data(), elements.bytes(), nullptr);
    device->synchronize(nullptr);
    return buffer;
  }

  static bool is_unsupported(const Matmul& matmul, const Problem& problem) {
    try {
      matmul.explain(problem);
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported);
      return true;
    }
  }

  /// Checks the product on device pointers, and on host pointers where A and B have one type.
  void check_product(Matmul& matmul, const Problem& problem, std::int64_t extra) {
    WholeNumbers job(problem, extra, 3), on_host = job;
    const DeviceBuffer a = uploaded(job.a), b = uploaded(job.b), c = uploaded(job.c);
    matmul(problem, job.call(a.data(), b.data(), c.data()));
    device->synchronize(nullptr);
    device->copy_to_host(job.c.at(0), c.data(), job.c.bytes(), nullptr);
    device->synchronize(nullptr);
    EXPECT_EQ(job.first_wrong(), -1) << to_string(problem) << ", " << extra << " between rows";
    if (problem.a.type == problem.b.type) return check_on_host(matmul, problem, on_host);
    try {
      check_on_host(matmul, problem, on_host);
      ADD_FAILURE() << to_string(problem) << " ran on host pointers";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
    }
  }

  /// Checks C = 2 C - A B of whole numbers on host pointers, exact in every type.
  static void check_on_host(Matmul& matmul, const Problem& problem, WholeNumbers& job) {
    matmul.host(problem, job.call(job.a.at(0), job.b.at(0), job.c.at(0)));
    EXPECT_EQ(job.first_wrong(), -1)
        << to_string(problem) << " on host pointers, " << to_string(matmul.host_split(problem));
  }
  static void check_on_host(Matmul& matmul, const Problem& problem, std::int64_t extra) {
    WholeNumbers job(problem, extra, 3);
    check_on_host(matmul, problem, job);
  }

  /// Checks f32x3 with a template's default. If strict f32 gives an infinity or NaN, or overflows,
  /// the result is not finite. Otherwise it is close to strict f32's, except for operands that are
  /// too large for tf32.
  void check_f32x3_beyond_the_finite(const char* name = "mma") {
    const float inf = std::numeric_limits<float>::infinity(),
                most = std::numeric_limits<float>::max();
    const std::vector<float> a_specials{inf, -inf, NAN, most, -most, 3e38F, 0, -3e38F};
    const std::vector<float> b_specials{1, -inf, 0, most, 1.5F, NAN, -1, inf};
    constexpr int m = 40, n = 36, k = 24;
    std::vector<float> a(m * k), b(k * n), c(m * n);
    for (int i = 0; i < m * k; ++i) a[std::size_t(i)] = float(i * 37 % 101 - 50) / 64;
    for (int i = 0; i < k * n; ++i) b[std::size_t(i)] = float(i * 53 % 97 - 48) / 64;
    // Special values are in every second row of A and every third column of B, a large number in
    // every fourth row of A.
    for (int i = 0; i < m; i += 2)
      a[std::size_t(i * k + i % k)] = a_specials[std::size_t(i / 2 % 8)];
    for (int i = 1; i < m; i += 4) a[std::size_t(i * k + i % k)] = 0x1.8p120F;
    for (int j = 0; j < n; j += 3)
      b[std::size_t(j % k * n + j)] = b_specials[std::size_t(j / 3 % 8)];
    const Problem problem =
        typed_problem(Layout::nn, m, n, k, DType::f32, DType::f32, MathMode::f32x3);
    Matmul matmul(options);
    if (is_unsupported(matmul, problem) || !find_template(name).supports(problem, device->info()))
      GTEST_SKIP() << "no tf32 by " << name << " on " << device->info().name;
    Matmul tensor_cores = with_winner(
        problem, {name, find_template(name).default_configuration(problem, device->info())});
    Call call;
    call.a = a.data(), call.b = b.data(), call.c = c.data();
    call.lda = k, call.ldb = call.ldc = n;
    tensor_cores.host(problem, call);
    int beyond = 0, large = 0;
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        bool no_tf32 = false;
        for (int l = 0; l < k; ++l) {
          const double x = a[std::size_t(i * k + l)], y = b[std::size_t(l * n + j)];
          sum += x * y;
          size += std::abs(x * y);
          no_tf32 |= std::abs(x) >= 0x1.ffep127 || std::abs(y) >= 0x1.ffep127;
        }
        const double got = c[std::size_t(i * n + j)];
        if (!(size <= double(most))) {
          EXPECT_FALSE(std::isfinite(got)) << i << "," << j << ": " << got << " for " << sum;
          ++beyond;
        } else if (!no_tf32) {
          EXPECT_NEAR(got, sum, 1e-5 * size) << i << "," << j;
          large += size > 0x1p100;
        }
      }
    EXPECT_GT(beyond, 100);
    EXPECT_GT(large, 100);
  }

  /// Checks a template's default configuration. A NaN in A or B changes its row or column of C, an
  /// infinity the elements that it contributes to, and no others. (f32x3 has its own check.)
  void check_nan_and_infinity(const ProductKind& kind, Layout layout, const char* name = "mma") {
    if (is_integer(kind.a) || kind.math == MathMode::f32x3) return;
    const Problem problem = typed_problem(layout, 37, 33, 40, kind.a, kind.b, kind.c, kind.math);
    const KernelTemplate& kernel = find_template(name);
    if (!kernel.supports(problem, device->info())) return;
    const Candidate candidate{name, kernel.default_configuration(problem, device->info())};
    Matmul matmul = with_winner(problem, candidate);
    WholeNumbers job(problem, 1, 3);
    const auto place_a = [&](std::int64_t i, std::int64_t q) {
      return a_transposed(layout) ? q * job.lda + i : i * job.lda + q;
    };
    const auto place_b = [&](std::int64_t q, std::int64_t j) {
      return b_transposed(layout) ? j * job.ldb + q : q * job.ldb + j;
    };
    job.a.set_bits(place_a(3, 39), not_a_number(kind.a));
    job.b.set_bits(place_b(0, 32), not_a_number(kind.a));
    if (kind.a != DType::e4m3) {
      job.a.set_bits(place_a(36, 7), infinity_of(kind.a));
      job.b.set_bits(place_b(11, 6), infinity_of(kind.a) | sign_of(kind.a));
    }
    matmul.host(problem, job.call(job.a.at(0), job.b.at(0), job.c.at(0)));
    expect_served(matmul, problem, candidate);
    for (std::int64_t i = 0; i < problem.m; ++i)
      for (std::int64_t j = 0; j < problem.n; ++j) {
        double want = 2 * 2;
        for (std::int64_t q = 0; q < problem.k; ++q)
          want -= job.a.value(place_a(i, q)) * job.b.value(place_b(q, j));
        if (std::isinf(want) && is_fp8(kind.c))
          want = std::copysign(dtype_info(kind.c).largest, want);
        const double got = job.c.value(i * job.ldc + j);
        ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want)
            << to_string(problem) << " at " << i << ", " << j << ": " << got << ", not " << want;
      }
  }

  /// Requires that the winner serves. Otherwise a Matmul that set it aside would serve another
  /// candidate unnoticed.
  static void expect_served(Matmul& matmul, const Problem& problem, const Candidate& candidate) {
    EXPECT_EQ(resolution_of(matmul, problem).candidate, candidate) << to_string(problem);
  }

  /// Checks that C is bitwise equal if packs round to tf32 instead of the multiply step.
  void check_packs_that_round() {
    const Problem problem =
        typed_problem(Layout::nt, 70, 50, 90, DType::f32, DType::f32, MathMode::tf32);
    if (!find_template("mma").supports(problem, device->info()))
      GTEST_SKIP() << "no tf32 on " << device->info().name;
    std::vector<float> a(70 * 90), b(50 * 90);
    std::mt19937 random(5);
    for (std::vector<float>* operand : {&a, &b})
      for (float& x : *operand) x = std::ldexp(float(random()), -31) - 1;
    a[7] = NAN, a[200] = INFINITY, b[11] = 0x1.fffffep127F, b[300] = 0x1p-130F;
    Call call;
    call.a = a.data(), call.b = b.data();
    call.lda = call.ldb = 90, call.ldc = 50;
    std::vector<std::vector<float>> results;
    for (const auto& [pack_a, pack_b] : {std::pair{0, 0}, {1, 1}, {0, 1}, {2, 2}, {1, 0}}) {
      const Candidate candidate = packing(problem, "mma", pack_a, pack_b);
      Matmul matmul = with_winner(problem, candidate);
      call.c = results.emplace_back(70 * 50).data();
      matmul.host(problem, call);
      expect_served(matmul, problem, candidate);
      EXPECT_EQ(std::memcmp(results.back().data(), results[0].data(), 70 * 50 * sizeof(float)), 0)
          << "packs " << pack_a << ", " << pack_b;
    }
    // The operands are not tf32 numbers, so something was rounded.
    Matmul strict =
        with_winner(typed_problem<float, float>(Layout::nt, 70, 50, 90),
                    packing(typed_problem<float, float>(Layout::nt, 70, 50, 90), "simt", 0, 0));
    std::vector<float> exact(70 * 50);
    call.c = exact.data();
    strict.host(typed_problem<float, float>(Layout::nt, 70, 50, 90), call);
    EXPECT_GT(std::abs(exact[333] - results[0][333]), 1e-6F);
  }

  Matmul with_winner(const Problem& problem, Candidate candidate) {
    const KernelTemplate& kernel = find_template(candidate.kernel_template);
    EXPECT_EQ(rejection(kernel, problem, candidate.configuration, device->info()), "");
    Record record;
    record.problem = problem;
    record.candidate = std::move(candidate);
    record.gpu = gpu_key(device->info());
    record.source_hash = "0123";
    record.launch_revision = launch_revision(kernel);
    record.measurement.emplace().median_us = 10;
    Database database = Database::open(options.database);
    database.set_winner(database.add(record));
    return Matmul(options);
  }

  /// A template's default configuration with both operands packed (1 padded, 2 transposed).
  Candidate packing(const Problem& problem, const std::string& name, int pack_a, int pack_b) {
    const KernelTemplate& kernel = find_template(name);
    Candidate candidate{name, kernel.default_configuration(problem, device->info())};
    candidate.configuration.set("PACK_A", pack_a);
    candidate.configuration.set("PACK_B", pack_b);
    return candidate;
  }

  std::filesystem::path folder;
  MatmulOptions options;
  std::unique_ptr<Device> device;
};

/// Products of one problem with and without packed operands, from the same memory.
struct PackedProducts {
  PackedProducts(Device& device_, Matmul& matmul_, const Problem& problem)
      : device(device_),
        matmul(matmul_),
        job(problem, 0, 5),
        a(device_, job.a.bytes()),
        b(device_, job.b.bytes()) {
    device.copy_to_device(a.data(), job.a.at(0), a.bytes(), nullptr);
    device.copy_to_device(b.data(), job.b.at(0), b.bytes(), nullptr);
    device.synchronize(nullptr);
  }
  /// Computes C on a new stream.
  std::vector<std::byte> operator()(const Problem& problem, const PackedOperand* packed_a,
                                    const PackedOperand* packed_b) {
    const DeviceBuffer c(device, job.c.bytes());
    const Stream stream = device.create_stream();
    device.copy_to_device(c.data(), job.c.at(0), c.bytes(), stream);
    Call call = job.call(a.data(), b.data(), c.data());
    call.packed_a = packed_a, call.packed_b = packed_b;
    call.stream = stream;
    matmul(problem, call);
    std::vector<std::byte> result(job.c.memory.size());
    device.copy_to_host(result.data(), c.data(), c.bytes(), stream);
    device.synchronize(stream);
    device.destroy_stream(stream);
    return result;
  }
  Device& device;
  Matmul& matmul;
  WholeNumbers job;
  DeviceBuffer a, b;
};

/// Checks `problem` and another with fewer rows, served by a winner that packs both operands.
inline void check_packed(Device& device, Matmul& matmul, const Problem& problem) {
  PackedProducts product(device, matmul, problem);
  const PackedOperand a = matmul.pack_a(problem, product.a.data(), product.job.lda,
                                        product.job.stride_a),
                      b = matmul.pack_b(problem, product.b.data(), product.job.ldb);
  EXPECT_GE(a.bytes(), problem.m * problem.k * bytes_of(problem.a.type));
  EXPECT_GE(b.bytes(), problem.n * problem.k * bytes_of(problem.b.type));
  const auto plain = product(problem, nullptr, nullptr);
  product.job.c.memory = plain;
  EXPECT_EQ(product.job.first_wrong(), -1);
  product.job = WholeNumbers(problem, 0, 5);
  EXPECT_EQ(product(problem, nullptr, &b), plain);
  EXPECT_EQ(product(problem, &a, nullptr), plain);
  EXPECT_EQ(product(problem, &a, &b), plain);

  Problem fewer = problem;  // another size with the same winner and packing of B
  fewer.m /= 2;
  EXPECT_EQ(product(fewer, nullptr, &b), product(fewer, nullptr, nullptr));

  // Overwrites the original (forbidden to callers), to show that the packed copy is read.
  device.fill32(product.b.data(), 0, product.b.bytes() / 4, nullptr);
  device.synchronize(nullptr);
  EXPECT_EQ(product(problem, nullptr, &b), plain);
  EXPECT_NE(product(problem, nullptr, nullptr), plain);

  std::vector<std::vector<std::byte>> results(4);
  std::vector<std::jthread> threads;
  for (auto& result : results)
    threads.emplace_back([&] { result = product(problem, nullptr, &b); });
  threads.clear();
  for (const auto& result : results) EXPECT_EQ(result, plain);
}

}  // namespace tilewise::test
