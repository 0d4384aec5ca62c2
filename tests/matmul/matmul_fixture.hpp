#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "api/matmul_parts.hpp"
#include "fake_product.hpp"
#include "templates/kernel_template.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {

/// A Matmul on a fake device, with pointers to its parts.
class MatmulTest : public testing::Test {
 protected:
  MatmulTest() {
    auto made = std::make_unique<FakeDevice>();
    device = made.get();
    device->on_launch = fake_product;
    parts.device = std::move(made);
    parts.warn = [this](const std::string& line) { warnings.push_back(line); };
    parts.load_compiler = [this] {
      ++compiler_loads;
      return std::make_unique<FakeCompiler>(&compiles, refused_source);
    };
  }

  static Problem problem_of(std::int64_t m, std::int64_t n, std::int64_t k,
                            Layout layout = Layout::nn) {
    Problem problem;
    set_layout(problem, layout);
    problem.m = m;
    problem.n = n;
    problem.k = k;
    set_alignment(problem, natural_alignment(problem));
    return problem;
  }

  Candidate candidate(const Problem& problem, const std::string& kernel) const {
    return {kernel, find_template(kernel).default_configuration(problem, device->facts)};
  }

  Image image_of(const Problem& problem, const Candidate& candidate) const {
    const KernelTemplate& kernel = find_template(candidate.kernel_template);
    Image image;
    image.kernel = kernel.plan(problem, candidate.configuration, device->facts).steps.back().kernel;
    image.target = device->facts.target;
    image.launch_revision = launch_revision(kernel);
    image.binary = {1, 2, 3};
    return image;
  }

  /// A candidate that cannot serve the problem at a lower alignment.
  Candidate with_vectors(const Problem& problem) const {
    Candidate vectors = candidate(problem, "simt");
    vectors.configuration.set("VECTOR_A", 4);
    const KernelTemplate& simt = find_template("simt");
    Problem unaligned = problem;
    set_alignment(unaligned, {4, 4, 4});
    EXPECT_EQ(rejection(simt, problem, vectors.configuration, device->facts), "");
    EXPECT_NE(rejection(simt, unaligned, vectors.configuration, device->facts), "");
    return vectors;
  }
  /// Stores a winner, with its image by default. Returns the record's id.
  std::int64_t store(Database& database, const Problem& problem, const std::string& kernel,
                     bool with_image = true) {
    return store(database, problem, candidate(problem, kernel), with_image);
  }
  std::int64_t store(Database& database, const Problem& problem, const Candidate& candidate,
                     bool with_image = false) {
    Record record;
    record.problem = problem;
    record.candidate = candidate;
    record.gpu = gpu_key(device->facts);
    record.source_hash = "0123";
    record.launch_revision = launch_revision(find_template(candidate.kernel_template));
    record.measurement.emplace();
    record.measurement->median_us = 10;
    record.measurement->spread = 0.25;
    record.measurement->samples = 5;
    record.environment.date = "2026-11-21T10:00:00Z";
    const std::int64_t id = database.add(record);
    database.set_winner(id);
    if (with_image) database.put_image(image_of(problem, record.candidate));
    return id;
  }

  /// Makes every later load of an image of `source` fail.
  void break_images_of(const std::string& source) {
    device->on_load = [source](const Image& image) {
      if (image.kernel.source == source) throw Error(ErrorKind::device, "invalid image");
    };
  }

  /// A call of a contiguous problem, with its own memory.
  struct Operands {
    explicit Operands(const Problem& p)
        : a(static_cast<std::size_t>(p.m * p.k), 1.0F),
          b(static_cast<std::size_t>(p.k * p.n), 2.0F),
          c(static_cast<std::size_t>(p.m * p.n), -1.0F) {
      call.a = a.data(), call.b = b.data(), call.c = c.data();
      call.lda = min_lda(p), call.ldb = min_ldb(p), call.ldc = min_ldc(p);
    }
    std::vector<float> a, b, c;
    Call call;
  };

  MatmulParts parts;
  FakeDevice* device = nullptr;  ///< owned by `parts`, then by the Matmul
  std::vector<std::string> warnings;
  std::atomic<int> compiles{0};
  int compiler_loads = 0;
  std::string refused_source;
};

}  // namespace tilewise
