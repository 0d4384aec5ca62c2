// Which arrays share elements, compared with an enumeration of all addresses.
#include "tilewise/strided_array.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <vector>

namespace tilewise::strided_array_test {
namespace {

using Dims = std::vector<StridedArray::Dim>;

StridedArray array(std::uintptr_t address, std::int64_t element_bytes, const Dims& dims) {
  StridedArray made;
  made.data = reinterpret_cast<const void*>(address);
  made.element_bytes = element_bytes;
  for (const auto [size, stride] : dims) made.add(size, stride);
  return made;
}

/// The addresses of all elements, each as often as indices select it.
std::vector<std::intptr_t> addresses(const StridedArray& x) {
  std::vector<std::intptr_t> all{reinterpret_cast<std::intptr_t>(x.data)};
  for (int i = 0; i < x.count; ++i) {
    const auto [size, stride] = x.dims[std::size_t(i)];
    std::vector<std::intptr_t> next;
    for (const std::intptr_t address : all)
      for (std::int64_t index = 0; index < size; ++index)
        next.push_back(address + index * stride * x.element_bytes);
    all = std::move(next);
  }
  return all;
}

bool really_share(const StridedArray& x, const StridedArray& y) {
  std::set<std::intptr_t> bytes;
  for (const std::intptr_t address : addresses(x))
    for (std::int64_t i = 0; i < x.element_bytes; ++i) bytes.insert(address + i);
  for (const std::intptr_t address : addresses(y))
    for (std::int64_t i = 0; i < y.element_bytes; ++i)
      if (bytes.count(address + i)) return true;
  return false;
}

class Drawn {
 public:
  explicit Drawn(unsigned seed) : generator_(seed) {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator_);
  }
  /// An array with any strides.
  StridedArray any() {
    Dims dims;
    for (std::int64_t i = between(0, 4); i > 0; --i)
      dims.push_back({between(0, 4), between(-20, 20)});
    return array(std::uintptr_t(4000 + 4 * between(0, 60)), std::int64_t{1} << between(0, 3), dims);
  }
  /// A part of a row-major array of the given sizes: some indices along each dimension, in
  /// ascending or descending order.
  StridedArray part(const std::vector<std::int64_t>& sizes) {
    Dims dims;
    std::int64_t offset = 0, stride = 1;
    for (std::size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) {
      const std::int64_t first = between(0, sizes[i] - 1), last = between(first, sizes[i] - 1);
      const bool back = between(0, 1) == 1;
      offset += (back ? last : first) * stride;
      dims.push_back({last - first + 1, back ? -stride : stride});
    }
    return array(std::uintptr_t(4000 + 4 * offset), 4, dims);
  }

 private:
  std::mt19937 generator_;
};

TEST(ShareElements, NeverSaysNoWhereAnElementIsShared) {
  Drawn drawn(1);
  int apart = 0;
  for (int i = 0; i < 20000; ++i) {
    const StridedArray x = drawn.any(), y = drawn.any();
    const bool may = share_elements(x, y);
    if (really_share(x, y)) {
      ASSERT_TRUE(may) << i;
    }
    EXPECT_EQ(share_elements(y, x), may);
    apart += !may;
  }
  EXPECT_GT(apart, 2000);
}

TEST(ShareElements, IsExactForPartsOfOneArray) {
  Drawn drawn(2);
  int interleaved = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::int64_t> sizes;
    for (std::int64_t dims = drawn.between(1, 4); dims > 0; --dims)
      sizes.push_back(drawn.between(1, 6));
    const StridedArray x = drawn.part(sizes), y = drawn.part(sizes);
    const bool share = really_share(x, y);
    ASSERT_EQ(share_elements(x, y), share) << i;
    const auto of_x = addresses(x), of_y = addresses(y);
    const auto [first_x, last_x] = std::minmax_element(of_x.begin(), of_x.end());
    const auto [first_y, last_y] = std::minmax_element(of_y.begin(), of_y.end());
    interleaved += !share && *first_x <= *last_y && *first_y <= *last_x;
  }
  EXPECT_GT(interleaved, 1000);
}

TEST(ShareElements, HeadsOfOneBufferAreApart) {
  // [2048 rows, 16 heads, 3 parts, 64]: the batch of all queries next to that of all values.
  const Dims heads{{16, 192}, {2048, 16 * 192}, {64, 1}};
  const std::uintptr_t at = 1 << 20;
  EXPECT_FALSE(share_elements(array(at, 2, heads), array(at + 2 * 128, 2, heads)));
  EXPECT_TRUE(share_elements(array(at, 2, heads), array(at + 2 * 63, 2, heads)));
  // Elements of other sizes in rows with the same number of bytes.
  EXPECT_FALSE(share_elements(array(at, 2, {{100, 512}, {64, 1}}),
                              array(at + 128, 4, {{100, 256}, {100, 1}})));
  EXPECT_TRUE(share_elements(array(at, 2, {{100, 512}, {64, 1}}),
                             array(at + 127, 4, {{100, 256}, {100, 1}})));
}

TEST(ShareElements, ArraysWithoutElementsShareNone) {
  const StridedArray x = array(4000, 4, {{8, 1}});
  EXPECT_TRUE(share_elements(x, x));
  EXPECT_FALSE(share_elements(x, array(4000, 4, {{8, 1}, {0, 1}})));
}

TEST(ShareElements, NumbersThatNoMemoryHasAreNoProblem) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const StridedArray x = array(4000, 8, {{most, most}, {most, least}});
  EXPECT_TRUE(share_elements(x, array(64, 8, {})));
  EXPECT_FALSE(has_distinct_elements(array(64, 8, {{most, most}, {most, most}})));
  EXPECT_TRUE(has_distinct_elements(array(64, 8, {{most, most}, {4, 1}})));
  // The ends of the address space are not neighbours.
  EXPECT_FALSE(share_elements(array(~std::uintptr_t{0}, 1, {}), array(0, 1, {})));
}

TEST(HasDistinctElements, NeverSaysYesWhereIndicesShareAnElement) {
  Drawn drawn(3);
  int distinct = 0;
  for (int i = 0; i < 20000; ++i) {
    const StridedArray x = drawn.any();
    std::vector<std::intptr_t> all = addresses(x);
    const std::set<std::intptr_t> unique(all.begin(), all.end());
    if (has_distinct_elements(x)) {
      ASSERT_EQ(unique.size(), all.size()) << i;
      distinct += !all.empty();
    }
  }
  EXPECT_GT(distinct, 2000);
}

TEST(HasDistinctElements, OfEachPartOfAnArray) {
  Drawn drawn(4);
  for (int i = 0; i < 2000; ++i) EXPECT_TRUE(has_distinct_elements(drawn.part({3, 5, 1, 4})));
  EXPECT_FALSE(has_distinct_elements(array(4000, 4, {{3, 0}, {4, 1}})));
}

}  // namespace
}  // namespace tilewise::strided_array_test
