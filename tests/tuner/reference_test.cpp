#include "tuner/reference/reference.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tilewise/error.hpp"
#include "tuner/reference/generate.hpp"
#include "tuner/reference/product.hpp"

namespace tilewise::reference_test {
namespace {

using Matrix = std::vector<float>;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr Layout kLayouts[] = {Layout::nn, Layout::nt, Layout::tn, Layout::tt};

Problem make_problem(std::int64_t m, std::int64_t n, std::int64_t k, Layout layout = Layout::nn) {
  Problem problem;
  set_layout(problem, layout);
  problem.m = m;
  problem.n = n;
  problem.k = k;
  return problem;
}

// The definition of the product, without the code under test.
double dot(const Problem& p, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
           std::int64_t i, std::int64_t j) {
  double sum = 0;
  for (std::int64_t l = 0; l < p.k; ++l) {
    const double x = p.a.transposed ? a[l * lda + i] : a[i * lda + l];
    const double y = p.b.transposed ? b[j * ldb + l] : b[l * ldb + j];
    sum += x * y;
  }
  return sum;
}

Matrix square_product(const Matrix& a, const Matrix& b, std::int64_t n) {
  Matrix c(static_cast<std::size_t>(n * n), kNaN);
  reference_multiply(Layout::nn, n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n);
  return c;
}

// ---- reference_multiply ----

TEST(ReferenceMultiply, AgreesWithTheDefinitionOnRandomShapes) {
  std::mt19937 random(7);
  const std::int64_t sizes[] = {0, 1, 2, 3, 5, 8, 13, 31, 64, 97, 193, 260};
  const auto pick = [&] { return sizes[random() % std::size(sizes)]; };
  std::uniform_real_distribution<float> value(-1, 1);
  for (int round = 0; round < 150; ++round) {
    const Problem p = make_problem(pick(), pick(), pick(), kLayouts[round % 4]);
    const std::int64_t lda = min_lda(p) + random() % 3, ldb = min_ldb(p) + random() % 3;
    const std::int64_t ldc = p.n + random() % 3;
    Matrix a(static_cast<std::size_t>(rows_a(p) * lda)),
        b(static_cast<std::size_t>(rows_b(p) * ldb));
    Matrix c(static_cast<std::size_t>(p.m * ldc));
    for (Matrix* matrix : {&a, &b, &c}) {
      for (float& x : *matrix) x = value(random);
    }
    const Matrix before = c;
    const double alpha = round % 3 ? -1.5 : 1, beta = round % 2 ? 0.5 : 0;
    reference_multiply(layout_of(p), p.m, p.n, p.k, alpha, a.data(), lda, b.data(), ldb, beta,
                       c.data(), ldc);
    for (std::int64_t i = 0; i < p.m; ++i) {
      for (std::int64_t j = 0; j < ldc; ++j) {
        const auto at = static_cast<std::size_t>(i * ldc + j);
        const double want =
            j >= p.n ? before[at]
                     : alpha * dot(p, a.data(), lda, b.data(), ldb, i, j) + beta * before[at];
        ASSERT_NEAR(c[at], want, 1e-6 * (1 + std::fabs(want)))
            << to_string(p) << " at " << i << "," << j;
      }
    }
  }
}

TEST(ReferenceMultiply, BetaZeroForgetsWhatWasInC) {
  const Matrix one = {1, 1};
  Matrix c = {kNaN};
  reference_multiply(Layout::nn, 1, 1, 2, 1, one.data(), 2, one.data(), 1, 0, c.data(), 1);
  EXPECT_EQ(c[0], 2);
}

TEST(ReferenceMultiply, AlphaZeroOrEmptyKTouchesNeitherAnorB) {
  const Matrix bad = {kNaN, kInf};
  Matrix c = {3};
  reference_multiply(Layout::nn, 1, 1, 2, 0, bad.data(), 2, bad.data(), 1, 2, c.data(), 1);
  EXPECT_EQ(c[0], 6);
  reference_multiply(Layout::nn, 1, 1, 0, 1, nullptr, 1, nullptr, 1, 2, c.data(), 1);
  EXPECT_EQ(c[0], 12);
  reference_multiply(Layout::nn, 1, 1, 0, 1, nullptr, 1, nullptr, 1, 0, c.data(), 1);
  EXPECT_EQ(c[0], 0);
}

TEST(ReferenceMultiply, NanAndInfinityComeOutOnlyWhereTheyBelong) {
  const std::int64_t n = 7;
  Matrix a(49, 1), b(49, 1);
  a[2 * 7 + 3] = kInf;
  b[5 * 7 + 4] = kNaN;
  const Matrix c = square_product(a, b, n);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const float x = c[static_cast<std::size_t>(i * n + j)];
      if (j == 4) {
        EXPECT_TRUE(std::isnan(x));
      } else if (i == 2) {
        EXPECT_EQ(x, kInf);
      } else {
        EXPECT_EQ(x, 7);
      }
    }
  }
}

