// narrow: products of an A of f16 or bf16 and a B of fewer bits (weights), on tensor cores by warp-wide instructions.
//
// A is m x k, B is stored as n x k. The instruction's left operand is B: 16 columns of C by 8 rows. A block computes TILE_M
// rows and TILE_N columns of C. Tiles of A and B, TILE_K deep, pass through STAGES stages of shared memory, B as it is
// stored: memory is read once, and each weight becomes a 16-bit float in a register (words/narrow.cuh).
//
//     WARPS_N warps lie side by side along n, each with BLOCKS x 16 columns of C and all TILE_M rows.
//     WARPS_K warps share the k of a tile. Their sums are added at the end, in the order of the warps.
//
// A warp multiplies 32 steps of k at a time (a unit). The fragments of an instruction may have the steps of k in any
// order, as long as it is the same in both: lane l of the four of a row has the steps 8 l to 8 l + 7, which are neighbours
// in memory. Two instructions take four of them each.
//
// BYTES_A, BYTES_B: bytes of a copy (cp.async), at most the operand's alignment.
//
// SCALES (parts/pointwise.cuh): sums of kScaledSteps steps are multiplied by their scales and added in f32.
//
// From the problem: ELEMENT, ELEMENT_B, RESULT, SUM, BATCHED, GROUPED. SPLIT 1: writes partial sums, for the reduce step.
#include "families/narrow/layout.hpp"
#include "parts/epilogue.cuh"
#include "parts/schedule.cuh"
#include "words/mma.cuh"
#include "words/narrow.cuh"

static_assert(!A_TRANSPOSED && B_TRANSPOSED, "k is contiguous");

#if ELEMENT == TYPE_BF16
typedef MmaBf16 Op;
#else
typedef MmaF16 Op;
#endif
typedef Narrow<ELEMENT_B, ELEMENT> Weights;
constexpr int kBitsB = Weights::WORDS * 4;
#if SCALES
constexpr int kBytesOfScale = int(sizeof(ScaleOfB::Stored)), kStepsOfScale = kScaledSteps;
#else
constexpr int kBytesOfScale = 0, kStepsOfScale = TILE_K;
#endif
constexpr int kTileN = 16 * BLOCKS * WARPS_N;
constexpr tilewise::narrow::BlockLayout kLayout = {TILE_M, kTileN, TILE_K, WARPS_N, WARPS_K, STAGES, kBitsB,
                                                   kBytesOfScale, kStepsOfScale};
constexpr int kUnit = tilewise::narrow::kUnit;
constexpr int kThreads = kLayout.threads();
constexpr int kColumns = TILE_M / 8;  // instructions side by side along m
constexpr int kSlice = TILE_K / WARPS_K;  // of a tile's k, of a warp
static_assert(TILE_M % 8 == 0, "an instruction has 8 rows of C");
static_assert(kSlice % kUnit == 0, "a warp's part of a tile is whole units");
static_assert(kThreads <= 1024, "a block has at most 1024 threads");
#if SCALES
// Steps of a warp's part of a tile that have one scale.
constexpr int kBlock = kScaledSteps < kSlice ? kScaledSteps : kSlice;
static_assert(kSlice % kBlock == 0 && kBlock % kUnit == 0, "a warp's part of a tile is whole blocks of k");
static_assert(kScaledSteps % kBlock == 0, "a warp's part of a tile is in one block of k, or has whole ones");
#endif

typedef Sum Sums[BLOCKS][kColumns][Op::C];

// Copies tiles of an operand: ROWS rows of ROW_BYTES each, STRIDE bytes apart in shared memory. Rows that do not exist are
// not copied: their sums are not stored. Bytes behind the last step of k become zeros.
template <int ROWS, int ROW_BYTES, int STRIDE, int BYTES>
struct Copies {
  static constexpr int ACROSS = ROW_BYTES / BYTES, ALL = ROWS * ACROSS;
  const char* from;  // the thread's first copy of the part's first tile
  Int64 ld;          // bytes
  int to, rows;      // the copy's place in a tile; rows that exist, from the thread's first one on
  bool all_rows;

