// cuBLAS and cublasLt as baselines on a GPU: their products must be correct. Operands are small
// integers, so every product is exact up to the rounding of C.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "device/cuda/cublas_terms.hpp"
#include "gpu_fixture.hpp"
#include "tilewise/number.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::test::cublas_gpu_test {
namespace {

constexpr Layout kLayouts[] = {Layout::nn, Layout::nt, Layout::tn, Layout::tt};

Problem problem_of(const ProductKind& kind, Layout layout, const Size& size,
                   std::int64_t batch = 1) {
  Problem problem;
  set_layout(problem, layout);
  problem.m = size.m, problem.n = size.n, problem.k = size.k;
  problem.batch = batch;
  set_types(problem, kind);
  return problem;
}

std::vector<double> integers(std::int64_t count, std::size_t seed) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>((i * 7 + seed) % 5) - 2;
  return values;
}

std::vector<std::byte> stored(DType type, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(bytes_of(type)));
  narrow(type, values.data(), static_cast<std::int64_t>(values.size()), bytes.data());
  return bytes;
}

std::vector<double> values_of(DType type, const std::vector<std::byte>& bytes) {
  std::vector<double> values(bytes.size() / static_cast<std::size_t>(bytes_of(type)));
  widen(type, bytes.data(), static_cast<std::int64_t>(values.size()), values.data());
  return values;
}

/// The products computed by definition in f64.
std::vector<double> reference(const Problem& p, const Call& call, const std::vector<double>& a,
                              const std::vector<double>& b, std::vector<double> c) {
  for (std::int64_t matrix = 0; matrix < p.batch; ++matrix) {
    for (std::int64_t i = 0; i < p.m; ++i) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < p.k; ++l) {
          const auto at_a = p.a.transposed ? l * call.lda + i : i * call.lda + l;
          const auto at_b = p.b.transposed ? j * call.ldb + l : l * call.ldb + j;
          sum += a[static_cast<std::size_t>(matrix * call.stride_a + at_a)] *
                 b[static_cast<std::size_t>(matrix * call.stride_b + at_b)];
        }
        double& value = c[static_cast<std::size_t>(matrix * call.stride_c + i * call.ldc + j)];
        value = call.alpha * sum + (call.beta == 0 ? 0 : call.beta * value);
      }
    }
  }
  return c;
}

class CublasGpuTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    std::string why;
    cublas_ = cuda::load_cublas(*device_, &why);
    if (!cublas_) GTEST_SKIP() << why;
  }
  void TearDown() override {
    cublas_.reset();
    GpuTest::TearDown();
  }

  bool has_type(const ProductKind& kind) const {
    if (kind.a == DType::bf16) return !needs(Feature::mma_bf16);
    if (is_fp8(kind.a)) return !needs(Feature::mma_fp8);
    return true;
  }

  /// A call on the device with its expected result. Rows have `padding` extra elements; pointers
  /// are `offset` elements into their allocations.
  struct Trial {
    DeviceBuffer a, b, c;
    std::vector<std::byte> start, expected;
    Call call;
  };
  Trial make_trial(const Problem& problem, double alpha, double beta, std::int64_t padding,
                   std::int64_t offset = 0) {
    Trial trial;
    Call& call = trial.call;
    call.lda = min_lda(problem) + padding;
    call.ldb = min_ldb(problem) + padding;
    call.ldc = min_ldc(problem) + padding;
    call.stride_a = rows_a(problem) * call.lda;
    call.stride_b = rows_b(problem) * call.ldb;
    call.stride_c = problem.m * call.ldc;
    call.alpha = alpha, call.beta = beta;
    call.stream = stream_;
    const auto a = integers(problem.batch * call.stride_a, 1);
    const auto b = integers(problem.batch * call.stride_b, 4);
    const auto c = integers(problem.batch * call.stride_c, 2);
    trial.start = stored(problem.c.type, c);
    trial.expected = stored(problem.c.type, reference(problem, call, a, b, c));
    const auto place = [&](DeviceBuffer& buffer, const std::vector<std::byte>& bytes, DType type) {
      const std::int64_t before = offset * bytes_of(type);
      buffer = DeviceBuffer(*device_, before + std::ssize(bytes));
      auto* at = static_cast<std::byte*>(buffer.data()) + before;
      device_->copy_to_device(at, bytes.data(), std::ssize(bytes), stream_);
      return at;
    };
    call.a = place(trial.a, stored(problem.a.type, a), problem.a.type);
    call.b = place(trial.b, stored(problem.b.type, b), problem.b.type);
    call.c = place(trial.c, trial.start, problem.c.type);
    return trial;
  }

  void expect_right(const Problem& problem, const Trial& trial,
                    const std::function<void(const Call&)>& multiply, const std::string& what) {
    const auto size = static_cast<std::int64_t>(trial.start.size());
    device_->copy_to_device(trial.call.c, trial.start.data(), size, stream_);
    multiply(trial.call);
    EXPECT_EQ(values_of(problem.c.type, read<std::byte>(trial.call.c, trial.start.size())),
              values_of(problem.c.type, trial.expected))
        << to_string(problem) << " " << what;
  }
  void expect_right(BaselineLibrary& library, const Problem& problem, const Trial& trial) {
    const auto multiply = [&](const Call& call) { library.multiply(problem, call); };
    expect_right(problem, trial, multiply, "plain");
    const auto graph = device_->capture(stream_, [&] { multiply(trial.call); });
    expect_right(
        problem, trial, [&](const Call&) { graph->launch(stream_); }, "captured");
  }

  std::unique_ptr<BaselineLibrary> cublas_;
};

