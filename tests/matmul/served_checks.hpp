#pragma once
// What every machine must do, GPU or CPU: each kind of product served through the entry points, and
// packed operands. Through Device alone, so that the same checks run on both.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "db/database.hpp"
#include "device/machines.hpp"
#include "templates/kernel_template.hpp"
#include "tests/matmul/whole_numbers.hpp"
#include "tests/support/problems.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.hpp"

namespace tilewise::test {

/// A Matmul's options with a database of its own, on the device of that name.
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

  /// On device pointers and on host pointers.
  void check_product(Matmul& matmul, const Problem& problem, std::int64_t extra) {
    WholeNumbers job(problem, extra, 3), on_host = job;
    const DeviceBuffer a = uploaded(job.a), b = uploaded(job.b), c = uploaded(job.c);
    matmul(problem, job.call(a.data(), b.data(), c.data()));
    device->synchronize(nullptr);
    device->copy_to_host(job.c.at(0), c.data(), job.c.bytes(), nullptr);
    device->synchronize(nullptr);
    EXPECT_EQ(job.first_wrong(), -1) << to_string(problem) << ", " << extra << " between rows";
    matmul.host(problem, on_host.call(on_host.a.at(0), on_host.b.at(0), on_host.c.at(0)));
    EXPECT_EQ(on_host.first_wrong(), -1) << to_string(problem) << " on host pointers";
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

  /// A template's default with both operands packed (1 padded, 2 transposed).
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
  /// C, on a stream of its own.
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

/// `problem` and another of fewer rows, served by a winner that packs both operands.
inline void check_packed(Device& device, Matmul& matmul, const Problem& problem) {
  PackedProducts product(device, matmul, problem);
  const PackedOperand a = matmul.pack_a(problem, product.a.data(), product.job.lda,
                                        product.job.stride_a),
                      b = matmul.pack_b(problem, product.b.data(), product.job.ldb);
  EXPECT_GE(a.bytes(), problem.m * problem.k * bytes_of(problem.a));
  EXPECT_GE(b.bytes(), problem.n * problem.k * bytes_of(problem.b));
  const auto plain = product(problem, nullptr, nullptr);
  product.job.c.memory = plain;
  EXPECT_EQ(product.job.first_wrong(), -1);
  product.job = WholeNumbers(problem, 0, 5);
  EXPECT_EQ(product(problem, nullptr, &b), plain);
  EXPECT_EQ(product(problem, &a, nullptr), plain);
  EXPECT_EQ(product(problem, &a, &b), plain);

  Problem fewer = problem;  // another size, the same winner, the same form of B
  fewer.m /= 2;
  EXPECT_EQ(product(fewer, nullptr, &b), product(fewer, nullptr, nullptr));

  // The copy is what is read: the original is spoilt, which is forbidden, but tells.
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