  DEVICE_MEMBER Copies(const char* first, Int64 row_bytes, int of_tile) : ld(row_bytes), all_rows(of_tile == ROWS) {
    const int row = int(threadIdx.x) / ACROSS, at = int(threadIdx.x) % ACROSS * BYTES;
    from = first + row * ld + at;
    to = row * STRIDE + at;
    rows = of_tile - row;
  }
  // left: bytes of a row that exist, from the tile's first one on.
  DEVICE_MEMBER void copy(char* stage, Int64 tile, int left) const {
    if (all_rows && left >= ROW_BYTES)
      copy_all<true>(stage, tile, left);
    else
      copy_all<false>(stage, tile, left);
  }
  template <bool WHOLE>
  DEVICE_MEMBER void copy_all(char* stage, Int64 tile, int left) const {
    const char* here = from + tile * ROW_BYTES;
    UNROLL_ALL
    for (int first = 0; first < ALL; first += kThreads) {
      const int row = first / ACROSS, at = first % ACROSS * BYTES;
      if (ALL % kThreads != 0 && first + int(threadIdx.x) >= ALL) break;
      if (!WHOLE && row >= rows) break;
      const int valid = WHOLE ? BYTES : left - at - int(threadIdx.x) % ACROSS * BYTES;
      copy_bytes_async<BYTES>(stage + to + row * STRIDE + at, valid > 0 ? here + row * ld + at : from, valid);  //@ narrow-copy
    }
  }
};

#if SCALES
typedef ScaleOfB::Stored Scale;
constexpr int kBlocksOfTile = kLayout.blocks_of_tile();

// The scales of B that belong to a tile: [kBlocksOfTile][kTileN] in shared memory. Those outside become 0.
struct ScaleTiles {
  const Scale* first;  // of the block's first column
  Int64 per_column, per_block;  // elements
  int columns;
  Int64 at, blocks;  // the part's first step of k; blocks of k up to the part's end
  bool in_runs;  // copied 16 bytes at a time

  static constexpr int RUN = 16 / int(sizeof(Scale));
  static constexpr int BYTES = kBlocksOfTile * kTileN * int(sizeof(Scale));

  DEVICE_MEMBER ScaleTiles(const MultiplyArgs& args, const Tile& tile, Int64 begin, Int64 steps)
      : columns(0), at(begin), blocks((begin + steps + kScaledSteps - 1) / kScaledSteps) {
    const Int64 left = args.n - tile.column;
    const auto address = [&](Int64 column, Int64 nth) { return ScaleOfB::address(args.pointwise, tile.batch, column, nth); };
    first = address(tile.column, 0);
    per_column = address(1, 0) - address(0, 0);
    per_block = ScaleOfB::step(args.pointwise);
    columns = left < kTileN ? int(left) : kTileN;
    in_runs = per_column == 1 && (reinterpret_cast<UInt64>(first) | UInt64(per_block) * sizeof(Scale)) % 16 == 0;
  }
  DEVICE_MEMBER void copy(Scale* to, Int64 tile) const {
    const Int64 of_tile = (at + tile * TILE_K) / kScaledSteps;
    if (in_runs) {
      for (int nth = threadIdx.x; nth < kBlocksOfTile * kTileN / RUN; nth += kThreads) {
        const Int64 block = of_tile + nth / (kTileN / RUN);
        const int column = nth % (kTileN / RUN) * RUN, valid = block < blocks ? (columns - column) * int(sizeof(Scale)) : 0;
        copy_bytes_async<16>(to + nth * RUN, first + (valid > 0 ? block * per_block + column : 0), valid);  //@ narrow-scales
      }
    } else {
      for (int nth = threadIdx.x; nth < kBlocksOfTile * kTileN; nth += kThreads) {
        const Int64 block = of_tile + nth / kTileN;
        const int column = nth % kTileN;
        const bool inside = block < blocks && column < columns;
        to[nth] = inside ? first[block * per_block + column * per_column] : Scale(0);  //@ narrow-scale
      }
    }
  }
};
#endif

typedef Copies<TILE_M, kLayout.row_bytes_a(), kLayout.stride_a(), BYTES_A> CopiesOfA;
typedef Copies<kTileN, kLayout.row_bytes_b(), kLayout.stride_b(), BYTES_B> CopiesOfB;