TEST_F(CublasGpuTest, SaysItsVersionAndWhatItSupports) {
  EXPECT_EQ(cublas_->name(), "cuBLAS");
  EXPECT_THAT(cublas_->version(), testing::MatchesRegex("1[2-9]\\.[0-9]+\\.[0-9]+"));
  Problem problem;
  EXPECT_FALSE(cublas_->supports(problem));
  problem.m = problem.n = problem.k = 1;
  EXPECT_TRUE(cublas_->supports(problem));
}

TEST_F(CublasGpuTest, EveryKindIsRightInAllLayoutsPlainAndCaptured) {
  for (const ProductKind& kind : product_kinds()) {
    for (const Layout layout : kLayouts) {
      const Problem problem = problem_of(kind, layout, {36, 20, 28});
      if (!cublas_->supports(problem) || !has_type(kind)) continue;
      expect_right(*cublas_, problem, make_trial(problem, 2, -1, 4));
      expect_right(*cublas_, problem, make_trial(problem, 1, 0, 0));
    }
  }
}

TEST_F(CublasGpuTest, EveryKindThatTakesThemIsRightOnOddRowsAndPointers) {
  for (const ProductKind& kind : product_kinds()) {
    if (is_integer(kind.a)) continue;
    for (const Layout layout : kLayouts) {
      const Problem problem = problem_of(kind, layout, {33, 17, 25});
      if (!cublas_->supports(problem) || !has_type(kind)) continue;
      expect_right(*cublas_, problem, make_trial(problem, 2, -1, 0, 1));
    }
  }
}

TEST_F(CublasGpuTest, ABatchOfEveryKindIsRight) {
  for (const ProductKind& kind : product_kinds()) {
    const Problem problem = problem_of(kind, Layout::nt, {8, 8, 16}, 5);
    if (!cublas_->supports(problem) || !has_type(kind)) continue;
    expect_right(*cublas_, problem, make_trial(problem, 2, -1, 8));
  }
}

TEST_F(CublasGpuTest, ScalarsOnTheDeviceHaveTheAccumulatorsType) {
  for (const ProductKind& kind : product_kinds()) {
    const Problem problem = problem_of(kind, Layout::nt, {16, 16, 16});
    if (!cublas_->supports(problem) || !has_type(kind)) continue;
    Trial trial = make_trial(problem, 3, -2, 0);
    const auto alpha = upload(stored(kind.accumulator, {3})),
               beta = upload(stored(kind.accumulator, {-2}));
    trial.call.alpha = trial.call.beta = 0;
    trial.call.alpha_device = alpha.data(), trial.call.beta_device = beta.data();
    expect_right(*cublas_, problem, trial);
  }
}