// ---- known answers ----

Matrix adjacency(std::int64_t n, const std::vector<std::string>& edges) {
  Matrix m(static_cast<std::size_t>(n * n), 0);
  for (const std::string& edge : edges) {
    const std::int64_t i = edge[0] - 'A', j = edge[1] - 'A';
    m[static_cast<std::size_t>(i * n + j)] = m[static_cast<std::size_t>(j * n + i)] = 1;
  }
  return m;
}

TEST(KnownAnswers, PathsInAGraphOfTenVertices) {
  const Matrix m = adjacency(10, {"AB", "AC", "BC", "BD", "BF", "CD", "CE", "DF", "EH", "FG", "FH",
                                  "FI", "GH", "GI", "GJ", "HJ", "IJ"});
  const Matrix squared = square_product(m, m, 10);
  const Matrix cubed = square_product(squared, m, 10);
  const Matrix fourth = square_product(squared, squared, 10);
  const auto at = [](const Matrix& x, int i, int j) {  // counted from 1
    return x[static_cast<std::size_t>((i - 1) * 10 + j - 1)];
  };
  EXPECT_EQ(at(fourth, 2, 3), 22);
  EXPECT_EQ(at(fourth, 5, 5), 10);
  EXPECT_EQ(at(fourth, 10, 10), 25);
  EXPECT_EQ(at(fourth, 3, 10), 7);
  EXPECT_EQ(at(cubed, 3, 10), 1);
}

TEST(KnownAnswers, PathsOfLengthEightAmongFiveVertices) {
  const Matrix four_steps = {9, 3, 6,  11, 1, 3,  15, 8, 7,  11, 6, 8, 8,
                             8, 6, 11, 7,  8, 15, 3,  1, 11, 6,  3, 9};
  EXPECT_EQ(square_product(four_steps, four_steps, 5)[1], 208);
}

TEST(KnownAnswers, TwoSmallProducts) {
  const Matrix a = {1, 3, -1, 2, -2, 1}, b = {1, 2, 3, 4, 4, 3, 2, 1};
  Matrix c(12, kNaN);
  reference_multiply(Layout::nn, 3, 4, 2, 1, a.data(), 2, b.data(), 4, 0, c.data(), 4);
  EXPECT_EQ(c, (Matrix{13, 11, 9, 7, 7, 4, 1, -2, 2, -1, -4, -7}));
  const Matrix d = {1, 2, -1, 3, 2, -1}, e = {2, 0, -1, 1, 4, 3, 2, 1};
  reference_multiply(Layout::nn, 3, 4, 2, 1, d.data(), 2, e.data(), 4, 0, c.data(), 4);
  EXPECT_EQ(c, (Matrix{10, 6, 3, 3, 10, 9, 7, 2, 0, -3, -4, 1}));
}

TEST(KnownAnswers, TwosTimesThrees) {
  for (const std::int64_t n : {1, 10, 129, 300}) {
    const Matrix twos(static_cast<std::size_t>(n * n), 2), threes(twos.size(), 3);
    for (const float x : square_product(twos, threes, n)) ASSERT_EQ(x, 6 * n);
  }
}

// Whether Pascal's triangle in T times its signed twin, n x n, by `multiply`, is the identity.
template <typename T, typename Multiply>
bool pascal_inverse_is_exact(int n, const Multiply& multiply) {
  std::vector<T> l(static_cast<std::size_t>(n * n), 0);
  const auto at = [n](auto& x, int i, int j) -> T& {
    return x[static_cast<std::size_t>(i * n + j)];
  };
  for (int i = 0; i < n; ++i) {
    at(l, i, 0) = 1;
    for (int j = 1; j <= i; ++j) at(l, i, j) = at(l, i - 1, j - 1) + (j < i ? at(l, i - 1, j) : 0);
  }
  std::vector<T> twin(l), c(l);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) at(twin, i, j) *= (i + j) % 2 ? -1 : 1;
  }
  multiply(n, l.data(), twin.data(), c.data());
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      if (at(c, i, j) != (i == j ? 1 : 0)) return false;
    }
  }
  return true;
}

template <typename T, typename Multiply>
int largest_exact_pascal(const Multiply& multiply) {
  int n = 1;
  while (pascal_inverse_is_exact<T>(n + 1, multiply)) ++n;
  return n;
}