// sums += the products of a unit. a, b: of the lane's first row and of its eight steps of k.
DEVICE void multiply_unit(Sums& sums, const char* a, const char* b, unsigned (&not_a_number)[BLOCKS][2]) {
  unsigned from_a[kColumns][4];
  UNROLL_ALL
  for (int j = 0; j < kColumns; ++j)
    load_vector<4>(from_a[j], reinterpret_cast<const unsigned*>(a + j * 8 * kLayout.stride_a()));
  unsigned pairs[BLOCKS][2][4];
  UNROLL_ALL
  for (int i = 0; i < BLOCKS; ++i) {
    UNROLL_ALL
    for (int half = 0; half < 2; ++half) {
      unsigned words[Weights::WORDS];
      load_vector<Weights::WORDS>(words, reinterpret_cast<const unsigned*>(b + (i * 16 + half * 8) * kLayout.stride_b()));
      Weights::widen(pairs[i][half], words, not_a_number[i][half]);
    }
  }
  UNROLL_ALL
  for (int step = 0; step < 2; ++step) {
    unsigned left[BLOCKS][Op::A], right[kColumns][Op::B];
    UNROLL_ALL
    for (int i = 0; i < BLOCKS; ++i) {
      UNROLL_ALL
      for (int word = 0; word < Op::A; ++word) left[i][word] = pairs[i][word % 2][2 * step + word / 2];  //@ narrow-fragment
    }
    UNROLL_ALL
    for (int j = 0; j < kColumns; ++j) {
      UNROLL_ALL
      for (int word = 0; word < Op::B; ++word) right[j][word] = from_a[j][2 * step + word];
    }
    multiply_blocks<Op>(sums, left, right);
  }
}

KERNEL(kThreads, BLOCKS_PER_SM) narrow(ARGUMENTS MultiplyArgs args) {
  grid_dependency_wait();
  if (SPLIT) launch_dependents();
  char* shared = reinterpret_cast<char*>(shared_floats());
  const WorkTile work_tile = work_tile_of_block(args, TILE_M, kTileN);
  const Tile tile = work_tile.tile;
  const Int64 row_end = row_end_of(args, tile);
  const auto at_most = [](Int64 value, int most) { return value < most ? int(value) : most; };

  const Int64 share = k_share<SPLIT != 0, TILE_K>(args);
  const Int64 begin = SPLIT ? share * tile.split * TILE_K : 0;
  const Int64 part = begin + share * TILE_K < args.steps() ? share * TILE_K : args.steps() - begin;
  const int rows = at_most(row_end - tile.row, TILE_M), columns = at_most(args.n - tile.column, kTileN);
  const CopiesOfA copies_of_a(reinterpret_cast<const char*>(work_tile.a) + (tile.row * args.lda + begin) * 2, args.lda * 2, rows);
  const CopiesOfB copies_of_b(reinterpret_cast<const char*>(work_tile.b) + (tile.column * args.ldb + begin) * kBitsB / 8,
                              args.ldb * kBitsB / 8, columns);
  const int count = part > 0 ? int((part + TILE_K - 1) / TILE_K) : 0;

  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const int warp_n = warp % WARPS_N, warp_k = warp / WARPS_N;
  // Of the lane's first row of each tile, at its first steps of k, in a stage.
  const int of_a = lane / 4 * kLayout.stride_a() + (warp_k * kSlice + lane % 4 * 8) * 2;
  const int first_column = warp_n * BLOCKS * 16 + lane / 4;
  const int of_b = kLayout.bytes_a() + first_column * kLayout.stride_b() + (warp_k * kSlice + lane % 4 * 8) * kBitsB / 8;
#if SCALES
  const ScaleTiles scales(args, tile, begin, part);
#endif
  // Starts the copies of a tile.
  const auto copy = [&](int stage, int nth) {
    char* to = shared + stage * kLayout.stage_bytes();
    const int left = at_most(part - Int64(nth) * TILE_K, TILE_K);
    copies_of_a.copy(to, nth, left * 2);
    copies_of_b.copy(to + kLayout.bytes_a(), nth, (left * kBitsB + 7) / 8);  //@ narrow-left
#if SCALES
    scales.copy(reinterpret_cast<Scale*>(to + kLayout.scales_at()), nth);
#endif
  };

  Sums sums = {};
  unsigned not_a_number[BLOCKS][2] = {};
  UNROLL_ALL
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    if (stage < count) copy(stage, stage);
    copies_commit();
  }
  int stage = 0;
  for (int t = 0; t < count; ++t) {
    copies_done<STAGES - 2>();
    barrier();  //@ narrow-full
    const int next = t + STAGES - 1;
    if (next < count) copy(stage == 0 ? STAGES - 1 : stage - 1, next);
    copies_commit();
    const char* here = shared + stage * kLayout.stage_bytes();
#if SCALES
    const Scale* of_tile = reinterpret_cast<const Scale*>(here + kLayout.scales_at());
    UNROLL_ALL
    for (int block = 0; block < kSlice / kBlock; ++block) {
      Sums of_block = {};
      UNROLL_ALL
      for (int unit = 0; unit < kBlock / kUnit; ++unit) {
        const int step = block * kBlock + unit * kUnit;
        multiply_unit(of_block, here + of_a + step * 2, here + of_b + step * kBitsB / 8, not_a_number);
      }
      UNROLL_ALL
      for (int i = 0; i < BLOCKS * 2; ++i) {
        const int column = first_column + i * 8;
        const Sum scale = ScaleOfB::read(of_tile + (warp_k * kSlice + block * kBlock) / kScaledSteps * kTileN + column);  //@ narrow-block
        UNROLL_ALL
        for (int j = 0; j < kColumns; ++j) {
          UNROLL_ALL
          for (int e = i % 2 * 2; e < i % 2 * 2 + 2; ++e)
            sums[i / 2][j][e] = multiply_add(of_block[i / 2][j][e], scale, sums[i / 2][j][e]);  //@ narrow-scaled
        }
      }
    }
#else
    UNROLL_BY(4)
    for (int step = 0; step < kSlice; step += kUnit)
      multiply_unit(sums, here + of_a + step * 2, here + of_b + step * kBitsB / 8, not_a_number);
#endif
    stage = stage == STAGES - 1 ? 0 : stage + 1;
  }

  // A NaN of B makes its column of C NaN.
