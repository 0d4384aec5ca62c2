// small: a batch of many products of at most 64 x 64 x 64 in one launch.
//
// The sizes are constants of the kernel (SIZE_M, SIZE_N, SIZE_K). A group of threads computes PRODUCTS products, and
// synchronises only within itself: a block has GROUPS groups of one warp, or is one group. A group issues the copies of
// its whole operands to shared memory, waits once, and multiplies: a multiprocessor overlaps the copies of some groups
// with the multiplications of others.
//
// SPLIT_M: a product's rows are cut into SPLIT_M parts of SIZE_M rows, each computed as a product of its own, so that
// few products still reach all multiprocessors.
//
// A thread keeps THREAD_M x THREAD_N sums. Rows (columns) are dealt to threads in turn: one by one, or in runs where
// they are read or written as vectors.
//
// SQUARES 1: threads lie two by two: of thread t's neighbours t xor 1 and t xor 2, one reads the same values of A, the
// other the same of B, and shared memory merges their reads. 0: threads lie along a row of C.
//
// FRAGMENT_K: steps of k of one read, a vector where k is contiguous. UNROLL: such reads in a pass of the loop. PAD_A,
// PAD_B 1: rows, and products, lie an odd number of vectors apart, so that neighbouring threads read from different
// banks. VECTOR_C: elements of one store to C.
//
// From the problem: types.cuh, BATCHED, A_TRANSPOSED, B_TRANSPOSED; BYTES_A, BYTES_B (what a copy moves: it divides
// rows, leading dimensions and strides), A_ASYNC, B_ASYNC (copies by cp.async).
#include "families/small/layout.hpp"
#include "parts/epilogue.cuh"
#include "words/warp.cuh"

constexpr int kThreadsN = (SIZE_N + THREAD_N - 1) / THREAD_N;  // of a product, side by side
constexpr int kThreadsM = (SIZE_M + THREAD_M - 1) / THREAD_M;
constexpr int kProductThreads = kThreadsM * kThreadsN;
constexpr int kGroupThreads = tilewise::small::group_threads(PRODUCTS, kThreadsM, kThreadsN);
constexpr int kThreads = GROUPS * kGroupThreads;
static_assert(kThreads <= 1024, "a block has at most 1024 threads");
static_assert(GROUPS == 1 || kGroupThreads == 32, "a group is a warp, or the only one");
static_assert(!SQUARES || (kThreadsM % 2 == 0 && kThreadsN % 2 == 0), "squares of threads are whole");
static_assert(SIZE_K % FRAGMENT_K == 0, "all of k is read FRAGMENT_K at a time");
static_assert(SPLIT_M == 1 || PRODUCTS == 1, "a group's parts are whole products where there are several");

struct SmallArgs : MultiplyArgs {
  int products;  // in all; each part of a split product counts
};

using tilewise::layout::larger;

// One operand of a group's products in shared memory. SPAN: its m or n. THREADS threads side by side have THREAD rows
// (columns) each. ALONG_K: k is contiguous; a thread's rows (columns) then lie in runs of TOGETHER. BYTES, ASYNC: of
// its copies.
template <bool ALONG_K, int SPAN, int THREAD, int THREADS, int TOGETHER, int BYTES, bool ASYNC, bool PAD>
struct Operand {
  static constexpr int EACH = sizeof(Element);
  static constexpr tilewise::small::OperandLayout LAYOUT = {ALONG_K, EACH,  SPAN,  SIZE_K, THREAD,
                                                            THREADS, FRAGMENT_K, BYTES, PAD};
  static constexpr int ROWS = LAYOUT.rows();  // as stored
  static constexpr int ROW_BYTES = LAYOUT.row_bytes(), PITCH = LAYOUT.pitch(), PRODUCT = LAYOUT.product();
  static constexpr int RUN = LAYOUT.run();             // elements of one read
  static constexpr int STAGED_BYTES = LAYOUT.staged(PRODUCTS);  // of a group

  static constexpr int COPIES_A_ROW = ROW_BYTES / BYTES;  // copies of a row
  static constexpr int TOTAL = PRODUCTS * ROWS * COPIES_A_ROW;
  static constexpr int COPIES = (TOTAL + kGroupThreads - 1) / kGroupThreads;  // of a thread
  // REGULAR: the group copies STEP whole rows at a time, and STEP divides a product's rows or is a multiple of them. A
  // thread's copies then lie in one column, at distances that are the same for every thread.
  static constexpr int STEP = larger(kGroupThreads / COPIES_A_ROW, 1);
  static constexpr bool REGULAR = kGroupThreads % COPIES_A_ROW == 0 && (ROWS % STEP == 0 || STEP % ROWS == 0);
  static constexpr bool ALL = PRODUCTS * GROUPS == 1 && COPIES * kGroupThreads == TOTAL;
  static_assert(ROW_BYTES % BYTES == 0, "rows are whole copies");
  static_assert(!ASYNC || BYTES >= 4, "cp.async moves 4 bytes at least");

