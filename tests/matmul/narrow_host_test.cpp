// Products of an A of 16 bits and a B of fewer bits, on the CPU executor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "templates/kernel_template.hpp"
#include "tests/matmul/served_checks.hpp"
#include "tilewise/error.hpp"
#include "tilewise/matmul.h"
#include "tilewise/matmul.hpp"
#include "tilewise/number.hpp"
#include "vocabulary/epilogue.hpp"

namespace tilewise::narrow_host_test {
namespace {

using testing::HasSubstr;

/// A matrix of whole numbers as stored, with rows `ld` elements apart.
struct Stored {
  DType type;
  std::int64_t rows, columns, ld;
  std::vector<double> numbers;
  std::vector<std::byte> bytes;

  Stored(DType of, std::int64_t rows_of, std::int64_t columns_of, std::int64_t ld_of, unsigned seed,
         int least = -6, int most = 6)
      : type(of), rows(rows_of), columns(columns_of), ld(ld_of) {
    std::mt19937 generator(seed);
    bytes.resize(static_cast<std::size_t>(bytes_of(type, rows * ld)) + 16);
    for (std::int64_t i = 0; i < rows; ++i) {
      std::vector<double> row;
      for (std::int64_t j = 0; j < columns; ++j)
        row.push_back(int(generator() % unsigned(most - least + 1)) + least);
      narrow(type, row.data(), columns, bytes.data() + bytes_of(type, i * ld));
      numbers.insert(numbers.end(), row.begin(), row.end());
    }
  }
  double at(std::int64_t i, std::int64_t j) const {
    return numbers[static_cast<std::size_t>(i * columns + j)];
  }
};

class NarrowOnTheCpu : public test::Served {
 protected:
  NarrowOnTheCpu() : Served("host:sm_90a") {}

  /// Scales and zero points: s[k/128,j], z[j,k/128].
  enum class Of { nothing, scales, zero_points };

  /// Checks the product of k steps.
  void check(Matmul& matmul, DType of_a, DType of_b, Layout layout, std::int64_t m, std::int64_t n,
             std::int64_t k, Of of, std::int64_t together = 8) {
    Problem problem = typed_problem(layout, m, n, k, of_a, of_b, of_a);
    SCOPED_TRACE(to_string(problem));
    const auto even = [&](std::int64_t x) { return (x + together - 1) / together * together; };
    const Stored a(of_a, m, k, even(k), 1);
    const bool turned = b_transposed(layout);
    const Stored b(of_b, turned ? n : k, turned ? k : n, even(turned ? k : n), 2);
    const std::int64_t blocks = (k + 127) / 128;
    const Stored scales(DType::f32, blocks, n, n, 3);
    const Stored zeros(DType::i8, n, blocks, blocks, 4, -128, 127);
    const bool scaled = of != Of::nothing, shifted = of == Of::zero_points;
    std::vector<EpilogueOperand> operands;
    if (scaled) operands.push_back({scales.bytes.data(), n, 0, 0});
    if (shifted) operands.push_back({zeros.bytes.data(), blocks, 0, 0});
    const Epilogue epilogue(shifted ? "acc(s[k/128,j], z[j,k/128])" : "acc(s[k/128,j])");
    if (scaled) set_epilogue(problem, epilogue);
    if (shifted && epilogue.slot("z") == 0) std::swap(operands[0], operands[1]);
    std::vector<std::byte> c(static_cast<std::size_t>(2 * m * n));
    Call call;
    call.a = a.bytes.data(), call.b = b.bytes.data(), call.c = c.data();
    call.lda = a.ld, call.ldb = b.ld, call.ldc = n;
    call.operands = operands;
    matmul(problem, call);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < k; ++p)
          sum += a.at(i, p) *
                 ((turned ? b.at(j, p) : b.at(p, j)) - (shifted ? zeros.at(j, p / 128) : 0)) *
                 (scaled ? scales.at(p / 128, j) : 1);
        std::byte right[2];
        from_double(of_a, sum, right);
        ASSERT_EQ(to_double(of_a, &c[static_cast<std::size_t>(2 * (i * n + j))]),
                  to_double(of_a, right))
            << i << ", " << j;
      }
  }
};

