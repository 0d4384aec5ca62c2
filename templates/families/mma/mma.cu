// mma: the product on tensor cores by warp-wide instructions (mma.sync), for every type they have.
//
//                    TILE_N                   A block computes TILE_M x TILE_N of C; a warp WARP_M x WARP_N of
//             +-----------------+             them, in tiles of 16 x 8 that one instruction multiplies. Tiles of A
//      TILE_K |        B        |             and B, TILE_K deep, go through STAGES of shared memory.
//             +-----------------+
//   +------+  +--------+--------+             Operands are held as they lie in memory, whichever way that is:
//   |  A   |  | warp   |        | TILE_M      warps read fragments of either (operand.cuh). Pieces of 16 bytes
//   +------+  +--------+--------+             change places, so that neither copies nor reads meet in a bank.
//    TILE_K
//
// How tiles come: BYTES_A (BYTES_B) at a time, as the operand's alignment allows. A_ASYNC (B_ASYNC): by
// cp.async; else through registers. Below 4 bytes (16- and 8-bit types in rows of any length): as the aligned pieces
// around them, which are shifted in shared memory.
//
// TMA: one thread asks for whole tiles instead, of both operands. Warps wait for full stages and free them each by
// itself; no barrier holds the block together. BYTES_A (BYTES_B) below 16, an element of 4 or 8 bytes: rows of any
// length, as row classes (row_classes.cuh).
//
// Groups of warps: SLICE_K groups share the k of every tile, each with a full set of sums, added up at the end.
//
// MATH: 0 the operands as they are; 1 f32 rounded to tf32 (ROUNDED_A, ROUNDED_B: the operand's pack has rounded it);
// 2 f32 split in two tf32 parts, big and small, of which three
// products are added, big x small first ("3xTF32": Ootomo and Yokota, 2022, and CUTLASS's example 27). Where strict
// f32 gives an infinity or NaN, this does not give a finite number either, but NaN for most infinities (infinity less
// its big part is NaN); numbers and products within 2^-11 of the largest f32 count as infinite.
//
// PROMOTE: 0 sums stay in the tensor cores' accumulators, which truncate; else they are added to sums in f32 after
// every so many steps of k, rounded to nearest.
//
// FRAGMENTS 2 reads the next step's fragments, also those of the next tile, while the last are multiplied.
//
// EPILOGUE: 0 threads write their sums as they hold them; 1 a warp exchanges them through shared memory, 16 rows at
// a time, and writes VECTOR_C neighbours at a time. SHIFT_C: C's rows may not be aligned to these.
//
// SPECIALIZE_SIZE 1: m, n, k, the number of splits and GROUP_M are constants (SIZE_M, SIZE_N, SIZE_K, SPLITS, TILE_ROWS_TOGETHER). What they settle (edges, divisions, counts) is not
// computed, and the compiler sees how long loops are.
//
// SKIP_EDGE_WARPS 1: warps that lie wholly outside of C bring tiles, but do not multiply. It saves what they would do, and costs a
// branch in every step, before which the compiler moves no read.
//
// From the problem: ELEMENT, RESULT, SUM (types.cuh), A_TRANSPOSED, B_TRANSPOSED (as this kernel reads them), BATCHED.
// SPLIT: 1 writes partial sums to c as [batch][split][m][n] for the reduce step.
#include "families/mma/main_loop.cuh"

// Adds up the groups' sums, in the order of the groups, into those of the first.
DEVICE void add_groups([[maybe_unused]] Sums& sums, [[maybe_unused]] char* shared, [[maybe_unused]] const ThreadPosition& thread) {
#if SLICE_K > 1
  Sum* slots = reinterpret_cast<Sum*>(shared) + int(threadIdx.x) % kGroupThreads;
  constexpr int EACH = kRows * kColumns * 4;
  if (thread.group > 0) {
    UNROLL_ALL
    for (int i = 0; i < EACH; ++i)
      slots[((thread.group - 1) * EACH + i) * kGroupThreads] = sums[i / 4 / kColumns][i / 4 % kColumns][i % 4];
  }
  barrier();  //@ mma-barrier-before-group-sums
  if (thread.group > 0) return;
  UNROLL_ALL
  for (int g = 1; g < SLICE_K; ++g) {
    UNROLL_ALL
    for (int i = 0; i < EACH; ++i) {
      Sum& sum = sums[i / 4 / kColumns][i / 4 % kColumns][i % 4];
      sum = add(sum, slots[((g - 1) * EACH + i) * kGroupThreads]);  //@ mma-add-group-sums
    }
  }
#endif
}

typedef OutputTile<SPLIT != 0> Output;
typedef StagedRow<WARP_N, VECTOR_C, SHIFT_C != 0> StagedSums;  // of a row, in shared memory

