// What wgmma reads of the operands of the caller's epilogue, where C is stored by TMA or by rows. See wgmma.cu.
#pragma once
#include "families/wgmma/warp_tile.cuh"

#if EPILOGUE >= 2
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
    return tilewise::layout::is_for_tma(reinterpret_cast<unsigned long long>(of.data), of.ld,
                                        BATCHED && GROUPED != 1 ? of.stride : 0, int(sizeof(Result)));
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
#endif
