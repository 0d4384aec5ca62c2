// wgmma's epilogues: how the sums in a warpgroup's registers become results in C. See wgmma.cu.
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
    return {work.row + (SWAP_AB ? of_right : of_left), work.column + (SWAP_AB ? of_left : of_right), work.product};
  }
  // `width` of the right operand, from the instruction's row `first_right` on.
  DEVICE_MEMBER Output part(int i, int first_right, int width) const {
    const Int64 left = first_left + left_of(i);
    const int right = right_of(i) + first_right;
    const Int64 row = work.row + (SWAP_AB ? right : left), column = work.column + (SWAP_AB ? left : right);
    const auto inside = [](Int64 rest, int all) { return rest < all ? static_cast<int>(rest) : all; };
    const int rows = inside(args.rows() - row, SWAP_AB ? width : 16);
    const int columns = inside(args.columns() - column, SWAP_AB ? 16 : width);  //@ wgmma-columns
#if SPLIT
    const Int64 part = BATCHED ? Int64(work.product) * args.parts() + work.split : work.split;
    Sum* partial = reinterpret_cast<Sum*>(args.c) + part * args.rows() * args.columns();
    return {{row, column, work.product}, partial + row * args.columns() + column, args.columns(), rows, columns, {}};
#else
    Result* c = BATCHED ? matrix_of<POINTERS_C != 0>(args.c, args.stride_c, work.product) : args.c;
    return {{row, column, work.product}, c + row * args.ldc + column, args.ldc, rows, columns, scalars};
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

#if POINTWISE
// What a lane reads of the caller's operands for its sums, but for elements of matrices: loaded before it is needed. Loads in
// the epilogue itself would wait for the L2 once for each block of sums.
struct AheadOperands {
  static constexpr OperandOver LEFT = SWAP_AB ? OVER_COLUMNS : OVER_ROWS, RIGHT = SWAP_AB ? OVER_ROWS : OVER_COLUMNS;
  PointwiseValues scalars;
  PointwiseValues left[2 * kBlocks];  // of the lane's rows of the left operand, 8 apart, of each 64
  // Of a part's rows of the right operand, one of each 32 in each lane; of 2 bytes a pair of each 64, as bits. Parts take turns.
  PointwiseValues right[2][tilewise::layout::ceil_div(kPartSpan, 32)];
  template <class Operand>
  static constexpr bool PAIRS = sizeof(typename Number<Operand::TYPE>::Stored) == 2;
  bool by_tma;  // TMA loads the elements of matrix STAGED_OPERAND, if there is one

  // Of a work item, and its first part.
  DEVICE_MEMBER void load(const WarpTile& to) {
    by_tma = to.scalars.beta == Sum(0) && is_for_tma(to.args.pointwise);
    const Read read = {to.args.pointwise};
    read(Over<OVER_ALL>(), to.place(0, 0, 0), scalars, true);
    for_left(to, read, left);
    load_right<Part<0>>(to);
  }
  template <class Of>
  DEVICE_MEMBER void load_right(const WarpTile& to) {
    for_read([&](auto operand) {
      typedef decltype(operand) Operand;
      if constexpr (Operand::OVER == RIGHT) {
        constexpr int EACH = PAIRS<Operand> ? 2 : 1;
        const int from = to.right_of(Of::INSTRUCTION) + Of::FIRST, lane = int(threadIdx.x) % 32;
        const Place first = to.place(0, 0, from + lane * EACH);  //@ wgmma-ahead-right
        const Offset last = to.args.pointwise.last_from(first);
        const auto* at = to.args.pointwise.of[Operand::SLOT].template address<Operand>(first);
        UNROLL_ALL
        for (int r = 0; r < Of::SPAN; r += 32 * EACH) {
          const auto inside = [&](int e) { return r + e <= (SWAP_AB ? last.down : last.right); };  //@ wgmma-ahead-inside
          PointwiseNumber& value = right[Of::NTH % 2][r / (32 * EACH)].*Operand::VALUE;
          if constexpr (PAIRS<Operand>)
            value = float_of((inside(0) ? unsigned(at[r]) : 0u) | (inside(1) ? unsigned(at[r + 1]) << 16 : 0u));
          else
            value = inside(0) ? PointwiseNumber(Number<Operand::TYPE>::widen(at[r])) : PointwiseNumber(0);
        }
      }
    });
  }
  // The elements for rows r and r + 1 of the part's right operand, from the lane's share on; r is a multiple of 8.
  template <class Operand>
  DEVICE_MEMBER void read_right(PointwiseNumber& even, PointwiseNumber& odd, int turn, int r) const {
    const int in_group = int(threadIdx.x) % 4;
    if constexpr (PAIRS<Operand>) {
      typedef typename Number<Operand::TYPE>::Stored Stored;
      const unsigned pair = bits_of(shuffle(right[turn][r / 64].*Operand::VALUE, r % 64 / 2 + in_group));
      even = PointwiseNumber(Number<Operand::TYPE>::widen(static_cast<Stored>(pair)));
      odd = PointwiseNumber(Number<Operand::TYPE>::widen(static_cast<Stored>(pair >> 16)));
    } else {
      even = shuffle(right[turn][r / 32].*Operand::VALUE, r % 32 + 2 * in_group);
      odd = shuffle(right[turn][r / 32].*Operand::VALUE, r % 32 + 2 * in_group + 1);
    }
  }
  // Fetches the operands of a work item into the L2.
  static DEVICE_MEMBER void prefetch(const WarpTile& to) {
    const Prefetch fetch = {to.args.pointwise};
    PointwiseValues none[tilewise::layout::larger(2 * kBlocks, tilewise::layout::ceil_div(kRightSpan, 32))];
    fetch(Over<OVER_ALL>(), to.place(0, 0, 0), none[0], true);
    for_left(to, fetch, none);
    for_right(to, fetch, none);
  }
  // Whether TMA can read matrix STAGED_OPERAND. The host encodes its maps by the same test.
  static DEVICE_MEMBER bool is_for_tma([[maybe_unused]] const PointwiseArgs& args) {
#if EPILOGUE == 2 && STAGED_OPERAND >= 0
    const PointwiseOperand& of = args.of[STAGED_OPERAND];
    return tilewise::layout::is_for_tma(reinterpret_cast<unsigned long long>(of.data), of.ld, BATCHED ? of.stride : 0,
                                        int(sizeof(Result)));
#else
    return false;
#endif
  }

 private:
  template <OperandOver OVER_>
  struct Over {
    static constexpr OperandOver OVER = OVER_;
  };
  struct Read {
    const PointwiseArgs& args;
    template <class Of>
    DEVICE_MEMBER void operator()(Of, const Place& place, PointwiseValues& values, bool inside) const {
      values = PointwiseValues();
      if (inside) read_operands<Of::OVER>(args, place, values);
    }
  };
  struct Prefetch {
    const PointwiseArgs& args;
    template <class Of>
    DEVICE_MEMBER void operator()(Of, const Place& place, PointwiseValues&, bool inside) const {
      for_read([&](auto operand) {
        typedef decltype(operand) Operand;
        if constexpr (Operand::OVER == Of::OVER) {
          const PointwiseOperand& of = args.of[Operand::SLOT];
          if (inside && (Operand::OVER != OVER_ALL || of.data)) prefetch_l2(of.template address<Operand>(place));
        }
      });
    }
  };
  // Call each(Over<>(), place, values, inside) for elements of vectors: the lane's, and one of each 32. inside: in C.
  template <class Each, int COUNT>
  static DEVICE_MEMBER void for_left(const WarpTile& to, const Each& each, PointwiseValues (&values)[COUNT]) {
    const int lane = int(threadIdx.x) % 32;
    const Place first = to.place(0, lane / 4, 0);
    const Offset last = to.args.pointwise.last_from(first);
    UNROLL_ALL
    for (int l = 0; l < 2 * kBlocks; ++l) {
      const int more = l / 2 * 64 + l % 2 * 8;
      each(Over<LEFT>(), SWAP_AB ? first.beside(more) : first.below(more), values[l],
           more <= (SWAP_AB ? last.right : last.down));
    }
  }
  template <class Each, int COUNT>
  static DEVICE_MEMBER void for_right(const WarpTile& to, const Each& each, PointwiseValues (&values)[COUNT]) {
    const Place first = to.place(0, 0, int(threadIdx.x) % 32);
    const Offset last = to.args.pointwise.last_from(first);
    UNROLL_ALL
    for (int r = 0; r < kRightSpan; r += 32)
      each(Over<RIGHT>(), SWAP_AB ? first.below(r) : first.beside(r), values[r / 32],
           r <= (SWAP_AB ? last.down : last.right));
  }
};

// Where a lane's sums of blocks of 16 rows of both operands lie: the place of the first one, and what is loaded ahead.
struct BlockPlace : Place {
  const AheadOperands& ahead;
  // The first sum's 64 rows of the left operand; the part's turn; from the part's rows of the right operand on, without the
  // lane's share.
  int block, turn, right;
};
// read_old(old): reads what lies where results will lie.
template <class ReadOld>
struct AheadPlace : BlockPlace {
  const ReadOld& read_old;
};
template <class ReadOld>
DEVICE AheadPlace<ReadOld> with_old(const BlockPlace& first, const ReadOld& read_old) {
  return {first, read_old};
}
template <int COUNT, class ReadOld, class OffsetOf>
DEVICE void read_values(const PointwiseArgs& args, const AheadPlace<ReadOld>& first, const OffsetOf& offset_of, int, int,
                        PointwiseValues (&values)[COUNT]) {
  const Offset last = args.last_from(first);
  for_read([&](auto operand) {
    typedef decltype(operand) Operand;
    constexpr auto VALUE = Operand::VALUE;
    if constexpr (Operand::SLOT == STAGED_OPERAND) {
      Result old[COUNT];
      first.read_old(old);
      UNROLL_ALL
      for (int e = 0; e < COUNT; ++e) values[e].*VALUE = PointwiseNumber(Number<RESULT>::widen(old[e]));
    } else if constexpr (Operand::OVER == OVER_ELEMENTS) {
      UNROLL_ALL
      for (int e = 0; e < COUNT; ++e)
        values[e].*VALUE = args.of[Operand::SLOT].template read<Operand>(args.nearest(first, offset_of(e), last));
    } else if constexpr (Operand::OVER == AheadOperands::RIGHT) {
      UNROLL_ALL
      for (int e = 0; e < COUNT; e += 4) {  // two sums, and two of 8 rows of the left operand below
        first.ahead.template read_right<Operand>(values[e].*VALUE, values[e + 1].*VALUE, first.turn, first.right + e * 2);
        values[e + 2].*VALUE = values[e].*VALUE;
        values[e + 3].*VALUE = values[e + 1].*VALUE;
      }
    } else {
      UNROLL_ALL
      for (int e = 0; e < COUNT; ++e) {
        const Offset to = offset_of(e);
        const int left = SWAP_AB ? to.right : to.down;
        if constexpr (Operand::OVER == OVER_ALL)
          values[e].*VALUE = first.ahead.scalars.*VALUE;
        else
          values[e].*VALUE = first.ahead.left[2 * first.block + left / 8].*VALUE;  //@ wgmma-ahead-left
      }
    }
  });
}
#else
template <class ReadOld>
DEVICE const Place& with_old(const Place& first, const ReadOld&) {
  return first;
}
#endif

DEVICE_MEMBER bool WarpTile::loads() const {
#if POINTWISE
  if (ahead.by_tma) return true;
#endif
  return scalars.beta != Sum(0);
}

// Two results as a word.
DEVICE unsigned packed(const Result* results) { return unsigned(results[0]) | unsigned(results[1]) << 16; }
DEVICE void unpack(Result* results, unsigned word) {
  results[0] = static_cast<Result>(word);
  results[1] = static_cast<Result>(word >> 16);
}

// COUNT sums of a lane are those of blocks of 16 rows of the left operand and the nth 16 of the right one; the last block may
// have only 8 of these. place(block, left, right): where the result of an element lies, or its old value. Results of 2 bytes
// lie there as matrices of 8 x 8: where a lane's row of the matrices of a block lies.
template <class At>
DEVICE char* matrices_row(const At& place, int block) {
  const int lane = int(threadIdx.x) % 32;
  // Matrix q of a block: rows of the left operand from 8 (q % 2) on, of the right one from 8 (q / 2) on.
  return SWAP_AB ? place(block, lane / 8 % 2 * 8, lane / 16 * 8 + lane % 8) : place(block, lane % 16, lane / 16 * 8);
}
// Of other results a lane has its own. Pairs are neighbours in C, but not with SWAP_AB.
template <class At>
DEVICE Result* element_at(const At& place, int e) {
  const int lane = int(threadIdx.x) % 32, group = lane / 4, in_group = lane % 4;
  return reinterpret_cast<Result*>(place(e / 8, group + e / 2 % 2 * 8, e / 4 % 2 * 8 + 2 * in_group + e % 2));
}

// Reads what lies in the places of a lane's results.
template <int COUNT, class At>
DEVICE void read_laid_down(Result (&old)[COUNT], const At& place) {
  if constexpr (sizeof(Result) == 2) {
    constexpr int WHOLE = COUNT / 8 * 8;  // sums of blocks of 16
    UNROLL_ALL
    for (int e = 0; e < WHOLE; e += 8) {
      unsigned words[4];
      load_matrices<4, SWAP_AB != 0>(words, matrices_row(place, e / 8));  //@ wgmma-read-old
      UNROLL_ALL
      for (int w = 0; w < 4; ++w) unpack(old + e + 2 * w, words[w]);
    }
    if constexpr (WHOLE < COUNT) {
      unsigned words[2];
      load_matrices<2, SWAP_AB != 0>(words, matrices_row(place, WHOLE / 8));
      UNROLL_ALL
      for (int w = 0; w < 2; ++w) unpack(old + WHOLE + 2 * w, words[w]);
    }
    warp_barrier();  //@ wgmma-barrier-before-overwriting
  } else {
    constexpr int TOGETHER = SWAP_AB ? 1 : 2;
    UNROLL_ALL
    for (int e = 0; e < COUNT; e += TOGETHER) {
      Result some[TOGETHER];
      load_vector<TOGETHER>(some, element_at(place, e));
      UNROLL_ALL
      for (int t = 0; t < TOGETHER; ++t) old[e + t] = some[t];
    }
  }
}
// Lays down the results of COUNT sums of a lane. Where beta is not 0, C's old elements lie in the same places. One test of beta
// serves all. first, offset_of: as for apply().
template <int COUNT, class At, class First, class OffsetOf>
DEVICE void lay_down_results(const Scalars& scalars, const Sum (&sums)[COUNT], const At& place, const First& first,
                             const OffsetOf& offset_of) {
  const auto read_old = [&](Result (&old)[COUNT]) { read_laid_down(old, place); };
  Result results[COUNT];
  apply<true>(scalars, sums, results, read_old, with_old(first, read_old), offset_of);
  if constexpr (sizeof(Result) == 2) {
#if POINTWISE
    warp_barrier();  // an epilogue may have branches, and stmatrix needs the whole warp
#endif
    constexpr int WHOLE = COUNT / 8 * 8;
    UNROLL_ALL
    for (int e = 0; e < WHOLE; e += 8) {
      const Result* of = results + e;
      store_matrices<4, SWAP_AB != 0>(matrices_row(place, e / 8),
                                      {packed(of), packed(of + 2), packed(of + 4), packed(of + 6)});
    }
    if constexpr (WHOLE < COUNT)
      store_matrices<2, SWAP_AB != 0>(matrices_row(place, WHOLE / 8),
                                      {packed(results + WHOLE), packed(results + WHOLE + 2)});
  } else {
    constexpr int TOGETHER = SWAP_AB ? 1 : 2;
    UNROLL_ALL
    for (int e = 0; e < COUNT; e += TOGETHER) {
      Result some[TOGETHER];
      UNROLL_ALL
      for (int t = 0; t < TOGETHER; ++t) some[t] = results[e + t];
      store_vector<TOGETHER>(element_at(place, e), some);
    }
  }
}
#if POINTWISE
// The sums of a part are taken some blocks at a time, between barriers: the compiler would load the operands of all, for
// which there may be no registers. The more there are, the more loads are in flight.
constexpr int kSpareRegisters = kRegisters.multiplying() - kInstructions * WGMMA_N / 2;
constexpr int kSumsTogether =
    kPointwiseMatrices > (STAGED_OPERAND >= 0) ? 8 : (kSpareRegisters >= 104 ? 32 : (kSpareRegisters >= 88 ? 16 : 8));
template <int FIRST_, int COUNT_>
struct Blocks {
  static constexpr int FIRST = FIRST_, COUNT = COUNT_;
};
// Calls each(Blocks<>()) for all of SUMS sums.
template <int SUMS, int FIRST = 0, class Each>
DEVICE void for_blocks(const Each& each) {
  constexpr int COUNT = tilewise::layout::smaller(kSumsTogether, SUMS - FIRST);
  each(Blocks<FIRST, COUNT>());
  if constexpr (FIRST + COUNT < SUMS) for_blocks<SUMS, FIRST + COUNT>(each);
}
#endif

#if STAGED_OPERAND >= 0
// Copies the elements of matrix STAGED_OPERAND to where the warp's results of a part will lie.
template <class Of, class At>
DEVICE void lay_down_operand(const WarpTile& to, const At& place) {
  constexpr int ACROSS = SWAP_AB ? 16 : Of::SPAN, ELEMENTS = 16 * Of::SPAN;  // in a row of C, and in all
  constexpr int TOGETHER = 4;  // loads in flight
  const int lane = int(threadIdx.x) % 32;
  const Place begin = to.place(Of::INSTRUCTION, 0, Of::FIRST);
  const Offset last = to.args.pointwise.last_from(begin);
  const PointwiseOperand& of = to.args.pointwise.of[STAGED_OPERAND];
  const Result* from = opaque_pointer(static_cast<const Result*>(of.data) + of.at<OVER_ELEMENTS>(begin));
  UNROLL_BY(1)
  for (int n = lane; n < ELEMENTS; n += 32 * TOGETHER) {
    Result some[TOGETHER];
    UNROLL_ALL
    for (int t = 0; t < TOGETHER; ++t) {
      const int down = (n + 32 * t) / ACROSS, right = (n + 32 * t) % ACROSS;
      some[t] = down <= last.down && right <= last.right ? from[down * of.ld + right] : Result(0);
    }
    UNROLL_ALL
    for (int t = 0; t < TOGETHER; ++t) {
      const int down = (n + 32 * t) / ACROSS, right = (n + 32 * t) % ACROSS;
      char* at = SWAP_AB ? place(down / 16, right, down % 16) : place(right / 16, down, right % 16);
      *reinterpret_cast<Result*>(at) = some[t];
    }
  }
  warp_barrier();  //@ wgmma-operand-laid-down
}
#endif

// Lays down the warp's results of a part. to: the warp's buffer, with SWAP_AB the warpgroup's.
template <class Of>
DEVICE void lay_down(char* buffer, const WarpTile& to, const Sums& sums) {
#if SWAP_AB
  const int column = int(threadIdx.x) / 32 % 4 * 16;  // of the buffer: the warp's first one
  char* panel = buffer + column / kStored.columns * kStored.panel_bytes();
  const auto place = [&](int block, int left, int right) {
    const int byte = right * kStored.width() + (column % kStored.columns + left) * int(sizeof(Result));
    return panel + block * 16 * kStored.width() + swizzled<kStored.width()>(byte);  //@ wgmma-place-swapped
  };
#else
  const auto place = [&](int block, int left, int right) {
    const int byte = (left * Of::SPAN + block * 16 + right) * int(sizeof(Result));
    return buffer + swizzled<kStored.swizzle(Of::SPAN)>(byte);  //@ wgmma-place-result
  };
#endif
  Sum of_part[Of::SPAN / 2];
  UNROLL_ALL
  for (int e = 0; e < Of::SPAN / 2; ++e) of_part[e] = sums[Of::INSTRUCTION][Of::FIRST / 2 + e];
  const int lane = int(threadIdx.x) % 32;
  const Place first = to.place(Of::INSTRUCTION, lane / 4, Of::FIRST + lane % 4 * 2);
  const auto offset_of = [](int e) {
    const int left = e / 2 % 2 * 8, right = e / 4 * 8 + e % 2;
    return SWAP_AB ? Offset{right, left} : Offset{left, right};
  };
#if POINTWISE
  if constexpr (Of::NTH + 1 < kParts) to.ahead.template load_right<Part<Of::NTH + 1>>(to);
#if STAGED_OPERAND >= 0
  // The buffer has room for C's old elements or for the operand's.
  if (to.scalars.beta != Sum(0)) {
    for_blocks<Of::SPAN / 2>([&](auto blocks) {
      constexpr int FIRST = decltype(blocks)::FIRST, COUNT = decltype(blocks)::COUNT;
      Result old[COUNT];
      read_laid_down(old, [&](int nth, int left, int right) { return place(FIRST / 8 + nth, left, right); });
      UNROLL_ALL
      for (int e = 0; e < COUNT; ++e) of_part[FIRST + e] = blended(to.scalars, of_part[FIRST + e], old[e]);
    });
    warp_barrier();  //@ wgmma-old-read
  } else {
    UNROLL_ALL
    for (int e = 0; e < Of::SPAN / 2; ++e) of_part[e] = product(to.scalars.alpha, of_part[e]);
  }
  if (!to.ahead.by_tma) lay_down_operand<Of>(to, place);
  const Scalars scalars = {Sum(1), Sum(0), to.scalars.pointwise};
#else
  const Scalars& scalars = to.scalars;
#endif
  for_blocks<Of::SPAN / 2>([&](auto blocks) {
    constexpr int FIRST = decltype(blocks)::FIRST, COUNT = decltype(blocks)::COUNT;
    Sum some[COUNT];
    UNROLL_ALL
    for (int e = 0; e < COUNT; ++e) some[e] = of_part[FIRST + e];
    const auto of_block = [&](int nth, int left, int right) { return place(FIRST / 8 + nth, left, right); };
    const Offset from = offset_of(FIRST);
    const BlockPlace at = {first.below(from.down).beside(from.right), to.ahead, Of::INSTRUCTION / kAcross,
                           Of::NTH % 2, FIRST * 2};  //@ wgmma-ahead-turn
    lay_down_results(scalars, some, of_block, at, offset_of);
  });
#else
  lay_down_results(to.scalars, of_part, place, first, offset_of);
#endif
}

#if EPILOGUE == 2
constexpr int kStorer = SWAP_AB ? kWarpgroup : 32;  // threads that share two buffers; the first one issues copies by TMA

DEVICE bool issues_stores() { return int(threadIdx.x) % kStorer == 0; }

// Buffers, and the mbarriers of loads into them, take turns. `stored`: the number of stores so far, of all work items.
DEVICE char* buffer_of(char* shared, unsigned stored) {
  constexpr int BYTES = kStorer / 32 * kStored.bytes();
  char* buffers = shared + kLayout.scratch_at() + (int(threadIdx.x) - kWarpgroup) / kStorer * kStored.kBuffers * BYTES;
  return buffers + stored % kStored.kBuffers * BYTES;  //@ wgmma-buffer
}
DEVICE Mbarrier* loaded_of(char* shared, unsigned stored) {
  return loads_of(shared) + (int(threadIdx.x) - kWarpgroup) / kStorer * kStored.kBuffers + stored % kStored.kBuffers;
}

// Calls each(map, column, row, offset) for the boxes of a part, at `offset` of its buffer.
template <class Of, class Each>
DEVICE void for_boxes(const WarpTile& to, const TensorMap (&maps)[kStored.maps()], const Each& each) {
  const int left = to.first_left + to.left_of(Of::INSTRUCTION);  // SWAP_AB: of the warpgroup's first warp
  const int right = to.right_of(Of::INSTRUCTION) + Of::FIRST;
#if SWAP_AB
  UNROLL_ALL
  for (int row = 0; row < Of::SPAN; row += kStored.rows) {
    UNROLL_ALL
    for (int p = 0; p < kStored.panels(); ++p)
      each(maps[0], to.work.column + left + p * kStored.columns, to.work.row + right + row,
           p * kStored.panel_bytes() + row * kStored.width());
  }
#else
  const TensorMap& map = maps[Of::SPAN == kPartSpan ? 0 : kStored.maps() - 1];
  each(map, to.work.column + right, to.work.row + left, 0);
#endif
}

// Starts the load of a part of C's old elements, or of the epilogue's matrix, into the buffer where its results will be laid
// down. Called by the thread that issues stores, after the last ordinary access of the buffer and a fence_proxy_async() by each thread.
// stored: the number of stores before that of the part.
template <class Of>
DEVICE void load_old(const WarpTile& to, char* shared, unsigned stored) {
  char* buffer = buffer_of(shared, stored);
  Mbarrier* loaded = loaded_of(shared, stored);
  mbarrier_expect_tx(loaded, Of::SPAN * (kStorer / 2) * int(sizeof(Result)));
  const auto load = [&](const TensorMap& map, int column, int row, int offset, [[maybe_unused]] int product) {
#if BATCHED
    load_tile(buffer + offset, map, column, row, product, loaded);
#else
    load_tile(buffer + offset, map, column, row, loaded);  //@ wgmma-load-old
#endif
  };
#if STAGED_OPERAND >= 0
  if (to.ahead.by_tma) {
    const int product = to.args.pointwise.of[STAGED_OPERAND].stride == 0 ? 0 : to.work.product;  //@ wgmma-staged-product
    for_boxes<Of>(to, to.args.operand_maps, [&](const TensorMap& map, int column, int row, int offset) {
      load(map, column, row, offset, product);
    });
    return;
  }
#endif
  for_boxes<Of>(to, to.args.c_maps, [&](const TensorMap& map, int column, int row, int offset) {
    load(map, column, row, offset, to.work.product);
  });
}

// Starts the loads of the first parts of a work item, if there are any: for both buffers.
DEVICE void load_first(const WarpTile& to, char* shared, unsigned stored) {
  if (!to.loads() || !issues_stores()) return;
  stores_read<0>();  //@ wgmma-wait-buffer-first
  load_old<Part<0>>(to, shared, stored);
  if constexpr (kParts > 1) load_old<Part<1>>(to, shared, stored + 1);
}

// Stores a part by TMA. wait(): the threads that share a buffer wait for one another.
template <class Of, class Wait>
DEVICE void store_part_by_tma(const WarpTile& to, const Sums& sums, char* shared, unsigned& stored, const Wait& wait) {
  const bool loads = to.loads();
  char* buffer = buffer_of(shared, stored);
  if (issues_stores()) {
    if (!loads) {
      stores_read<kStored.kBuffers - 1>();  //@ wgmma-wait-buffer
    } else if constexpr (Of::NTH > 0 && Of::NTH + 1 < kParts) {
      stores_read<0>();  //@ wgmma-wait-buffer-old
      load_old<Part<Of::NTH + 1>>(to, shared, stored + 1);
    }
  }
  wait();
  if (loads) mbarrier_wait(loaded_of(shared, stored), int(stored / kStored.kBuffers % 2));  //@ wgmma-wait-old
  lay_down<Of>(buffer, to, sums);
  fence_proxy_async();  //@ wgmma-fence-stores
  wait();  //@ wgmma-meeting
  if (issues_stores()) {
    for_boxes<Of>(to, to.args.c_maps, [&](const TensorMap& map, int column, int row, int offset) {
#if BATCHED
      store_tile(map, column, row, to.work.product, buffer + offset);
#else
      store_tile(map, column, row, buffer + offset);
#endif
    });
    stores_commit();
  }
  ++stored;
}

// stored: the number of stores so far, of all work items.
DEVICE void store_by_tma(const WarpTile& to, Sums& sums, char* shared, unsigned& stored) {
  if (to.scalars.alpha == Sum(0)) clear(sums);  // drops NaN, too; cheaper than a choice for each sum
#if SWAP_AB
  // The four warps of a warpgroup wait for one another. Twice for each store: the parity returns to 0.
  Mbarrier* meeting = meetings(shared) + (int(threadIdx.x) / kWarpgroup - 1);
  int parity = 0;
  const auto wait = [&] {
    mbarrier_arrive_warp(meeting);
    mbarrier_wait(meeting, parity);
    parity ^= 1;
  };
#else
  const auto wait = [] { warp_barrier(); };
#endif
  for_parts([&](auto part) { store_part_by_tma<decltype(part)>(to, sums, shared, stored, wait); });
}
#else
// Copies rows of C to a buffer, or a buffer's rows to C. A row of C is read and written in words of 4 bytes, one by each
// lane; where it is not aligned to words, the first word has only some elements of the row, and the row's last elements
// are copied one by one.
template <int COLUMNS>
struct BufferedRows {
  static constexpr int WORD = 4 / int(sizeof(Result)), WORDS = COLUMNS / WORD;
  const Output& out;
  char* buffer;

  DEVICE_MEMBER Result& result(int row, int column) const {
    const int byte = (row * COLUMNS + column) * int(sizeof(Result));
    return *reinterpret_cast<Result*>(buffer + swizzled<kStored.swizzle(COLUMNS)>(byte));
  }
  static DEVICE_MEMBER int shift_of(const Result* row) {
    return static_cast<int>(reinterpret_cast<unsigned long long>(row) / sizeof(Result) % WORD);  //@ wgmma-row-shift
  }
  // Calls each(row, column) for this lane's of a row's last elements that are in no word; the lane is the row.
  template <class Each>
  DEVICE_MEMBER void for_last(const Each& each) const {
    const int lane = int(threadIdx.x) % 32;
    if (lane >= kStored.rows || lane >= out.rows) return;
    Result* row = out.row(lane);
    const int shift = shift_of(row);
    UNROLL_ALL
    for (int e = 1; e < WORD; ++e) {
      const int column = COLUMNS - e;
      if (shift >= e && column < out.columns) each(row + column, result(lane, column));  //@ wgmma-row-last
    }
  }
  DEVICE_MEMBER void store() const {
    const int lane = int(threadIdx.x) % 32;
    UNROLL_BY(2)
    for (int row = 0; row < kStored.rows; ++row) {
      if (row >= out.rows) break;
      if (WORDS < 32 && lane >= WORDS) break;
      Result* to = out.row(row);
      const int first = lane * WORD - shift_of(to);
      Result word[WORD];
      UNROLL_ALL
      for (int e = 0; e < WORD; ++e) word[e] = result(row, first + e < 0 ? 0 : first + e);
      store_part<WORD>(to + first, word, -first, out.columns - first);
    }
    for_last([](Result* c, const Result& laid_down) { *c = laid_down; });
  }
  DEVICE_MEMBER void load() const {
    constexpr int TOGETHER = 4;  // rows in flight
    const int lane = int(threadIdx.x) % 32;
    UNROLL_BY(1)
    for (int row = 0; row < kStored.rows; row += TOGETHER) {
      if (row >= out.rows) break;
      if (WORDS < 32 && lane >= WORDS) break;
      Result words[TOGETHER][WORD];
      UNROLL_ALL
      for (int r = 0; r < TOGETHER; ++r) {
        const Result* from = out.row(row + r);
        const int first = lane * WORD - shift_of(from);
        load_part<WORD>(words[r], from + first, -first, row + r < out.rows ? out.columns - first : -first);  //@ wgmma-row-old
      }
      UNROLL_ALL
      for (int r = 0; r < TOGETHER; ++r) {
        const int first = lane * WORD - shift_of(out.row(row + r));
        UNROLL_ALL
        for (int e = 0; e < WORD; ++e)
          if (first + e >= 0) result(row + r, first + e) = words[r][e];
      }
    }
    for_last([](const Result* c, Result& old) { old = *c; });
  }
};

DEVICE void store_rows(const WarpTile& to, Sums& sums, char* shared) {
  if (to.scalars.alpha == Sum(0)) clear(sums);
  // Addresses are not computed before the main loop, which has no registers for them.
  char* scratch = reinterpret_cast<char*>(opaque_shared_pointer(reinterpret_cast<float*>(scratch_of_warp(shared))));
  for_parts([&](auto part) {
    typedef decltype(part) Of;
    char* buffer = scratch + Of::NTH % 2 * kStored.bytes();
    const Output out = to.part(Of::INSTRUCTION, Of::FIRST, Of::SPAN);
    const BufferedRows<Of::SPAN> rows = {out, buffer};
    if (to.scalars.beta != Sum(0)) {
      rows.load();
      warp_barrier();  //@ wgmma-rows-loaded
    }
    lay_down<Of>(buffer, to, sums);
    warp_barrier();  //@ wgmma-rows-barrier
    rows.store();
  });
  warp_barrier();  // the next work item begins with the same buffer
}
#endif
#elif EPILOGUE == 1
DEVICE void store_staged(const WarpTile& to, const Sums& sums, char* shared) {
  const int lane = int(threadIdx.x) % 32, group = lane / 4, in_group = lane % 4;
  constexpr int ACROSS = StagedSums::STORES, ROW = kScratch.row_stride(), STORES = kScratch.rows * ACROSS;
  Sum* scratch = reinterpret_cast<Sum*>(scratch_of_warp(shared));
  UNROLL_ALL
  for (int i = 0; i < kInstructions; ++i) {
    UNROLL_ALL
    for (int first = 0; first < WGMMA_N; first += kStagedColumns) {
      warp_barrier();  //@ wgmma-barrier-before-staging
      UNROLL_ALL
      for (int j = 0; j < kStagedColumns / 8; ++j) {
        UNROLL_ALL
        for (int e = 0; e < 4; ++e) {
          const int left = group + e / 2 * 8, right = 8 * j + 2 * in_group + e % 2;
          scratch[SWAP_AB ? right * ROW + StagedSums::slot(left) : left * ROW + StagedSums::slot(right)] =
              sums[i][4 * (first / 8 + j) + e];
        }
      }
      warp_barrier();
      const Output out = to.part(i, first, kStagedColumns);
      UNROLL_BY(1)
      for (int n = 0; n < STORES; n += 32) {
        const int s = n + lane, row = s / ACROSS;
        if (STORES % 32 > 0 && s >= STORES) break;
        if (row < out.rows) StagedSums::write(out, row, s % ACROSS, scratch + row * ROW);
      }
    }
  }
}
#else
DEVICE void store_registers(const WarpTile& to, const Sums& sums) {
  const int lane = int(threadIdx.x) % 32, group = lane / 4, in_group = lane % 4;
  UNROLL_ALL
  for (int i = 0; i < kInstructions; ++i) {
    const Output out = to.part(i, 0, WGMMA_N);
    UNROLL_ALL
    for (int half = 0; half < 2; ++half) {
      const int left = half * 8 + group;
#if SWAP_AB
      UNROLL_ALL
      for (int j = 0; j < WGMMA_N / 8; ++j) {
        UNROLL_ALL
        for (int e = 0; e < 2; ++e) {
          const int right = 8 * j + 2 * in_group + e;
          if (right < out.rows) out.write<1>(out.row(right), right, left, {sums[i][4 * j + 2 * half + e]});
        }
      }
#else
      if (left >= out.rows) continue;
      Output::Out* row = out.row(left);
      UNROLL_ALL
      for (int j = 0; j < WGMMA_N / 8; ++j) {
        const Sum pair[2] = {sums[i][4 * j + 2 * half], sums[i][4 * j + 2 * half + 1]};
        const int right = 8 * j + 2 * in_group;
        if constexpr (VECTOR_C > 1) {
          out.write<2>(row, left, right, pair);
        } else {
          out.write<1>(row, left, right, {pair[0]});
          out.write<1>(row, left, right + 1, {pair[1]});
        }
      }
#endif
    }
  }
}
#endif

#if STREAM_K
// Stores the sums of a tile that several clusters share, all of them, for the stream_k step. partial: of the block's
// first row and column; rows have `ld` sums. first_left: WarpTile's.
DEVICE void store_partial(Sum* partial, int ld, const Sums& sums, int first_left) {
  const int lane = int(threadIdx.x) % 32, group = lane / 4, in_group = lane % 4;
  UNROLL_ALL
  for (int i = 0; i < kInstructions; ++i) {
    UNROLL_ALL
    for (int half = 0; half < 2; ++half) {
      const int left = first_left + WarpTile::left_of(i) + half * 8 + group;  //@ wgmma-partial-row
      const int right = WarpTile::right_of(i) + 2 * in_group;
      Sum* to = opaque_pointer(partial + (SWAP_AB ? left + right * ld : left * ld + right));
      UNROLL_ALL
      for (int j = 0; j < WGMMA_N / 8; ++j) {
        const Sum pair[2] = {sums[i][4 * j + 2 * half], sums[i][4 * j + 2 * half + 1]};
        if constexpr (SWAP_AB) {
          to[8 * j * ld] = pair[0];
          to[(8 * j + 1) * ld] = pair[1];
        } else {
          store_vector<2>(to + 8 * j, pair);
        }
      }
    }
  }
}
#endif
