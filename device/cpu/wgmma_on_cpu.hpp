// wgmma on the CPU. Issuing a product fills its sums with NaN; operands are read and sums computed
// when the thread waits for the product's group, as late as a GPU may. To the thread sanitizer the
// reads are those of the async proxy (FiberChecks) at the time of issue.
#pragma once

namespace tilewise_host {

// A matrix in shared memory by PTX's descriptor: bits 62-63 the swizzle, 32-45 the stride of groups
// of 8 rows and 16-29 that of panels, in 16 bytes. Swizzles depend on addresses in shared memory,
// which is aligned to the largest pattern. Along k: rows of m (n), elements of k.
template <bool ALONG_K>
struct MatrixInShared {
  const char* shared;
  long long start;
  int width, group_stride, panel_stride;

  TILEWISE_FOR_ALL MatrixInShared(const char* at, unsigned long long bits)
      : shared(static_cast<const char*>(thread().block->shared)),
        start(at - shared),
        width(bits >> 62 == 1 ? 128 : (bits >> 62 == 2 ? 64 : 32)),
        group_stride(static_cast<int>(bits >> 32 & 0x3fff) * 16),
        panel_stride(static_cast<int>(bits >> 16 & 0x3fff) * 16) {}

  // The element (index of m or n, step of k).
  template <class Element>
  TILEWISE_FOR_ALL const Element* at(int index, int k) const {
    constexpr int kBytes = sizeof(Element);
    const int in_row = width / kBytes;  // elements
    const long long offset = ALONG_K ? index / 8 * group_stride + index % 8 * width + kBytes * k
                                     : index / in_row * panel_stride + k / 8 * group_stride +
                                           k % 8 * width + index % in_row * kBytes;
    const long long place = start + offset;
    return reinterpret_cast<const Element*>(shared +
                                            (place ^ (place >> 7 & (width / 16 - 1)) << 4));
  }
  template <class Element, int K>
  TILEWISE_FOR_ALL void copy(Element (&to)[K], int index) const {
    for (int k = 0; k < K; ++k) to[k] = *at<Element>(index, k);
  }
  // A lane's share of a warp's reads of `count` rows (columns) from `first` on, in chunks of 16
  // bytes; each row (column) has 32 bytes.
  template <class Element>
  TILEWISE_FOR_ALL void read_share(int first, int count, int lane, void* pc) const {
    constexpr int kInChunk = 16 / sizeof(Element);
    for (int chunk = lane; chunk < 2 * count; chunk += 32) {
      const int index = ALONG_K ? chunk / 2 : chunk / 16 * 8;
      const int k = ALONG_K ? chunk % 2 * kInChunk : chunk % 16;
      hardware_reads(at<Element>(first + index, k), 16, pc);
    }
  }
};

// The number that is multiplied; of f32 the instruction ignores the low 13 bits.
inline float multiplied(float value) { return float_of_bits(bits_of_float(value) & 0xffffe000u); }
template <class Number>
inline typename Number::Wide multiplied_number(typename Number::Stored stored) {
  if constexpr (sizeof(stored) == 4)
    return multiplied(stored);
  else
    return Number::widen(stored);
}
// The sum and K products, as one instruction adds them.
template <int BYTES, int K>
inline void add_products(int& sum, const int (&x)[K], const int (&y)[K]) {
  for (int k = 0; k < K; ++k)
    sum = static_cast<int>(static_cast<unsigned>(sum) + static_cast<unsigned>(x[k] * y[k]));
}
// Of 8-bit floats Hopper aligns all to the largest one's exponent and keeps 14 bits of each, those
// down to 13 below the largest one's leading bit (DeepSeek-V3 Technical Report, arXiv:2412.19437,
// 3.5.2). Products and sums are far from subnormal.
template <int BYTES, int K>
inline void add_products(float& sum, const float (&x)[K], const float (&y)[K]) {
  constexpr unsigned kKept = 13, kExponent = 0x7f800000u;
  float plain = sum, largest = __builtin_fabsf(sum);
  for (int k = 0; k < K; ++k) {
    plain += x[k] * y[k];
    largest = __builtin_fmaxf(largest, __builtin_fabsf(x[k] * y[k]));
  }
  const unsigned exponent = bits_of_float(largest) & kExponent;
  // Infinity and NaN propagate as in other types.
  if (BYTES > 1 || !(plain - plain == 0) || exponent <= kKept << 23) {
    sum = plain;
    return;
  }
  const float unit = float_of_bits(exponent - (kKept << 23));
  int units = static_cast<int>(sum / unit);
  for (int k = 0; k < K; ++k) units += static_cast<int>(x[k] * y[k] / unit);
  sum = static_cast<float>(units) * unit;
}

template <class Number, int N, bool LEFT_ALONG_K, bool RIGHT_ALONG_K, bool KEEP>
inline void add_product(const AsyncProduct& product, void* of_thread) {
  using Stored = typename Number::Stored;
  using Wide = typename Number::Wide;  // also of sums
  constexpr int K = 32 / sizeof(Stored);
  Wide* const sums = static_cast<Wide*>(of_thread);
  const MatrixInShared<LEFT_ALONG_K> left(product.left, product.left_bits);
  const MatrixInShared<RIGHT_ALONG_K> right(product.right, product.right_bits);
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4,
            lane = static_cast<int>(threadIdx.x) % 32;
  Stored stored[K];
  Wide rows[2][K];
  for (int r = 0; r < 2; ++r) {
    left.copy(stored, warp * 16 + r * 8 + lane / 4);
    for (int k = 0; k < K; ++k) rows[r][k] = multiplied_number<Number>(stored[k]);
  }
  for (int j = 0; j < N / 8; ++j)
    for (int e = 0; e < 2; ++e) {
      Wide column[K];
      right.copy(stored, 8 * j + lane % 4 * 2 + e);
      for (int k = 0; k < K; ++k) column[k] = multiplied_number<Number>(stored[k]);
      for (int r = 0; r < 2; ++r) {
        Wide& sum = sums[4 * j + 2 * r + e];
        if (!KEEP) sum = 0;
        add_products<sizeof(Stored)>(sum, rows[r], column);
      }
    }
}

template <class Stored, int N, bool LEFT_ALONG_K, bool RIGHT_ALONG_K>
TILEWISE_FOR_ALL inline void read_operands(const AsyncProduct& product, void* pc) {
  const MatrixInShared<LEFT_ALONG_K> left(product.left, product.left_bits);
  const MatrixInShared<RIGHT_ALONG_K> right(product.right, product.right_bits);
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4,
            lane = static_cast<int>(threadIdx.x) % 32;
  runtime->async_proxy(true);
  left.template read_share<Stored>(warp * 16, 16, lane, pc);
  right.template read_share<Stored>(0, N, lane, pc);
  runtime->async_proxy(false);
}
template <class Number, int N, bool LEFT_ALONG_K, bool RIGHT_ALONG_K, bool KEEP, class Descriptor>
inline __attribute__((noinline)) void multiply_async(typename Number::Wide (&sums)[N / 2],
                                                     const Descriptor& left,
                                                     const Descriptor& right, Site site) {
  const AsyncProduct product{add_product<Number, N, LEFT_ALONG_K, RIGHT_ALONG_K, KEEP>,
                             sums,
                             sizeof sums,
                             left.at,
                             right.at,
                             left.bits,
                             right.bits,
                             site};
  if (kAccessesWatched)
    read_operands<typename Number::Stored, N, LEFT_ALONG_K, RIGHT_ALONG_K>(
        product, __builtin_return_address(0));
  runtime->product_start(product);
}

// A left operand in registers: the lanes of a row exchange their words, as they are at the issue.
template <class Number, int N, bool RIGHT_ALONG_K, bool KEEP>
inline void add_product_of_registers(const AsyncProduct& product, void* of_thread) {
  using Stored = typename Number::Stored;
  const MatrixInShared<RIGHT_ALONG_K> right(product.right, product.right_bits);
  const auto* rows = reinterpret_cast<const Stored(*)[16]>(product.left);
  float* const sums = static_cast<float*>(of_thread);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float left[2][16];
  for (int r = 0; r < 2; ++r)
    for (int k = 0; k < 16; ++k) left[r][k] = Number::widen(rows[r][k]);
  delete[] rows;
  for (int j = 0; j < N / 8; ++j)
    for (int e = 0; e < 2; ++e) {
      Stored stored[16];
      float column[16];
      right.copy(stored, 8 * j + lane % 4 * 2 + e);
      for (int k = 0; k < 16; ++k) column[k] = Number::widen(stored[k]);
      for (int r = 0; r < 2; ++r) {
        float& sum = sums[4 * j + 2 * r + e];
        if (!KEEP) sum = 0;
        add_products<2>(sum, left[r], column);
      }
    }
}
template <class Number, int N, bool RIGHT_ALONG_K, bool KEEP, class Descriptor>
inline __attribute__((noinline)) void multiply_async_of_registers(float (&sums)[N / 2],
                                                                  const unsigned (&left)[4],
                                                                  const Descriptor& right,
                                                                  Site site) {
  using Stored = typename Number::Stored;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  auto* rows = new Stored[2][16];
  for (int from = 0; from < 4; ++from)
    for (int word = 0; word < 4; ++word) {
      const unsigned both = shuffle(Shuffle::index, left[word],
                                    static_cast<unsigned>(lane / 4 * 4 + from), ~0u, site);
      const int k = word / 2 * 8 + from * 2;
      rows[word % 2][k] = static_cast<Stored>(both);
      rows[word % 2][k + 1] = static_cast<Stored>(both >> 16);
    }
  const AsyncProduct product{add_product_of_registers<Number, N, RIGHT_ALONG_K, KEEP>,
                             sums,
                             sizeof sums,
                             reinterpret_cast<const char*>(rows),
                             right.at,
                             0,
                             right.bits,
                             site};
  if (kAccessesWatched) {
    const MatrixInShared<RIGHT_ALONG_K> read(product.right, product.right_bits);
    runtime->async_proxy(true);
    read.template read_share<Stored>(0, N, lane, __builtin_return_address(0));
    runtime->async_proxy(false);
  }
  runtime->product_start(product);
}

// The whole warp commits and waits together.
inline void meet(const char* name, Site site) {
  runtime->warp({site, name, ~0u, false, nullptr, [](void* const*, const WarpCall&) {}});
}
inline void set_registers(int registers, bool raises, Site site) {
  meet("setmaxnreg", site);
  if (thread().lane == 0)
    while (!runtime->set_registers(registers, raises, resident_blocks, site)) runtime->yield(site);
  meet("setmaxnreg", site);
}
inline void wgmma_commit(Site site) {
  meet("wgmma_commit", site);
  runtime->products_commit();
}
inline void wgmma_wait(int pending, Site site) {
  meet("wgmma_wait", site);
  runtime->products_wait(pending);
}

}  // namespace tilewise_host
