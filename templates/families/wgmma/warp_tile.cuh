// What a warp of wgmma stores: its tile of C, and the parts of it that are stored together. See wgmma.cu.
#pragma once
#include "families/wgmma/main_loop.cuh"
#include "words/mma.cuh"

// Whether operands of the caller's epilogue are loaded while the last instructions of a tile run.
#define OPERANDS_AHEAD (POINTWISE && EPILOGUE >= 2)

// The output tile of a warp's 16 rows of the left operand, in its 64 rows of instruction i.
struct WarpTile {
  const WgmmaArgs& args;
  const Scalars& scalars;
  const WorkItem& work;
  int first_left;  // of the block's tile: the warp's first row of the left operand
#if OPERANDS_AHEAD
  struct AheadOperands& ahead;
#endif

  // Whether elements are loaded by TMA before their results are laid down: C's old ones, or those of a matrix of the epilogue.
  DEVICE_MEMBER bool loads() const;

  // The instruction's first row of the left operand, and its first of the right one, of the block's tile.
  static DEVICE_MEMBER int left_of(int i) { return i / kAcross * 64; }
  static DEVICE_MEMBER int right_of(int i) { return i % kAcross * WGMMA_N; }  //@ wgmma-right-of

  // Of an element: `left` and `right` from the instruction's first rows and the warp's on.
  DEVICE_MEMBER Place place(int i, int left, int right) const {
    const Int64 of_left = first_left + left_of(i) + left, of_right = right_of(i) + right;
    return work.place(work.row + (SWAP_AB ? of_right : of_left), work.column + (SWAP_AB ? of_left : of_right));
  }
  // `width` of the right operand, from the instruction's row `first_right` on.
  DEVICE_MEMBER Output part(int i, int first_right, int width) const {
    const Int64 left = first_left + left_of(i);
    const int right = right_of(i) + first_right;
    const Int64 row = work.row + (SWAP_AB ? right : left), column = work.column + (SWAP_AB ? left : right);
    const auto inside = [](Int64 rest, int all) { return rest < all ? static_cast<int>(rest) : all; };
    const int rows = inside(work.end_of_rows(args) - row, SWAP_AB ? width : 16);
    const int columns = inside(args.columns() - column, SWAP_AB ? 16 : width);  //@ wgmma-columns
#if SPLIT
    const Int64 part = BATCHED ? Int64(work.product) * args.parts() + work.split : work.split;
    Sum* partial = reinterpret_cast<Sum*>(args.c) + part * args.rows() * args.columns();
    return {work.place(row, column), partial + row * args.columns() + column, args.columns(), rows, columns, {}};
#else
    Result* c = BATCHED ? matrix_of<POINTERS_C != 0>(args.c, args.stride_c, work.product) : args.c;
    return {work.place(row, column), c + row * args.ldc + column, args.ldc, rows, columns, scalars};
#endif
  }
};

[[maybe_unused]] DEVICE char* scratch_of_warp(char* shared) {
  return shared + kLayout.scratch_at() + (int(threadIdx.x) / 32 - 4) * kEpilogue.bytes();  //@ wgmma-scratch
}

#if EPILOGUE >= 2
static_assert(!SPLIT && (EPILOGUE == 2 || !SWAP_AB), "C is stored, in rows of C");

// What is laid down and stored together, of a work item: the results of kPartSpan rows of the right operand, or of the last
// ones of an instruction, and of the warp's 16 rows of the left operand (SWAP_AB: of the warpgroup's 64).
constexpr int kPartSpan = SWAP_AB ? kStored.kMostRows : kStored.columns;
constexpr int kPartsOfInstruction = tilewise::layout::ceil_div(WGMMA_N, kPartSpan);  //@ wgmma-parts
constexpr int kParts = kInstructions * kPartsOfInstruction;
template <int NTH_>
struct Part {
  static constexpr int NTH = NTH_, INSTRUCTION = NTH / kPartsOfInstruction;
  static constexpr int FIRST = NTH % kPartsOfInstruction * kPartSpan;  //@ wgmma-part-first
  static constexpr int SPAN = tilewise::layout::smaller(kPartSpan, WGMMA_N - FIRST);
};
// Calls each(Part<0>()), each(Part<1>()), ... A loop would not do: NVRTC does not unroll all loops with waits in them, and
// sums at places that are not constant would lie in memory.
template <int FIRST = 0, class Each>
DEVICE void for_parts(const Each& each) {
  each(Part<FIRST>());
  if constexpr (FIRST + 1 < kParts) for_parts<FIRST + 1>(each);
}
#endif