#if ELEMENT_B == TYPE_E4M3
  UNROLL_ALL
  for (int i = 0; i < 2 * BLOCKS; ++i) {
    unsigned any = not_a_number[i / 2][i % 2];
    any |= shuffle_xor(any, 1);
    any |= shuffle_xor(any, 2);  //@ narrow-nan-lanes
    UNROLL_ALL
    for (int j = 0; j < kColumns; ++j) {
      UNROLL_ALL
      for (int e = 0; e < 2; ++e)
        if (any) sums[i / 2][j][i % 2 * 2 + e] = float_of(0x7fc00000);
    }
  }
#endif

  copies_done<0>();
  barrier();  // the stages are read
  Sum* exchanged = reinterpret_cast<Sum*>(shared);  // [WARPS_K][TILE_M][kLayout.sum_stride()]
  UNROLL_ALL
  for (int i = 0; i < BLOCKS; ++i) {
    UNROLL_ALL
    for (int j = 0; j < kColumns; ++j) {
      UNROLL_ALL
      for (int e = 0; e < Op::C; ++e) {
        const FragmentPlace place = c_place<Op>(lane, e);  // row: along n
        exchanged[warp_k * kLayout.sums() + (j * 8 + place.column) * kLayout.sum_stride() + (warp_n * BLOCKS + i) * 16 + place.row] =
            sums[i][j][e];
      }
    }
  }
  barrier();
  [[maybe_unused]] const Scalars scalars = scalars_of(args);
  constexpr int ACROSS = kTileN / VECTOR_C;
  for (int nth = threadIdx.x; nth < TILE_M * ACROSS; nth += kThreads) {
    const int row = nth / ACROSS, column = nth % ACROSS * VECTOR_C;
    if (row >= rows || column >= columns) continue;
    Sum values[VECTOR_C];
    load_sums(values, exchanged + row * kLayout.sum_stride() + column);
    UNROLL_ALL
    for (int w = 1; w < WARPS_K; ++w) {
      Sum more[VECTOR_C];
      load_sums(more, exchanged + w * kLayout.sums() + row * kLayout.sum_stride() + column);
      UNROLL_ALL
      for (int e = 0; e < VECTOR_C; ++e) values[e] = add(values[e], more[e]);  //@ narrow-warps
    }
    const Int64 c_row = tile.row + row, c_column = tile.column + column;
#if SPLIT
    store_part<VECTOR_C>(work_tile.partial + c_row * args.n + c_column, values, 0, columns - column);
#else
    blend_part<VECTOR_C>(scalars, values, work_tile.c + c_row * args.ldc + c_column, 0, columns - column,
                         place_of(tile, c_row, c_column));
#endif
  }
}
