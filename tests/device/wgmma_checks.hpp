#pragma once
// The products of templates/words/wgmma.cuh and the clusters of words/cluster.cuh, checked on any
// machine like warp_checks.hpp.
#include <cstddef>

#include "tests/device/warp_checks.hpp"
#include "tilewise/number.hpp"

namespace tilewise::test {

/// One warpgroup computes the product of a 64 x K and a K x WGMMA_N tile. K elements are 128 bytes,
/// which TMA copies in panels of SWIZZLE bytes. With ADDS the kernel adds `before`.
inline const char* const kProducts = R"(#include "words/cluster.cuh"
#include "words/wgmma.cuh"
struct Args { TensorMap left; TensorMap right; float* to; int before; };
template <int SPAN, bool ALONG_K, int SWIZZLE> struct Tile {
  static constexpr int SIZE = sizeof(Element), DEPTH = 128 / SIZE, IN_ROW = SWIZZLE / SIZE;
  static constexpr int PANEL = (ALONG_K ? SPAN : DEPTH) * SWIZZLE;
  static constexpr int PANELS = (ALONG_K ? DEPTH : SPAN) / IN_ROW, BYTES = PANELS * PANEL;
  static DEVICE_MEMBER void load(char* to, const TensorMap& map, Mbarrier* full) {
    for (int p = 0; p < PANELS; ++p) load_tile(to + p * PANEL, map, p * IN_ROW, 0, full);
  }
  static DEVICE_MEMBER MatrixDescriptor at(const char* tile, int step) {
    return matrix_descriptor(tile, {SWIZZLE, PANEL})
        .after(ALONG_K ? step * 32 / SWIZZLE * PANEL + step * 32 % SWIZZLE : step * 16 * SWIZZLE);
  }
};
KERNEL(128, 1) products(ARGUMENTS Args args) {
  typedef Tile<64, LEFT_K, LEFT_SWIZZLE> Left;
  typedef Tile<WGMMA_N, RIGHT_K, RIGHT_SWIZZLE> Right;
  char* shared = reinterpret_cast<char*>(shared_floats());
  constexpr int kRight = (Left::BYTES + 1023) / 1024 * 1024;
  Mbarrier* full = reinterpret_cast<Mbarrier*>(shared + kRight + (Right::BYTES + 127) / 128 * 128);
  if (threadIdx.x == 0) mbarrier_init(full, 1), mbarriers_ready();
  barrier();
  if (threadIdx.x == 0) {
    mbarrier_expect_tx(full, Left::BYTES + Right::BYTES);
    Left::load(shared, args.left, full);
    Right::load(shared + kRight, args.right, full);
  }
  mbarrier_wait(full, 0);
  Sum sums[WGMMA_N / 2];
  UNROLL_ALL
  for (int i = 0; i < WGMMA_N / 2; ++i) sums[i] = Sum(args.before);
  wgmma_fence();
  multiply_async<LEFT_K != 0, RIGHT_K != 0, ADDS != 0>(sums, Left::at(shared, 0), Right::at(shared + kRight, 0));
  UNROLL_ALL
  for (int step = 1; step < 4; ++step)
    multiply_async<LEFT_K != 0, RIGHT_K != 0>(
        sums, Left::at(shared, step), Right::at(shared + kRight, step));
  wgmma_commit();
  wgmma_wait<0>();
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  UNROLL_ALL
  for (int i = 0; i < WGMMA_N / 2; ++i)
    args.to[(16 * warp + lane / 4 + i / 2 % 2 * 8) * WGMMA_N + i / 4 * 8 + lane % 4 * 2 + i % 2] = float(sums[i]);
}
)";

struct ProductsCase {
  int n;
  bool left_along_k;
  int left_swizzle;
  bool right_along_k;
  int right_swizzle;
  DType type = DType::bf16;
  bool keep = true;
};