  // Issues this thread's copies of `count` products, from number `first` on. base: MultiplyArgs'; offset: of the first
  // element in its matrix.
  template <bool BY_POINTERS>
  static DEVICE_MEMBER void fetch(char* staged, const Element* base, Int64 ld, Int64 stride, Int64 first, Int64 offset,
                                  int count) {
    const Element* from = BY_POINTERS ? nullptr : base + first * stride + offset;
    const unsigned thread = threadIdx.x % kGroupThreads;
    UNROLL_BY(COPIES <= 16 ? COPIES : 8)
    for (int i = 0; i < COPIES; ++i) {
      const unsigned nth_copy = REGULAR ? thread : thread + unsigned(i * kGroupThreads);
      const unsigned nth = PRODUCTS == 1 && ALL ? 0 : nth_copy / (COPIES_A_ROW * ROWS), row = nth_copy / COPIES_A_ROW % ROWS;
      const unsigned at = nth_copy % COPIES_A_ROW * BYTES;
      const int more = REGULAR ? i * STEP / ROWS : 0, more_rows = REGULAR ? i * STEP % ROWS : 0;
      char* to = staged + (nth * PRODUCT + row * PITCH + at) + (more * PRODUCT + more_rows * PITCH);
      if (!ALL && int(nth) + more >= count) continue;
      const Element* source =
          BY_POINTERS ? matrix_of<BY_POINTERS>(base, 0, first + nth + more) + offset + (row + more_rows) * ld
                   : from + (nth * stride + row * ld) + (more * stride + more_rows * ld);
      copy(to, reinterpret_cast<const char*>(source) + at);
    }
  }
  static DEVICE_MEMBER void copy(char* to, const char* from) {
    if constexpr (ASYNC) {
      copy_bytes_async<BYTES>(to, from, BYTES);
    } else {
      typedef typename Carrier<BYTES>::Type Carried;
      *reinterpret_cast<Carried*>(to) = *reinterpret_cast<const Carried*>(from);
    }
  }

  // A thread's rows (columns) lie in runs of NEIGHBOURS. first(): the first of the place-th thread; beyond(): the
  // distance from it to the i-th.
  static constexpr int NEIGHBOURS = ALONG_K ? TOGETHER : RUN;
  static DEVICE_MEMBER int first(int place) { return place * NEIGHBOURS; }
  static DEVICE_MEMBER int beyond(int i) { return i / NEIGHBOURS * (NEIGHBOURS * THREADS) + i % NEIGHBOURS; }
  static DEVICE_MEMBER const char* begin(const char* staged, int place) {
    return staged + first(place) * (ALONG_K ? PITCH : EACH);
  }

  // Reads FRAGMENT_K steps of k of the thread's rows (columns). `from`: begin(), plus the step's offset.
  static DEVICE_MEMBER void read(Sum (&to)[FRAGMENT_K][THREAD], const char* from) {
    UNROLL_ALL
    for (int outer = 0; outer < (ALONG_K ? THREAD : FRAGMENT_K); ++outer) {
      UNROLL_ALL
      for (int inner = 0; inner < (ALONG_K ? FRAGMENT_K : THREAD); inner += RUN) {
        const int row = ALONG_K ? beyond(outer) : outer, column = ALONG_K ? inner : beyond(inner);
        Element run[RUN];
        load_vector<RUN>(run, reinterpret_cast<const Element*>(from + row * PITCH) + column);
        UNROLL_ALL
        for (int e = 0; e < RUN; ++e) {
          if constexpr (ALONG_K) {
            to[inner + e][outer] = widen(run[e]);
          } else {
            to[outer][inner + e] = widen(run[e]);
          }
        }
      }
    }
  }
  // From one step of k to the next.
  static constexpr int STEP_BYTES = ALONG_K ? EACH : PITCH;
};

typedef Operand<!A_TRANSPOSED, SIZE_M, THREAD_M, kThreadsM, 1, BYTES_A, A_ASYNC != 0, PAD_A != 0> OperandA;
typedef Operand<B_TRANSPOSED != 0, SIZE_N, THREAD_N, kThreadsN, VECTOR_C, BYTES_B, B_ASYNC != 0, PAD_B != 0> OperandB;
static_assert(OperandB::NEIGHBOURS % VECTOR_C == 0 && THREAD_N % VECTOR_C == 0,
              "a store moves neighbours that one thread has");
static_assert(SIZE_N % VECTOR_C == 0, "rows of C are whole vectors");

typedef Sum Sums[THREAD_M][THREAD_N];