// Lane l's sums e of an instruction's tile are in rows l / 4 and 8 on, columns l % 4 x 2 and 1 on.
//
// The code to write a row of instructions' tiles is there once, not for each: it is most of what there would be to
// compile. Registers have no index, so a row's sums are chosen first.
DEVICE void write_sums(const Output& to, const Sums& sums, [[maybe_unused]] char* shared, const ThreadPosition& thread) {
  const int group = thread.lane / 4, in_group = thread.lane % 4;
#if EPILOGUE == 0
  UNROLL_BY(1)
  for (int r = 0; r < kRows; ++r) {
    Sum now[kColumns][4];
    UNROLL_ALL
    for (int q = 0; q < kRows; ++q) {
      if (q > 0 && q != r) continue;
      UNROLL_ALL
      for (int i = 0; i < kColumns * 4; ++i) now[i / 4][i % 4] = sums[q][i / 4][i % 4];
    }
    UNROLL_ALL
    for (int half = 0; half < 2; ++half) {
      const int place = ReaderA::place(2 * r + half, group);
      if (place >= to.rows) continue;
      Output::Out* row = to.row(place);
      UNROLL_ALL
      for (int j = 0; j < kColumns; ++j) {
        const Sum pair[2] = {now[j][2 * half], now[j][2 * half + 1]};
        if constexpr (VECTOR_C > 1 && ReaderB::PAIRS) {
          to.write<2>(row, ReaderB::place(j, 2 * in_group), pair);
        } else {
          to.write<1>(row, ReaderB::place(j, 2 * in_group), {pair[0]});
          to.write<1>(row, ReaderB::place(j, 2 * in_group + 1), {pair[1]});
        }
      }
    }
  }
#else
  constexpr int ACROSS = StagedSums::STORES;
  Sum* rows = reinterpret_cast<Sum*>(shared) + thread.warp * 16 * kRowStride;
  UNROLL_BY(1)
  for (int r = 0; r < kRows; ++r) {
    warp_barrier();  //@ mma-barrier-before-epilogue-writes
    UNROLL_ALL
    for (int q = 0; q < kRows; ++q) {
      if (q != r) continue;
      UNROLL_ALL
      for (int i = 0; i < kColumns * 4; ++i) {
        const int j = i / 4, e = i % 4, slot = StagedSums::slot(ReaderB::place(j, 2 * in_group + e % 2));
        rows[(e / 2 * 8 + group) * kRowStride + slot] = sums[q][j][e];
      }
    }
    warp_barrier();  //@ mma-barrier-before-epilogue-reads
    UNROLL_BY(1)
    for (int n = 0; n < 16 * ACROSS; n += 32) {
      const int i = n + thread.lane;
      if (16 * ACROSS % 32 > 0 && i >= 16 * ACROSS) break;
      const int row = i / ACROSS, place = ReaderA::place(2 * r + row / 8, row % 8);
      if (place < to.rows) StagedSums::write(to, to.row(place), i % ACROSS, rows + row * kRowStride);  //@ mma-store-row-c
    }
  }
#endif
}

KERNEL(kThreads, BLOCKS_PER_SM) mma(ARGUMENTS MmaArgs args) {
  char* shared = reinterpret_cast<char*>(shared_floats());  // STAGES x [A tile, B tile]
  const ThreadPosition thread;
  grid_dependency_wait();
  if (SPLIT) launch_dependents();
  const WorkTile work_tile = work_tile_of_block(args, TILE_M, TILE_N);
  const Tile tile = work_tile.tile;
  const Int64 share = k_share<SPLIT != 0, TILE_K>(args);
  const Int64 begin = SPLIT ? share * tile.split * TILE_K : 0;
  const Int64 end = begin + share * TILE_K < args.steps() ? begin + share * TILE_K : args.steps();
  Sums sums = {};
  const bool any = (!SPLIT || end > begin) && args.has_product();
  multiply(sums, args, work_tile, {tile.row, tile.column, begin, any ? end : begin}, shared, thread);
  if (SLICE_K > 1 || EPILOGUE) barrier();  // the tiles are no longer read
  add_groups(sums, shared, thread);
  const Int64 row = tile.row + thread.warp_m, column = tile.column + thread.warp_n;
  const auto inside = [](Int64 left, int all) { return left < all ? static_cast<int>(left) : all; };
  const int rows = kWholeM ? WARP_M : inside(args.rows() - row, WARP_M);
  const int columns = kWholeN ? WARP_N : inside(args.columns() - column, WARP_N);
#if SPLIT
  const Output to{work_tile.partial + row * args.columns() + column, args.columns(), rows, columns, {}};
#else
  const Output to{work_tile.c + row * args.ldc + column, args.ldc, rows, columns, scalars_of(args)};
#endif
#if SLICE_K > 1 && EPILOGUE
  barrier();  // what add_groups() reads is written over
#endif
  if (thread.group == 0) write_sums(to, sums, shared, thread);
}