TEST_F(CublasGpuTest, WhatItIsNotAskedForIsRefusedByName) {
  Problem problem = problem_of(*find_product_kind(DType::i8, DType::i32, MathMode::strict),
                               Layout::nn, {5, 5, 5});
  set_alignment(problem, {1, 1, 4});
  EXPECT_FALSE(cublas_->supports(problem));
  try {
    cublas_->multiply(problem, {});
    ADD_FAILURE() << "rows of 5 bytes are not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_THAT(error.what(), testing::HasSubstr("multiples of 4"));
  }
}

TEST_F(CublasGpuTest, PedanticIsRight) {
  const auto pedantic = cuda::load_cublas(*device_, nullptr, cuda::CublasMath::pedantic);
  ASSERT_NE(pedantic, nullptr);
  const Problem problem =
      problem_of(product_kinds().front(), Layout::nn, {65, 33, 47});  // strict f32
  expect_right(*pedantic, problem, make_trial(problem, 2, -1, 0));
}

class CublasLtGpuTest : public CublasGpuTest {
 protected:
  void SetUp() override {
    CublasGpuTest::SetUp();
    if (IsSkipped()) return;
    std::string why;
    lt_ = cuda::load_cublas_lt(*device_, &why);
    if (!lt_) GTEST_SKIP() << why;
  }
  void TearDown() override {
    lt_.reset();
    CublasGpuTest::TearDown();
  }

