// Page-locked matrices of the caller: which are copied directly, and that the product is the same.
#include <algorithm>

#include "lazy_device.hpp"
#include "matmul_fixture.hpp"

namespace tilewise::host_direct_test {
namespace {

/// All of the caller's memory is page-locked. Counts direct copies, which are by rows.
class PageLocked : public test::LazyDevice {
 public:
  std::atomic<std::int64_t> bytes_up{0}, bytes_down{0};
  std::atomic<int> copies_up{0}, copies_down{0};

  bool page_locked(const void*, std::int64_t) const override { return true; }
  void copy_rows_to_device(void* to, std::int64_t to_pitch, const void* from,
                           std::int64_t from_pitch, std::int64_t row_bytes, std::int64_t rows,
                           Stream stream) override {
    ++copies_up, bytes_up += row_bytes * rows;
    Device::copy_rows_to_device(to, to_pitch, from, from_pitch, row_bytes, rows, stream);
  }
  void copy_rows_to_host(void* to, std::int64_t to_pitch, const void* from, std::int64_t from_pitch,
                         std::int64_t row_bytes, std::int64_t rows, Stream stream) override {
    ++copies_down, bytes_down += row_bytes * rows;
    Device::copy_rows_to_host(to, to_pitch, from, from_pitch, row_bytes, rows, stream);
  }
};

/// Runs fake_product() for each matrix of a batch.
void fake_products(const KernelSpec& kernel, const LaunchShape& shape, const void* arguments,
                   Stream stream) {
  FakeMultiplyArgs x;
  std::memcpy(&x, arguments, sizeof x);
  const std::int64_t one = std::int64_t{x.tiles_m} * x.tiles_n * std::max(x.splits, 1);
  for (std::int64_t z = 0; z < shape.grid.x / one; ++z) {
    fake_product(kernel, shape, &x, stream);
    x.a += x.stride_a, x.b += x.stride_b, x.c += x.stride_c;
  }
}

class HostDirect : public MatmulTest {
 protected:
  /// Computes and checks C = A B + 2 C by tiles within `limit` bytes. Rows are `extra` elements
  /// longer than necessary.
  void multiply(const Problem& p, std::int64_t extra, std::int64_t limit) {
    auto made = std::make_unique<PageLocked>();
    locked = made.get();
    locked->on_launch = fake_products;
    parts.device = std::move(made);
    parts.host.memory_limit = limit;
    parts.host.granule = 16;
    parts.host.single_bytes = 0;
    parts.host.chunk_bytes = 1000;
    parts.host.threads = 2;
    matmul.emplace(make_matmul(std::move(parts)));
    Call call;
    call.lda = min_lda(p) + extra, call.ldb = min_ldb(p) + extra, call.ldc = p.n + extra;
    call.stride_a = rows_a(p) * call.lda, call.stride_b = rows_b(p) * call.ldb;
    call.stride_c = p.m * call.ldc;
    const auto matrices = [&](std::int64_t stride, int seed) {
      std::vector<float> values(std::size_t(p.batch * stride));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = float((int(i % 1009) + seed) % 5);
      return values;
    };
    const auto a = matrices(call.stride_a, 1), b = matrices(call.stride_b, 2);
    auto c = matrices(call.stride_c, 3);
    const auto before = c;
    call.a = a.data(), call.b = b.data(), call.c = c.data();
    call.beta = 2;
    split = matmul->host_split(p, call);
    matmul->host(p, call);
    const auto at = [](std::int64_t i) { return std::size_t(i); };
    for (std::int64_t z = 0; z < p.batch; ++z)
      for (std::int64_t i = 0; i < p.m; ++i)
        for (std::int64_t j = 0; j < call.ldc; ++j) {
          const std::size_t place = at(z * call.stride_c + i * call.ldc + j);
          float want = before[place];
          if (j < p.n) {
            want *= 2;
            for (std::int64_t q = 0; q < p.k; ++q)
              want +=
                  a[at(z * call.stride_a +
                       (p.a.transposed ? q * call.lda + i : i * call.lda + q))] *
                  b[at(z * call.stride_b + (p.b.transposed ? j * call.ldb + q : q * call.ldb + j))];
          }
          ASSERT_EQ(c[place], want) << z << ", " << i << ", " << j;
        }
  }

  PageLocked* locked = nullptr;
  HostSplit split;
  std::optional<Matmul> matmul;
};

constexpr std::int64_t kPlenty = 100'000'000;

// Rows have 1,204 and 1,240 bytes.
TEST_F(HostDirect, LongRowsAreCopiedWithoutStaging) {
  multiply(problem_of(301, 310, 33, Layout::tn), 5, kPlenty);
  EXPECT_GT(locked->copies_up, 0);
  EXPECT_GT(locked->copies_down, 0);
  EXPECT_EQ(locked->bytes_down, 301 * 310 * 4);
  EXPECT_EQ(locked->bytes_up, (301 + 310) * 33 * 4 + 301 * 310 * 4);
  EXPECT_EQ(locked->uploaded_bytes, locked->bytes_up) << "nothing passes the staging buffers";
  EXPECT_EQ(locked->downloaded_bytes, locked->bytes_down);
}

// Rows of A and B have 132 bytes, those of C 1,240.
TEST_F(HostDirect, ShortRowsAreStaged) {
  multiply(problem_of(301, 310, 33, Layout::nt), 0, kPlenty);
  EXPECT_EQ(locked->bytes_up, 301 * 310 * 4) << "C alone";
  EXPECT_EQ(locked->bytes_down, 301 * 310 * 4);
  EXPECT_GT(locked->uploaded_bytes, locked->bytes_up);
}

// A tile of several matrices has one copy for each: a matrix of C has 1 MiB, those of A and B less.
TEST_F(HostDirect, LargeMatricesOfABatchAreCopiedOneByOne) {
  Problem p = problem_of(512, 512, 8, Layout::tn);
  p.batch = 4;
  multiply(p, 0, kPlenty);
  ASSERT_GT(split.tile_batch, 1);
  EXPECT_EQ(locked->copies_down, 4);
  EXPECT_EQ(locked->bytes_down, 4 * 512 * 512 * 4);
  EXPECT_EQ(locked->bytes_up, 4 * 512 * 512 * 4) << "C alone";
  EXPECT_EQ(locked->copies_up, 4);
}

TEST_F(HostDirect, SmallMatricesOfABatchAreStaged) {
  Problem p = problem_of(300, 300, 8, Layout::tn);
  p.batch = 4;
  multiply(p, 0, kPlenty);
  ASSERT_GT(split.tile_batch, 1);
  EXPECT_EQ(locked->copies_up, 0);
  EXPECT_EQ(locked->copies_down, 0);
}

}  // namespace
}  // namespace tilewise::host_direct_test