TEST_F(NarrowOnTheCpu, EveryTypeLayoutAndScale) {
  Matmul matmul(options);
  for (const ProductKind& kind : product_kinds()) {
    if (kind.a == kind.b) continue;
    for (const Of of : {Of::nothing, Of::scales, Of::zero_points}) {
      if (of == Of::zero_points && !is_integer(kind.b)) continue;
      check(matmul, kind.a, kind.b, Layout::nt, 5, 40, 300, of);
      check(matmul, kind.a, kind.b, Layout::nn, 3, 18, 131, of);
    }
  }
  check(matmul, DType::bf16, DType::i4, Layout::nt, 70, 33, 129, Of::scales);
  check(matmul, DType::bf16, DType::i4, Layout::nt, 70, 33, 129, Of::zero_points);
  check(matmul, DType::bf16, DType::i4, Layout::nt, 1, 7, 0, Of::nothing);
}

// The executor refuses copies that are not aligned, as a GPU does.
TEST_F(NarrowOnTheCpu, EveryAlignmentOfRows) {
  Matmul matmul(options);
  for (const std::int64_t together : {2, 4, 8, 12, 16, 24, 32, 40})
    for (const DType of_b : {DType::i4, DType::i8})
      check(matmul, DType::bf16, of_b, Layout::nt, 3, 20, together - 1, Of::nothing, together);
}

