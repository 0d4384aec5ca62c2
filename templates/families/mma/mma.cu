// mma: the product on tensor cores by warp-wide instructions (mma.sync), for every type they have.
//
//                    TILE_N                   A block computes TILE_M x TILE_N of C, a warp WARP_M x WARP_N of it, in
//             +-----------------+             tiles of 16 x 8, one instruction each. Tiles of A and B, TILE_K deep,
//      TILE_K |        B        |             pass through a pipeline of STAGES stages in shared memory.
//             +-----------------+
//   +------+  +--------+--------+             Operands are staged as they lie in memory, k contiguous or not: warps
//   |  A   |  | warp   |        | TILE_M      read fragments of both (operand.cuh). The 16-byte chunks of a tile are
//   +------+  +--------+--------+             XOR-swizzled, so that neither copies nor reads have bank conflicts.
//    TILE_K
//
// Copies: TMA 0: the threads copy BYTES_A (BYTES_B) at a time, as the operand's alignment allows. A_ASYNC (B_ASYNC): by
// cp.async, else through registers. Below 4 bytes (16- and 8-bit types in rows of any alignment): the aligned chunks
// that hold the row are copied, and realigned in shared memory.
//
// TMA 1: one thread issues copies of whole tiles of both operands. Each warp waits on full barriers and arrives on
// empty barriers by itself; the main loop has no barrier of the whole block. BYTES_A (BYTES_B) below 16, then one
// element of 4 or 8 bytes: rows of any alignment, as row classes (row_classes.cuh).
//
// SLICE_K: sliced-K. SLICE_K groups of warps share the k of every tile, each with a full set of sums, added up at the
// end.
//
// MATH: 0 multiplies the operands as they are. 1 rounds f32 to tf32 (ROUNDED_A, ROUNDED_B 1: the operand's pack has
// rounded it). 2 splits f32 in a big and a small tf32 part and adds three products, big x small first ("3xTF32": Ootomo
// and Yokota, 2022, and CUTLASS's example 27). Where strict f32 gives an infinity or NaN, MATH 2 gives no finite
// number: NaN for most infinities, since infinity minus its big part is NaN. Numbers and products within 2^-11 of the
// largest f32 count as infinite.
//
// PROMOTE: 0 keeps sums in the tensor cores' accumulators, which truncate. Otherwise they are added to f32 sums,
// rounded to nearest, after every PROMOTE steps of k.
//
// FRAGMENTS: 1 reads a step's fragments before it multiplies them. 2 reads the next step's fragments, also those of the
// next tile, while it multiplies the current ones.
//
// EPILOGUE: 0 each thread writes the sums in its registers. 1 a warp passes them through shared memory, 16 rows at a
// time, and stores VECTOR_C neighbours at a time. SHIFT_C 1: C's rows may not be aligned to VECTOR_C elements.
//
// SPECIALIZE_SIZE 1: m, n, k, the number of splits and GROUP_M are constants (SIZE_M, SIZE_N, SIZE_K, SPLITS,
// TILE_ROWS_TOGETHER). Edges, divisions and loop counts are then known at compile time.
//
// SKIP_EDGE_WARPS 1: warps that lie wholly outside of C copy tiles, but do not multiply. The price is a branch in every
// step, across which the compiler moves no read.
//
// From the problem: ELEMENT, RESULT, SUM (types.cuh), A_TRANSPOSED, B_TRANSPOSED (as this kernel reads them), BATCHED.
// SPLIT 1: writes partial sums to c as [batch][split][m][n], for the reduce step.
#include "families/mma/main_loop.cuh"

// Adds the sums of the other groups to those of the first, in the order of the groups.
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
typedef StagedRow<WARP_N, VECTOR_C, SHIFT_C != 0> StagedSums;

// Sum e of lane l lies in row l / 4 + e / 2 x 8, column l % 4 x 2 + e % 2 of its 16 x 8 tile.
//
// The loop over rows of 16 x 8 tiles is not unrolled: its code would be most of the kernel's compilation. Registers
// cannot be indexed, so a row's sums are selected first.
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
          to.write<2>(row, place, ReaderB::place(j, 2 * in_group), pair);
        } else {
          to.write<1>(row, place, ReaderB::place(j, 2 * in_group), {pair[0]});
          to.write<1>(row, place, ReaderB::place(j, 2 * in_group + 1), {pair[1]});
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
      if (place < to.rows) StagedSums::write(to, place, i % ACROSS, rows + row * kRowStride);  //@ mma-store-row-c
    }
  }
#endif
}

KERNEL(kThreads, BLOCKS_PER_SM) mma(ARGUMENTS MmaArgs args) {
  char* shared = reinterpret_cast<char*>(shared_floats());  // STAGES x [A tile, B tile]
  const ThreadPosition thread;
  grid_dependency_wait();
#if CONDITIONAL
  if (!args.moduli.native()) return;
#endif
  if (SPLIT) launch_dependents();
  const WorkTile work_tile = work_tile_of_block(args, TILE_M, TILE_N);
  const Tile tile = work_tile.tile;
  if constexpr (GROUPED != 0) {
    if (!tile.any()) return;
  }
#if GROUPED_DEPTH
  const DepthRange steps = depth_of_product(args, tile.batch);
  const Int64 begin = steps.begin, end = steps.end;
#else
  const Int64 share = k_share<SPLIT != 0, TILE_K>(args);
  const Int64 begin = SPLIT ? share * tile.split * TILE_K : 0;
  const Int64 end = begin + share * TILE_K < args.steps() ? begin + share * TILE_K : args.steps();
#endif
  Sums sums = {};
  const bool any = (!SPLIT || end > begin) && args.has_product();
  multiply(sums, args, work_tile, {tile.row, tile.column, begin, any ? end : begin}, shared, thread);
  if (SLICE_K > 1 || EPILOGUE) barrier();  // the epilogue scratch replaces the tiles
  add_groups(sums, shared, thread);
  const Int64 row = tile.row + thread.warp_m, column = tile.column + thread.warp_n;
  const auto inside = [](Int64 left, int all) { return left < all ? static_cast<int>(left) : all; };
  const int rows = kWholeM ? WARP_M : inside(row_end_of(args, tile) - row, WARP_M);
  const int columns = kWholeN ? WARP_N : inside(args.columns() - column, WARP_N);
#if SPLIT
  const Output to{place_of(tile, row, column), work_tile.partial + row * args.columns() + column, args.columns(), rows, columns,
                  {}};
#else
  const Output to{place_of(tile, row, column), work_tile.c + row * args.ldc + column, args.ldc, rows, columns, scalars_of(args)};
#endif
#if SLICE_K > 1 && EPILOGUE
  barrier();  // write_sums() overwrites the scratch that add_groups() reads
#endif
  if (thread.group == 0) write_sums(to, sums, shared, thread);
}