DEVICE void multiply(Sums& sums, const char* a_staged, const char* b_staged) {
  UNROLL_BY(UNROLL)
  for (int k = 0; k < SIZE_K; k += FRAGMENT_K) {
    Sum a[FRAGMENT_K][THREAD_M], b[FRAGMENT_K][THREAD_N];
    OperandA::read(a, a_staged + k * OperandA::STEP_BYTES);
    OperandB::read(b, b_staged + k * OperandB::STEP_BYTES);
    UNROLL_ALL
    for (int d = 0; d < FRAGMENT_K; ++d) {
      UNROLL_ALL
      for (int i = 0; i < THREAD_M; ++i) {
        UNROLL_ALL
        for (int j = 0; j < THREAD_N; ++j) sums[i][j] = multiply_add(a[d][i], b[d][j], sums[i][j]);
      }
    }
  }
}

// Writes a thread's sums. row, column: the thread's first in its part of C; c, first: that element of C, and its place.
DEVICE void write(Result* c, Int64 ldc, const Scalars& scalars, const Sums& sums, int row, int column, const Place& first) {
  UNROLL_ALL
  for (int i = 0; i < THREAD_M; ++i) {
    UNROLL_ALL
    for (int j = 0; j < THREAD_N; j += VECTOR_C) {
      const int down = OperandA::beyond(i), right = OperandB::beyond(j);
      if ((kThreadsM * THREAD_M != SIZE_M && row + down >= SIZE_M) ||
          (kThreadsN * THREAD_N != SIZE_N && column + right >= SIZE_N))
        continue;
      Result* to = c + down * ldc + right;
      Sum run[VECTOR_C];
      UNROLL_ALL
      for (int e = 0; e < VECTOR_C; ++e) run[e] = sums[i][j + e];
      Result out[VECTOR_C];
      apply(scalars, run, out, [&](Result (&old)[VECTOR_C]) { load_vector<VECTOR_C>(old, to); },
            first.below(down).beside(right), [](int e) { return Offset{0, e}; });
      store_vector<VECTOR_C>(to, out);
    }
  }
}

DEVICE void group_barrier() {
  if constexpr (kGroupThreads == 32) {
    warp_barrier();
  } else {
    barrier();
  }
}

// The place of a thread among the threads of its product.
struct ThreadPlace {
  int m, n;
};
DEVICE ThreadPlace place_of(unsigned thread) {
#if SQUARES
  const unsigned rows = thread / (2 * kThreadsN), in = thread % (2 * kThreadsN);
  return {int(rows * 2 + in / 2 % 2), int(in / 4 * 2 + in % 2)};
#else
  return {int(thread / kThreadsN), int(thread % kThreadsN)};
#endif
}

KERNEL(kThreads, BLOCKS_PER_SM) small(ARGUMENTS SmallArgs args) {
  const unsigned group = threadIdx.x / kGroupThreads, thread = threadIdx.x % kGroupThreads;
  char* a = reinterpret_cast<char*>(shared_floats()) + group * (OperandA::STAGED_BYTES + OperandB::STAGED_BYTES);
  char* b = a + OperandA::STAGED_BYTES;
  // The group's first part, and how many it computes; several parts are whole products (SPLIT_M 1).
  const Int64 first = (Int64(blockIdx.x) * GROUPS + group) * PRODUCTS;
  const Int64 left = args.products - first;  // negative in a last block's groups without a product
  const int count = left < PRODUCTS ? static_cast<int>(left) : PRODUCTS;
  const Int64 product = first / SPLIT_M, row = first % SPLIT_M * SIZE_M;
  if (args.k > 0) {
    OperandA::fetch<POINTERS_A != 0>(a, args.a, args.lda, args.stride_a, product, row * (A_TRANSPOSED ? 1 : args.lda),
                                     count);
    OperandB::fetch<POINTERS_B != 0>(b, args.b, args.ldb, args.stride_b, product, 0, count);
    if (A_ASYNC || B_ASYNC) {
      copies_commit();
      copies_done<0>();
    }
  }
  group_barrier();

  const unsigned nth = thread / kProductThreads;
  const ThreadPlace place = place_of(thread % kProductThreads);
  if ((PRODUCTS * GROUPS > 1 || kProductThreads != kGroupThreads) && int(nth) >= count) return;
  Sums sums = {};
  if (args.k > 0)
    multiply(sums, OperandA::begin(a + nth * OperandA::PRODUCT, place.m),
             OperandB::begin(b + nth * OperandB::PRODUCT, place.n));
  const int thread_row = OperandA::first(place.m), thread_column = OperandB::first(place.n);
  Result* c = matrix_of<POINTERS_C != 0>(args.c, args.stride_c, product + nth) + (row + thread_row) * args.ldc +
              thread_column;
  write(c, args.ldc, scalars_of(args), sums, thread_row, thread_column,
        {row + thread_row, thread_column, product + nth});
}