/// For bf16, every major order and swizzle of both operands, with widths that these allow. For the
/// other types, whose k is contiguous, every swizzle.
inline std::vector<ProductsCase> products_cases() {
  std::vector<ProductsCase> cases;
  for (const bool left : {true, false})
    for (const bool right : {true, false})
      for (const int swizzle : {128, 64, 32})
        for (const int n : {24, 64, 256}) {
          if (!right && n * 2 % swizzle != 0) continue;
          cases.push_back({n, left, n == 64 ? swizzle : 128, right, swizzle});
        }
  for (const DType type : {DType::f16, DType::f32, DType::i8, DType::e4m3, DType::e5m2})
    for (const int swizzle : {128, 64, 32})
      cases.push_back(
          {swizzle == 32 ? 24 : 2 * swizzle, true, 128, true, swizzle, type, swizzle != 64});
  return cases;
}

/// Small whole numbers, so that sums are exact.
inline int left_value(int row, int k) { return (row * 7 + k * 3) % 11 - 5; }
inline int right_value(int column, int k) { return (column * 5 + k * 2) % 13 - 6; }

/// The product of the elements left(row, k) and right(column, k) of a case, row by row.
template <class LeftValue, class RightValue>
std::vector<float> product_of(const Machine& machine, const ProductsCase& c, int before,
                              const LeftValue& left_of, const RightValue& right_of) {
  constexpr std::uint32_t kBytes = 64 * 1024;
  constexpr int kRows = 64;
  const int element = bytes_of(c.type), depth = 128 / element;
  struct alignas(64) Arguments {
    std::uint64_t left[16], right[16];
    void* to;
    int before;
  } arguments{};
  const auto encode = [&](int span, bool along_k, int swizzle, const auto& value, void* map) {
    std::vector<std::byte> matrix(static_cast<std::size_t>(span * depth * element));
    for (int i = 0; i < span; ++i)
      for (int k = 0; k < depth; ++k) {
        const int place = along_k ? i * depth + k : k * span + i;
        from_double(c.type, value(i, k), &matrix[static_cast<std::size_t>(place * element)]);
      }
    DeviceBuffer buffer = machine.upload(matrix);
    TensorMapRecipe recipe;
    recipe.type = c.type;
    recipe.dims = {along_k ? depth : span, along_k ? span : depth};
    recipe.box = {swizzle / element, static_cast<std::int32_t>(recipe.dims[1])};
    recipe.swizzle_bytes = swizzle;
    machine.device.encode_tensor_map(recipe, buffer.data(), recipe.dims[0] * element, map);
    return buffer;
  };
  const DeviceBuffer left = encode(kRows, c.left_along_k, c.left_swizzle, left_of, arguments.left);
  const DeviceBuffer right =
      encode(c.n, c.right_along_k, c.right_swizzle, right_of, arguments.right);
  const auto kernel = machine.load("products", kProducts,
                                   {{"ELEMENT", static_cast<int>(c.type)},
                                    {"SUM", static_cast<int>(accumulator_of(c.type))},
                                    {"WGMMA_N", c.n},
                                    {"LEFT_K", c.left_along_k},
                                    {"LEFT_SWIZZLE", c.left_swizzle},
                                    {"RIGHT_K", c.right_along_k},
                                    {"RIGHT_SWIZZLE", c.right_swizzle},
                                    {"ADDS", c.keep}},
                                   kBytes);
  const DeviceBuffer to =
      machine.upload(std::vector<float>(static_cast<std::size_t>(kRows * c.n), 77.0F));
  arguments.to = to.data();
  arguments.before = before;
  machine.device.launch(*kernel, {{1, 1, 1}, {128, 1, 1}, {}, kBytes, false}, &arguments, nullptr);
  return machine.download<float>(to);
}

inline void check_products(const Machine& machine, const ProductsCase& c) {
  constexpr int kRows = 64, kBefore = 3;
  const int depth = 128 / bytes_of(c.type);
  const auto got = product_of(machine, c, kBefore, left_value, right_value);
  for (int i = 0; i < kRows * c.n; ++i) {
    int expected = c.keep ? kBefore : 0;
    for (int k = 0; k < depth; ++k) expected += left_value(i / c.n, k) * right_value(i % c.n, k);
    ASSERT_EQ(got[static_cast<std::size_t>(i)], static_cast<float>(expected))
        << to_string(c.type) << ", n " << c.n << ", left along k " << c.left_along_k << " swizzle "
        << c.left_swizzle << ", right along k " << c.right_along_k << " swizzle " << c.right_swizzle
        << ", keep " << c.keep << ", element " << i;
  }
}