TEST(KnownAnswers, PascalsTriangleTimesItsSignedTwinIsTheIdentity) {
  // f32 matrices, f64 sums: exact as far as f32 holds the entries. C(27, 13) is above 2^24 but
  // even; C(28, 13) is the first rounded entry.
  const auto by_reference = [](int n, const float* a, const float* b, float* c) {
    reference_multiply(Layout::nn, n, n, n, 1, a, n, b, n, 0, c, n);
  };
  EXPECT_EQ(largest_exact_pascal<float>(by_reference), 28);

  // f64 throughout: exact as far as the terms of the alternating sums fit, which depends a little
  // on whether products are rounded before the addition.
  const auto in_f64 = [](int n, const double* a, const double* b, double* c) {
    const auto keep = [=](const ProductBlock& block) {
      for (std::int64_t i = 0; i < block.rows; ++i) {
        std::copy_n(block.values + i * block.ld, block.columns,
                    c + (block.row + i) * n + block.column);
      }
    };
    product(n, n, n, MatrixView::of(a, n), MatrixView::of(b, n), keep, {});
  };
  const int f64 = largest_exact_pascal<double>(in_f64);
  EXPECT_GE(f64, 36);
  EXPECT_LE(f64, 42);

  // f32 throughout, in order along k: what a strict f32 kernel can achieve.
  const auto in_f32 = [](int n, const float* a, const float* b, float* c) {
    for (int i = 0; i < n * n; ++i) {
      float sum = 0;
      for (int l = 0; l < n; ++l) sum = std::fma(a[i / n * n + l], b[l * n + i % n], sum);
      c[i] = sum;
    }
  };
  EXPECT_EQ(largest_exact_pascal<float>(in_f32), 20);
}

// ---- data ----

Matrix all_of(const TestData& data, int threads = 0) {
  Matrix values(static_cast<std::size_t>(data.rows() * data.columns()));
  data.fill_all(values.data(), threads);
  return values;
}

TEST(ReferenceData, IsTheSameForAnyNumberOfThreadsAndAnotherForAnotherSeed) {
  const Problem p = make_problem(300, 280, 290);
  const Reference one = Reference::compute(p, 5, 1), three = Reference::compute(p, 5, 3);
  ASSERT_EQ(one.block().bytes(), three.block().bytes());
  EXPECT_EQ(std::memcmp(one.block().data(), three.block().data(), one.block().bytes()), 0);
  const Reference other = Reference::compute(p, 6);
  const Matrix a = all_of(one.data(DataSet::bounded, DataOf::a), 1);
  EXPECT_EQ(a, all_of(one.data(DataSet::bounded, DataOf::a), 3));
  EXPECT_NE(a, all_of(other.data(DataSet::bounded, DataOf::a)));
}

TEST(ReferenceData, PartsOfItAreWhatTheWholeHoldsThere) {
  for (const std::int64_t k : {50, 12'000'000}) {  // for the latter, A is sparse
    for (const Layout layout : {Layout::nn, Layout::tn}) {
      const TestData data(make_problem(3, 2, k, layout), DataSet::exact, DataOf::a, 9);
      EXPECT_EQ(data.rows(), layout == Layout::nn ? 3 : k);
      EXPECT_EQ(data.columns(), layout == Layout::nn ? k : 3);
      const std::int64_t first = data.rows() * data.columns() / 3, count = 40;
      const Matrix whole = all_of(data);
      Matrix part(static_cast<std::size_t>(count));
      data.fill(first, count, part.data());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first));
      EXPECT_TRUE(data.matches(first, count, part.data()));
      EXPECT_FALSE(data.matches(first + 1, count, part.data()));
    }
  }
}

TEST(ReferenceData, ADifferenceAnywhereDoesNotMatch) {
  const TestData data(make_problem(40, 50, 60), DataSet::bounded, DataOf::b, 1);
  Matrix values = all_of(data);
  const auto count = static_cast<std::int64_t>(values.size());
  EXPECT_TRUE(data.matches(0, count, values.data()));
  for (std::size_t i = 0; i < values.size(); i += 97) {
    values[i] = -values[i];
    ASSERT_FALSE(data.matches(0, count, values.data())) << i;
    values[i] = -values[i];
  }
}

TEST(ReferenceData, BoundedIsInRangeNeverZeroAndCentred) {
  const Problem p = make_problem(200, 210, 190, Layout::tn);
  for (const DataOf operand : {DataOf::a, DataOf::b, DataOf::c0}) {
    const Matrix values = all_of(TestData(p, DataSet::bounded, operand, 1));
    double sum = 0, squares = 0;
    for (const float x : values) {
      ASSERT_TRUE(x != 0 && std::fabs(x) < 1);
      sum += x;
      squares += x * x;
    }
    const auto count = static_cast<double>(values.size());
    EXPECT_NEAR(sum / count, 0, 0.02);
    EXPECT_NEAR(squares / count, 1.0 / 3, 0.01);
  }
}