TEST_F(NarrowOnTheCpu, TheDefaultIsValidOnEveryGpu) {
  for (const char* target : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_120"})
    for (const ProductKind& kind : product_kinds())
      for (const std::int64_t m : {1, 16, 32, 64, 500})
        for (const int alignment : {4, 8, 16})
          for (const char* scales :
               {"", "acc(s[k/32,j])", "acc(s[j,k/4096])", "acc(s[k/32,j],z[k/32,j])"}) {
            if (kind.a == kind.b) continue;
            Problem problem = typed_problem(Layout::nt, m, 4096, 4096, kind.a, kind.b, kind.c);
            set_alignment(problem, {alignment, alignment, 2});
            if (*scales) set_epilogue(problem, Epilogue(scales));
            if (zero_points_of(problem) && !is_integer(kind.b)) continue;
            const DeviceInfo gpu = nominal_device(parse_target(target));
            const KernelTemplate& kernel = find_template("narrow");
            EXPECT_EQ(rejection(kernel, problem, kernel.default_configuration(problem, gpu), gpu),
                      "")
                << to_string(problem) << " on " << target;
          }
}

// A block of k that is summed in pieces: those behind k are 0, and not 0 times infinity.
TEST_F(NarrowOnTheCpu, AnInfiniteScaleIsInfinite) {
  Matmul matmul(options);
  for (const char* text : {"acc(s[j,k/32])", "acc(s[j,k/256])", "acc(s[k/4096,j])"}) {
    Problem problem = typed_problem(Layout::nt, 1, 16, 16, DType::f16, DType::i8, DType::f16);
    set_epilogue(problem, Epilogue(text));
    const std::vector<std::uint16_t> a(16, 0x3c00);
    const std::vector<std::int8_t> b(16 * 16, 1);
    const std::vector<float> scales(16, std::numeric_limits<float>::infinity());
    const EpilogueOperand operand{scales.data(), problem.epilogue->operands[0].k_first ? 16 : 1, 0,
                                  0};
    std::vector<std::uint16_t> c(16);
    Call call;
    call.a = a.data(), call.b = b.data(), call.c = c.data();
    call.lda = call.ldb = call.ldc = 16;
    call.operands = {&operand, 1};
    matmul(problem, call);
    EXPECT_EQ(c, std::vector<std::uint16_t>(16, 0x7c00)) << text;
  }
}

TEST_F(NarrowOnTheCpu, APackedBIsOfItsOwnType) {
  Matmul matmul(options);
  const Problem problem = typed_problem(Layout::nt, 2, 16, 32, DType::f16, DType::i8, DType::f16);
  const Stored a(DType::f16, 2, 32, 32, 1), b(DType::i8, 16, 32, 32, 2);
  std::vector<std::uint16_t> c(32), again(32);
  Call call;
  call.a = a.bytes.data(), call.b = b.bytes.data(), call.c = c.data();
  call.lda = call.ldb = 32, call.ldc = 16;
  matmul(problem, call);
  const PackedOperand packed = matmul.pack_b(problem, b.bytes.data(), 32);
  call.packed_b = &packed, call.c = again.data();
  matmul(problem, call);
  EXPECT_EQ(again, c);
}

TEST_F(NarrowOnTheCpu, WhatNoProductHasIsRefused) {
  Matmul matmul(options);
  const auto refusal = [&](const Problem& problem, std::int64_t ldb) {
    std::vector<std::byte> memory(4096);
    Call call;
    call.a = memory.data(), call.b = memory.data() + 1024, call.c = memory.data() + 2048;
    call.lda = 16, call.ldb = ldb, call.ldc = 16;
    try {
      matmul(problem, call);
      return std::string();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      return std::string(error.what());
    }
  };
  Problem problem = typed_problem(Layout::nt, 8, 8, 15, DType::bf16, DType::i4, DType::bf16);
  EXPECT_EQ(refusal(problem, 16), "");
  EXPECT_THAT(refusal(problem, 17), HasSubstr("ldb = 17 is odd: rows of i4 begin at bytes"));
  problem.b.type = DType::f16;
  EXPECT_THAT(refusal(problem, 16), HasSubstr("no product of bf16 x f16"));
  EXPECT_THAT(refusal(problem, 16), HasSubstr("bf16 x i4 to bf16 strict"));
  problem.b.type = DType::i4;
  set_epilogue(problem, Epilogue("acc(s[i,k/128])"));
  EXPECT_THAT(refusal(problem, 16), HasSubstr("allowed is acc(s[j,k/128])"));
  set_epilogue(problem, Epilogue("acc(s[j,k/128],z[j,k/64])"));
  EXPECT_THAT(refusal(problem, 16),
              HasSubstr("64 steps of k: allowed are those of its scales, 128"));
  set_epilogue(problem, Epilogue("acc(s[j,k/128],z:f16[j,k/128])"));
  EXPECT_THAT(refusal(problem, 16), HasSubstr("zero points of f16: allowed is i8"));
  problem.b.type = DType::e4m3;
  set_epilogue(problem, Epilogue("acc(s[j,k/128],z[j,k/128])"));
  EXPECT_THAT(refusal(problem, 16),
              HasSubstr("a B of i4 or i8 beside an A of f16 or bf16, not for e4m3"));
  EXPECT_THROW(Epilogue("acc + bias:i4[j]"), Error);
  EXPECT_THROW(Epilogue("acc + bias[j]").with_type(0, DType::i4), Error);
}

TEST_F(NarrowOnTheCpu, IsServedInC) {
  tilewise_options given = TILEWISE_OPTIONS_INIT;
  const std::string database = options.database;
  given.database = database.c_str();
  given.device = "host:sm_90a";
  tilewise_matmul* matmul = nullptr;
  ASSERT_EQ(tilewise_create(&given, &matmul), TILEWISE_OK) << tilewise_last_error();
  tilewise_problem problem = TILEWISE_PROBLEM_INIT;
  problem.layout = TILEWISE_NT, problem.m = 2, problem.n = 3, problem.k = 4;
  problem.operand = TILEWISE_F16, problem.operand_b = TILEWISE_I4, problem.result = TILEWISE_F16;
  const Stored a(DType::f16, 2, 4, 8, 1), b(DType::i4, 3, 4, 8, 2);
  std::vector<std::uint16_t> c(6);
  tilewise_call call = TILEWISE_CALL_INIT;
  call.a = a.bytes.data(), call.b = b.bytes.data(), call.c = c.data();
  call.lda = call.ldb = 8, call.ldc = 3;
  EXPECT_EQ(tilewise_multiply(matmul, &problem, &call), TILEWISE_OK) << tilewise_last_error();
  for (std::int64_t i = 0; i < 6; ++i) {
    double sum = 0;
    for (std::int64_t p = 0; p < 4; ++p) sum += a.at(i / 3, p) * b.at(i % 3, p);
    EXPECT_EQ(to_double(DType::f16, &c[static_cast<std::size_t>(i)]), sum);
  }
  EXPECT_EQ(tilewise_multiply_host(matmul, &problem, &call), TILEWISE_UNSUPPORTED);
  EXPECT_THAT(tilewise_last_error(), HasSubstr("one type"));
  problem.reserved = 1;
  EXPECT_EQ(tilewise_multiply(matmul, &problem, &call), TILEWISE_INVALID_ARGUMENT);
  tilewise_destroy(matmul);
}

}  // namespace
}  // namespace tilewise::narrow_host_test
