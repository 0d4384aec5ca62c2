// Column-major matrices by the recipe of matmul.hpp and matmul.h; conversions to Stream.
#include <set>
#include <type_traits>

#include "matmul_fixture.hpp"

struct CUstream_st {};  // CUDA's type, complete here so that a test can have one

namespace tilewise::column_major_test {
namespace {

// A matrix pointer as a stream does not compile.
static_assert(!std::is_convertible_v<float*, Stream>);
static_assert(!std::is_constructible_v<Stream, float*>);
static_assert(!std::is_convertible_v<void*, Stream>);
static_assert(!std::is_constructible_v<Stream, const void*>);
static_assert(!std::is_constructible_v<Stream, bool>);
// CUDA's handles convert: CUstream and cudaStream_t are pointers to CUstream_st.
static_assert(std::is_convertible_v<CUstream_st*, Stream>);
static_assert(std::is_convertible_v<std::nullptr_t, Stream>);
static_assert(std::is_constructible_v<Stream, void*>);
static_assert(std::is_constructible_v<Stream, std::nullptr_t>);
static_assert(std::is_trivially_copyable_v<Stream> && sizeof(Stream) == sizeof(void*));

TEST(Stream, IsItsHandle) {
  CUstream_st one, other;
  const Stream none = nullptr, also_none, first = &one, second = &other;
  EXPECT_EQ(none, also_none);
  EXPECT_FALSE(none);
  EXPECT_TRUE(first);
  EXPECT_EQ(first.handle(), &one);
  EXPECT_EQ(first, Stream(static_cast<void*>(&one)));
  EXPECT_NE(first, second);
  EXPECT_EQ((std::set<Stream>{first, second, first}).size(), 2u);
}

/// A matrix in column-major order: element (i, j) is at i + j ld.
struct ColumnMajor {
  ColumnMajor(std::int64_t rows, std::int64_t columns, float first)
      : ld(rows + 3), values(static_cast<std::size_t>(ld * columns), -99) {
    for (std::int64_t j = 0; j < columns; ++j)
      for (std::int64_t i = 0; i < rows; ++i) at(i, j) = first++;
  }
  float& at(std::int64_t i, std::int64_t j) { return values[static_cast<std::size_t>(i + j * ld)]; }
  std::int64_t ld;
  std::vector<float> values;
};

/// The layout with its two letters in reverse order.
Layout swapped(Layout layout) {
  return layout == Layout::nt ? Layout::tn : layout == Layout::tn ? Layout::nt : layout;
}

class ColumnMajorTest : public MatmulTest, public testing::WithParamInterface<Layout> {
 protected:
  // op(A) is m x k, op(B) k x n. As stored, in column-major order:
  const std::int64_t m = 3, n = 4, k = 5;
  const bool ta = a_transposed(GetParam()), tb = b_transposed(GetParam());
  ColumnMajor a{ta ? k : m, ta ? m : k, 1}, b{tb ? n : k, tb ? k : n, -7}, c{m, n, 100};

  /// 2 op(A) op(B) + C, element by element.
  ColumnMajor expected() {
    ColumnMajor result = c;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t p = 0; p < k; ++p)
          result.at(i, j) += 2 * (ta ? a.at(p, i) : a.at(i, p)) * (tb ? b.at(j, p) : b.at(p, j));
    return result;
  }
};

TEST_P(ColumnMajorTest, SwapsOperandsSizesAndLetters) {
  Matmul multiply = make_matmul(std::move(parts));
  const ColumnMajor right = expected();
  multiply(swapped(GetParam()), n, m, k, 2, b.values.data(), b.ld, a.values.data(), a.ld, 1,
           c.values.data(), c.ld);
  EXPECT_EQ(c.values, right.values);
}

TEST_P(ColumnMajorTest, SwapsTheSameInC) {
  tilewise_matmul* const handle = make_handle(make_matmul(std::move(parts)));
  const ColumnMajor right = expected();
  EXPECT_EQ(tilewise_sgemm(handle, static_cast<tilewise_layout>(swapped(GetParam())), n, m, k, 2,
                           b.values.data(), b.ld, a.values.data(), a.ld, 1, c.values.data(), c.ld,
                           nullptr),
            TILEWISE_OK)
      << tilewise_last_error();
  EXPECT_EQ(c.values, right.values);
  tilewise_destroy(handle);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ColumnMajorTest,
                         testing::Values(Layout::nn, Layout::nt, Layout::tn, Layout::tt),
                         [](const auto& one) { return std::string(to_string(one.param)); });

}  // namespace
}  // namespace tilewise::column_major_test