TEST(ReferenceData, ExactPartialSumsStayBelowTheAccumulatorsLimit) {
  for (const std::int64_t k : std::initializer_list<std::int64_t>{
           0, 1, 7, 4096, 65536, 1'000'000, 5'000'000, 6'000'000, 50'000'000, 10'000'000'000}) {
    const ExactRange range = exact_range(make_problem(4, 4, k));
    const auto magnitude = static_cast<double>(range.magnitude);
    const double terms = std::ceil(static_cast<double>(k) / static_cast<double>(range.a_period));
    EXPECT_GE(magnitude, 1);
    EXPECT_LT(3 * terms * magnitude * magnitude + 2 * 16, 0x1p24) << k;
    if (k <= 5'000'000) {
      EXPECT_EQ(range.a_period, 1) << k;
    }
  }
  EXPECT_EQ(exact_range(make_problem(4, 4, 64)).magnitude, 16);
}

TEST(ReferenceData, ExactIsOfIntegersAndSparseOnlyForVeryLongK) {
  const std::int64_t k = 12'000'000;
  for (const Layout layout : {Layout::nn, Layout::tn}) {
    const Problem p = make_problem(3, 1, k, layout);
    const Matrix a = all_of(TestData(p, DataSet::exact, DataOf::a, 1));
    const std::int64_t period = exact_range(p).a_period;
    EXPECT_EQ(period, 3);
    for (std::int64_t row = 0; row < 3; ++row) {
      std::int64_t nonzero = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const float x =
            a[static_cast<std::size_t>(layout == Layout::nn ? row * k + i : i * 3 + row)];
        ASSERT_TRUE(x == 0 || x == 1 || x == -1);
        nonzero += x != 0;
      }
      EXPECT_EQ(nonzero, k / period);
    }
  }
}

// ---- Reference: shared blocks ----

TEST(ReferenceBlock, AttachesToTheSameProblemOnly) {
  const Problem p = make_problem(20, 30, 40);
  const Reference reference = Reference::compute(p);
  const auto map = [&](std::size_t bytes) {
    return SharedBlock::map(dup(reference.block().fd()), bytes);
  };
  const Reference attached = Reference::attach(p, map(reference.block().bytes()));
  EXPECT_EQ(all_of(reference.data(DataSet::exact, DataOf::c0)),
            all_of(attached.data(DataSet::exact, DataOf::c0)));
  EXPECT_NE(reference.block().data(), attached.block().data());
  EXPECT_THROW(Reference::attach(make_problem(30, 20, 40), map(reference.block().bytes())), Error);
  EXPECT_THROW(Reference::attach(p, map(reference.block().bytes() - 64)), Error);
  EXPECT_THROW(map(reference.block().bytes() + (1 << 20)), Error);
}

TEST(ReferenceBlock, HoldsResultsAndNoOperands) {
  const auto bytes =
      static_cast<double>(Reference::compute(make_problem(64, 64, 5000)).block().bytes());
  EXPECT_LT(bytes, 64 * 64 * 16 + 4096) << "4 + 8 + 4 bytes an element of C";
}

TEST(ReferenceBlock, AnAbsurdSizeIsAnErrorWithNumbers) {
  try {
    Reference::compute(make_problem(1 << 22, 1 << 22, 16));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    EXPECT_NE(std::string(error.what()).find("MiB"), std::string::npos) << error.what();
  }
}

TEST(ReferenceBlock, SizesBeyond64BitsAreAnErrorWithNumbers) {
  const std::int64_t most = std::int64_t{1} << 40;
  try {
    Reference::compute(make_problem(most, most, most));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    EXPECT_NE(std::string(error.what()).find("TiB"), std::string::npos) << error.what();
  }
}

TEST(ReferenceBlock, RefusesNegativeSizesAndTypesThatNothingComputes) {
  EXPECT_THROW(Reference::compute(make_problem(-1, 2, 2)), Error);
  Problem mixed = make_problem(2, 2, 2);
  mixed.b.type = DType::f16;
  EXPECT_THROW(Reference::compute(mixed), Error);
  mixed.b.type = DType::f32;
  mixed.batch = -1;
  EXPECT_THROW(Reference::compute(mixed), Error);
}

}  // namespace
}  // namespace tilewise::reference_test