  /// cublasLt's message if it refuses the candidate; empty if it enqueues the product.
  std::string refusal(int candidate, const Call& call) {
    try {
      lt_->multiply(candidate, call);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  /// Checks the product of every candidate that cublasLt accepts, the first one also captured.
  /// Returns their number; 0 if cublasLt refuses the problem.
  int check_all(const Problem& problem, std::int64_t offset = 0) {
    const Trial trial = make_trial(problem, 2, is_fp8(problem.c.type) ? 0 : -1, 0, offset);
    int found = 0;
    try {
      found = lt_->ask(problem, {&trial.call, 1}, 8);
    } catch (const Error& error) {
      std::printf("%s: %s\n", to_string(problem).c_str(), error.what());
      return 0;
    }
    EXPECT_LE(found, 8);
    std::vector<int> working;
    for (int candidate = 0; candidate < found; ++candidate) {
      const std::string what = "candidate " + std::to_string(candidate);
      if (const std::string why = refusal(candidate, trial.call); !why.empty()) {
        std::printf("%s, %s: %s\n", to_string(problem).c_str(), what.c_str(), why.c_str());
        continue;
      }
      working.push_back(candidate);
      expect_right(
          problem, trial, [&](const Call& call) { lt_->multiply(candidate, call); }, what);
    }
    if (working.empty()) return 0;
    const auto graph = device_->capture(stream_, [&] { lt_->multiply(working[0], trial.call); });
    expect_right(
        problem, trial, [&](const Call&) { graph->launch(stream_); }, "captured");
    return static_cast<int>(working.size());
  }
  std::unique_ptr<cuda::CublasLt> lt_;
};

TEST_F(CublasLtGpuTest, AllCandidatesOfEveryKindAreRightInAllLayouts) {
  EXPECT_THAT(lt_->version(), testing::MatchesRegex("1[2-9]\\.[0-9]+\\.[0-9]+"));
  for (const ProductKind& kind : product_kinds()) {
    for (const Layout layout : kLayouts) {
      const Problem problem = problem_of(kind, layout, {128, 64, 96});
      if (!cuda::why_not_cublas_lt(problem).empty() || !has_type(kind)) continue;
      const int working = check_all(problem);
      // i8 must support only layout nt.
      const bool required = !is_integer(kind.a) || layout == Layout::nt;
      EXPECT_GE(working, required ? 1 : 0) << to_string(problem);
    }
  }
}

TEST_F(CublasLtGpuTest, AllCandidatesAreRightOnOddRowsAndPointers) {
  for (const ProductKind& kind : product_kinds()) {
    if (bytes_of(kind.a) == 1 || !has_type(kind)) continue;
    for (const Layout layout : kLayouts) {
      EXPECT_GT(check_all(problem_of(kind, layout, {33, 17, 25})), 0);
      EXPECT_GT(check_all(problem_of(kind, layout, {132, 68, 92}), 1), 0);
    }
    EXPECT_GT(check_all(problem_of(kind, Layout::nn, {1, 256, 64})), 0);
  }
}

TEST_F(CublasLtGpuTest, ABatchIsRight) {
  for (const ProductKind& kind : product_kinds()) {
    if (bytes_of(kind.a) == 1 || !has_type(kind)) continue;
    EXPECT_GT(check_all(problem_of(kind, Layout::tn, {32, 32, 48}, 5)), 0);
  }
}

/// Their operands are whole numbers and GELU's arguments so large that it is the identity, or 0.
TEST_F(CublasLtGpuTest, EpiloguesAreRight) {
  struct Row {
    const char* text;
    double alpha, beta;
    double (*value)(double acc, double bias, double addend);
  };
  constexpr Row kRows[] = {
      {"acc + bias[j]", 2, -1, [](double acc, double bias, double) { return acc + bias; }},
      {"relu(acc + bias[j])", 2, -1,
       [](double acc, double bias, double) { return std::max(acc + bias, 0.0); }},
      {"relu(acc)", 2, 0, [](double acc, double, double) { return std::max(acc, 0.0); }},
      {"acc + beta * addend[i,j]", 2, 0,
       [](double acc, double, double addend) { return acc + 3 * addend; }},
      {"relu(acc + beta * addend[i,j] + bias[j])", 2, 0,
       [](double acc, double bias, double addend) {
         return std::max(acc + 3 * addend + bias, 0.0);
       }},
      {"gelu_tanh(acc + bias[j])", 4096, 0,
       [](double acc, double bias, double) { return std::max(acc + bias, 0.0); }},
      {"acc * scale_a * scale_b + bias[j]", 2, 0,
       [](double acc, double bias, double) { return acc * 0.5 * 4 + bias; }}};
  for (const auto& [operand, c] : {std::pair{DType::bf16, DType::bf16},
                                   {DType::f16, DType::f32},
                                   {DType::e4m3, DType::bf16}}) {
    const ProductKind& kind = *find_product_kind(operand, c, MathMode::strict);
    if (!has_type(kind)) continue;
    for (const Row& row : kRows) {
      const Epilogue epilogue(row.text);
      Problem problem = problem_of(kind, Layout::nt, {128, 64, 96});
      set_epilogue(problem, epilogue);
      if (!cuda::why_not_cublas_lt(problem).empty()) continue;
      Trial trial = make_trial(problem, row.alpha, row.beta, 0);
      std::vector<double> bias = integers(problem.n, 3);
      for (double& value : bias) value *= row.alpha;
      const auto addend = integers(problem.m * problem.n, 1);
      const auto on_device = [&](const std::vector<double>& values, DType type) {
        return upload(stored(type, values));
      };
      const auto biases = on_device(bias, c), addends = on_device(addend, c),
                 half = on_device({0.5}, DType::f32), four = on_device({4}, DType::f32);
      std::vector<EpilogueOperand> operands;
      for (const std::string& name : epilogue.names())
        operands.push_back(name == "bias"      ? EpilogueOperand{biases.data()}
                           : name == "addend"  ? EpilogueOperand{addends.data(), problem.n}
                           : name == "beta"    ? EpilogueOperand{.value = 3}
                           : name == "scale_a" ? EpilogueOperand{half.data()}
                                               : EpilogueOperand{four.data()});
      trial.call.operands = operands;
      std::vector<double> expected =
          reference(problem, trial.call, integers(problem.m * problem.k, 1),
                    integers(problem.n * problem.k, 4), integers(problem.m * problem.n, 2));
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] =
            row.value(expected[i], bias[i % static_cast<std::size_t>(problem.n)], addend[i]);
      trial.expected = stored(c, expected);
      const int found = lt_->ask(problem, {&trial.call, 1}, 8);
      int working = 0;
      for (int candidate = 0; candidate < found; ++candidate) {
        if (!refusal(candidate, trial.call).empty()) continue;
        ++working;
        expect_right(
            problem, trial, [&](const Call& call) { lt_->multiply(candidate, call); },
            "candidate " + std::to_string(candidate));
      }
      EXPECT_GT(working, 0) << to_string(problem);
    }
  }
}

TEST_F(CublasLtGpuTest, GelusArgumentAndItsDerivativeAreRight) {
  const ProductKind& kind = *find_product_kind(DType::bf16, DType::bf16, MathMode::strict);
  if (!has_type(kind)) GTEST_SKIP() << "no bf16";
  for (const bool backward : {false, true}) {
    const Epilogue epilogue = *cuda::epilogue_of(
        {backward ? cuda::kLtOfGeluAndBias : cuda::kLtGeluAux | cuda::kLtWithBias});
    Problem problem = problem_of(kind, Layout::nt, {128, 64, 96});
    set_epilogue(problem, epilogue);
    Trial trial = make_trial(problem, 4096, 0, 0);
    const std::vector<double> product =
        reference(problem, trial.call, integers(problem.m * problem.k, 1),
                  integers(problem.n * problem.k, 4), integers(problem.m * problem.n, 2));
    const auto n = static_cast<std::size_t>(problem.n);
    // Backward: the derivative is 1 in even rows and 0 in odd ones.
    std::vector<double> aux(product.size()), expected = product, vector = integers(problem.n, 3);
    for (double& value : vector) value *= trial.call.alpha;
    for (std::size_t i = 0; i < aux.size(); ++i) aux[i] = i / n % 2 == 0 ? 64 : -64;
    if (backward) {
      std::fill(vector.begin(), vector.end(), 0.0);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] = aux[i] > 0 ? product[i] : 0;
        vector[i % n] += expected[i];
      }
    } else {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        aux[i] = product[i] + vector[i % n];
        expected[i] = std::max(aux[i], 0.0);
      }
    }
    trial.expected = stored(kind.c, expected);
    const std::vector<double> zeros(aux.size()), no_sums(n);
    const DeviceBuffer matrix = upload(stored(kind.c, backward ? aux : zeros)),
                       line = upload(stored(kind.c, backward ? no_sums : vector));
    std::vector<EpilogueOperand> operands(epilogue.operands());
    operands[epilogue.slot("aux")] = {matrix.data(), problem.n};
    operands[epilogue.slot("bias")] = {line.data()};
    trial.call.operands = operands;
    ASSERT_GT(lt_->ask(problem, {&trial.call, 1}, 8), 0) << to_string(problem);
    expect_right(
        problem, trial, [&](const Call& call) { lt_->multiply(0, call); }, "first candidate");
    const auto read_back = [&](const DeviceBuffer& from, std::size_t count) {
      return values_of(kind.c, read<std::byte>(from.data(), count * 2));
    };
    if (backward) {
      const std::vector<double> sums = read_back(line, n);
      for (std::size_t j = 0; j < n; ++j)
        EXPECT_NEAR(sums[j], vector[j], 0x1p-6 * std::abs(vector[j]) + 4096 * 16) << j;
    } else {
      EXPECT_EQ(read_back(matrix, aux.size()), values_of(kind.c, stored(kind.c, aux)));
    }
  }
}

TEST_F(CublasLtGpuTest, WhatItIsNotAskedForIsRefusedByName) {
  const auto refusal = [&](const Problem& problem) -> std::string {
    const Call call;
    try {
      lt_->ask(problem, {&call, 1}, 8);
    } catch (const Error& error) {
      return error.what();
    }
    return "not refused";
  };
  const ProductKind& e4m3 = *find_product_kind(DType::e4m3, DType::f32, MathMode::strict);
  EXPECT_THAT(refusal(problem_of(e4m3, Layout::nn, {64, 64, 64})), testing::HasSubstr("layout nt"));
  EXPECT_THAT(refusal(problem_of(product_kinds().front(), Layout::nn, {0, 64, 64})),
              testing::HasSubstr("empty"));
}

}  // namespace
}  // namespace tilewise::test::cublas_gpu_test