/// Checks that sums of 8-bit floats keep about 14 bits: when added to a product of 2^14, products
/// of 0.5 are lost, products of 4 are not. The CPU executor keeps exactly 14 bits, which is a unit
/// of 2 at 2^14.
inline void check_sums_of_fp8(const Machine& machine) {
  constexpr float kSmall[] = {0.5F, 4, 1, 2, 3, 5, -1, 7}, kKept[] = {0, 4, 0, 2, 2, 4, 0, 6};
  constexpr int kColumns = 64, kDepth = 128;
  const auto got = product_of(
      machine, {kColumns, true, 128, true, 128, DType::e4m3, true}, 0,
      [](int, int k) { return k == 0 ? 128.0 : 1.0; },
      [&](int column, int k) { return k == 0 ? 128.0 : double(kSmall[column % 8]); });
  for (int i = 0; i < 64 * kColumns; ++i) {
    const int kind = i % kColumns % 8;
    if (kind > 1 && !machine.device.info().target.host) continue;
    ASSERT_EQ(got[static_cast<std::size_t>(i)], 0x1p14F + float(kDepth - 1) * kKept[kind])
        << "products of " << kSmall[kind];
  }
}

/// Clusters of two blocks. Each block copies half of a tile of 8 x 8 floats to both blocks, and
/// adds the other block's number to its results.
inline const char* const kClusters = R"(#include "words/cluster.cuh"
struct Args { TensorMap map; float* to; };
KERNEL(64, 1) clusters(ARGUMENTS Args args) {
  char* shared = reinterpret_cast<char*>(shared_floats());
  Mbarrier* full = reinterpret_cast<Mbarrier*>(shared + 256);
  Mbarrier* heard = full + 1;
  const int block = block_of_cluster();
  if (threadIdx.x == 0) {
    mbarrier_init(full, 1);
    mbarrier_init(heard, 2);
    mbarriers_ready();
  }
  cluster_barrier();
  if (threadIdx.x == 0) {
    mbarrier_expect_tx(full, 256);
    load_tile_to(3, shared + block * 128, args.map, 0, int(blockIdx.x) / 2 * 8 + block * 4, full);
  }
  mbarrier_wait(full, 0);
  args.to[blockIdx.x * 64 + threadIdx.x] = reinterpret_cast<float*>(shared)[threadIdx.x] + 1000 * block;
  if (threadIdx.x < 2) mbarrier_arrive_in(heard, threadIdx.x);
  mbarrier_wait(heard, 0);
  cluster_barrier();
}
)";

inline void check_clusters(const Machine& machine) {
  constexpr int kClusterCount = 3, kTile = 64;
  constexpr std::uint32_t kBytes = 512;
  std::vector<float> matrix(kClusterCount * kTile);
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<float>(i);
  const DeviceBuffer from = machine.upload(matrix),
                     to = machine.upload(std::vector<float>(2 * kClusterCount * kTile));
  TensorMapRecipe recipe;
  recipe.dims = {8, 8 * kClusterCount};
  recipe.box = {8, 4};
  struct alignas(64) Arguments {
    std::uint64_t map[16];
    void* to;
  } arguments{{}, to.data()};
  machine.device.encode_tensor_map(recipe, from.data(), 32, arguments.map);
  const auto kernel = machine.load("clusters", kClusters, {}, kBytes);
  machine.device.launch(*kernel,
                        {{2 * kClusterCount, 1, 1}, {kTile, 1, 1}, {2, 1, 1}, kBytes, false},
                        &arguments, nullptr);
  const auto got = machine.download<float>(to);
  for (int i = 0; i < 2 * kClusterCount * kTile; ++i) {
    const int block = i / kTile;
    ASSERT_EQ(got[static_cast<std::size_t>(i)],
              static_cast<float>(block / 2 * kTile + i % kTile + block % 2 * 1000))
        << "block " << block << ", element " << i % kTile;
  }
}

}  // namespace tilewise::test
