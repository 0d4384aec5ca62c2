// The place of an element of C, and with POINTWISE 1 what the epilogue does there: the program then has a header
// pointwise_source.cuh, the epilogue's text (plan/pointwise.hpp).
#pragma once
#include "parts/grouped.cuh"
#include "words/types.cuh"

#ifndef POINTWISE
#define POINTWISE 0
#endif

// From a place to another one of the same tile.
struct Offset {
  int down, right;
};

#if POINTWISE
struct Place {
  Int64 row, column;  // may lie outside of C
  Int64 product;      // of the batch
#if GROUPED
  Int64 row_end;      // of the product's rows
#endif
  DEVICE_MEMBER Place below(Int64 rows) const {
    Place to = *this;
    to.row += rows;
    return to;
  }
  DEVICE_MEMBER Place beside(Int64 columns) const {
    Place to = *this;
    to.column += columns;
    return to;
  }
};
#else
// Without state, so that code without an epilogue is not changed by places.
struct Place {
  DEVICE_MEMBER Place(Int64, Int64, Int64) {}
  DEVICE_MEMBER Place below(Int64) const { return *this; }
  DEVICE_MEMBER Place beside(Int64) const { return *this; }
};
#endif

#if POINTWISE
#include "words/functions.cuh"

// What an operand of the epilogue has an element for: the values of EpilogueOver (tilewise/epilogue.hpp).
enum OperandOver { OVER_ALL, OVER_ROWS, OVER_COLUMNS, OVER_ELEMENTS };
// An operand that is read, of this slot and type. VALUE: the member of PointwiseValues for it.
template <int SLOT_, OperandOver OVER_, int TYPE_, auto VALUE_>
struct ReadOperand {
  static constexpr int SLOT = SLOT_, TYPE = TYPE_;
  static constexpr OperandOver OVER = OVER_;
  static constexpr auto VALUE = VALUE_;
};

// An operand of the epilogue.
struct PointwiseOperand {
  void* data;  // null: a scalar, `value`
  Int64 ld, stride;  // elements; `stride` from one product of a batch to the next
  double value;

  // The number of the element for a place in C. Of products whose rows follow one another, the rows are numbered through.
  template <OperandOver OVER>
  DEVICE_MEMBER Int64 at(const Place& place) const {
    constexpr bool THROUGH = GROUPED == 1 && (OVER == OVER_ROWS || OVER == OVER_ELEMENTS);
    const Int64 first = THROUGH ? 0 : place.product * stride;
    if constexpr (OVER == OVER_ROWS) return first + place.row;
    if constexpr (OVER == OVER_COLUMNS) return first + place.column;  //@ pointwise-column
    if constexpr (OVER == OVER_ELEMENTS) return first + place.row * ld + place.column;
    return first;
  }
  template <class Operand>
  DEVICE_MEMBER const typename Number<Operand::TYPE>::Stored* address(const Place& place) const {
    return static_cast<const typename Number<Operand::TYPE>::Stored*>(data) + at<Operand::OVER>(place);
  }
  template <class Operand>
  DEVICE_MEMBER PointwiseNumber read(const Place& place) const {
    if (Operand::OVER == OVER_ALL && !data) return PointwiseNumber(value);
    return PointwiseNumber(Number<Operand::TYPE>::widen(*address<Operand>(place)));
  }
  template <int TYPE>
  DEVICE_MEMBER void write(Int64 at, PointwiseNumber value) const {
    static_cast<typename Number<TYPE>::Stored*>(data)[at] = narrow_pointwise<TYPE>(value);
  }
};
template <int OPERANDS>
struct PointwiseArgsOf {
  Int64 rows, columns;  // of C
  PointwiseOperand of[OPERANDS];

  // From a place to the last row and column of the product's C; negative where the place is outside of it.
  DEVICE_MEMBER Offset last_from(const Place& at) const {
    const auto near = [](Int64 distance) { return distance < 0x40000000 ? static_cast<int>(distance) : 0x40000000; };
#if GROUPED
    return {near(at.row_end - 1 - at.row), near(columns - 1 - at.column)};  //@ pointwise-group-edge
#else
    return {near(rows - 1 - at.row), near(columns - 1 - at.column)};  //@ pointwise-edge
#endif
  }
  // The place at an offset from `at`, or the nearest one in C. last: last_from(at).
  static DEVICE_MEMBER Place nearest(const Place& at, const Offset& to, const Offset& last) {
    return at.below(to.down < last.down ? to.down : last.down).beside(to.right < last.right ? to.right : last.right);
  }
};

// An operand with one number, a scale or a zero point, for each STEPS steps of k, of ALONG rows of A or columns of B: the values
// of EpilogueOver from row_blocks on. K_FIRST: those of a step of k are neighbours.
template <int SLOT, int ALONG_, int STEPS_, bool K_FIRST, int TYPE, bool OF_ROWS>
struct BlockOperand {
  static constexpr int ALONG = ALONG_, STEPS = STEPS_;
  static constexpr bool GIVEN = true;
  typedef typename Number<TYPE>::Stored Stored;
  // The address of a number. block: of STEPS steps of k. place: a row of A (of products whose rows follow one another, of
  // all), or a column of B.
  template <class Arguments>
  static DEVICE_MEMBER const Stored* address(const Arguments& args, Int64 product, Int64 place, Int64 block) {
    const PointwiseOperand& of = args.of[SLOT];
    const Int64 first = GROUPED == 1 && OF_ROWS ? 0 : product * of.stride;
    const Int64 nth = place / ALONG;
    const Int64 at = first + (K_FIRST ? block * of.ld + nth : nth * of.ld + block);  //@ pointwise-scale
    return static_cast<const Stored*>(of.data) + at;
  }
  // From a number to that of the next block.
  template <class Arguments>
  static DEVICE_MEMBER Int64 step(const Arguments& args) {
    return K_FIRST ? args.of[SLOT].ld : 1;
  }
  static DEVICE_MEMBER Stored load(const Stored* at) { return *at; }
  static DEVICE_MEMBER Sum widen(Stored number) { return Sum(Number<TYPE>::widen(number)); }
};
struct NoScale {
  static constexpr int ALONG = 128, STEPS = 0;
  static constexpr bool GIVEN = false;
  typedef float Stored;
  template <class Arguments>
  static DEVICE_MEMBER const Stored* address(const Arguments&, Int64, Int64, Int64) {
    return nullptr;
  }
  template <class Arguments>
  static DEVICE_MEMBER Int64 step(const Arguments&) {
    return 0;
  }
  static DEVICE_MEMBER Stored load(const Stored*) { return 1; }
  static DEVICE_MEMBER Sum widen(Stored) { return Sum(1); }
};

#include "pointwise_source.cuh"

#ifdef SCALES
// Of A and B, if both have scales.
constexpr int kScaledSteps = ScaleOfA::GIVEN ? ScaleOfA::STEPS : ScaleOfB::STEPS;
static_assert(!ScaleOfA::GIVEN || !ScaleOfB::GIVEN || ScaleOfA::STEPS == ScaleOfB::STEPS, "blocks are those of both");
#endif

// Reads the operands OVER of the element at `place`.
template <OperandOver OVER>
DEVICE void read_operands(const PointwiseArgs& args, const Place& place, PointwiseValues& values) {
  for_read([&](auto operand) {
    typedef decltype(operand) Operand;
    if constexpr (Operand::OVER == OVER) values.*Operand::VALUE = args.of[Operand::SLOT].template read<Operand>(place);
  });
}

// The operands of COUNT elements; as for apply() (epilogue.cuh). Those of elements that are not stored are read of the
// nearest one in C: a branch for each element would hold up all loads behind it.
template <int COUNT, class OffsetOf>
DEVICE void read_values(const PointwiseArgs& args, const Place& first, const OffsetOf& offset_of, int begin, int end,
                        PointwiseValues (&values)[COUNT]) {
  const Offset last = args.last_from(first);
  UNROLL_ALL
  for (int e = 0; e < COUNT; ++e) {
    const Place at = args.nearest(first, offset_of(e >= begin && e < end ? e : begin), last);
    read_operands<OVER_ALL>(args, at, values[e]);
    read_operands<OVER_ROWS>(args, at, values[e]);
    read_operands<OVER_COLUMNS>(args, at, values[e]);
    read_operands<OVER_ELEMENTS>(args, at, values[e]);
  }
}

// The results of COUNT sums, and what the epilogue writes besides C; as for apply(). At: Place, or a type for which
// there is another read_values().
template <int COUNT, class At, class OffsetOf>
DEVICE void pointwise_all(const PointwiseArgs& args, const Sum (&sums)[COUNT], Result (&results)[COUNT], const At& first,
                          const OffsetOf& offset_of, int begin, int end) {
  PointwiseValues values[COUNT];
  PointwiseResults more[COUNT];
  read_values(args, first, offset_of, begin, end, values);
  UNROLL_ALL
  for (int e = 0; e < COUNT; ++e)
    results[e] = narrow_pointwise<RESULT>(pointwise(PointwiseNumber(sums[e]), values[e], more[e]));
  const Offset last = args.last_from(first);
  UNROLL_ALL
  for (int e = 0; e < COUNT; ++e) {
    const Offset to = offset_of(e);
    if (e >= begin && e < end && to.down <= last.down && to.right <= last.right)
      pointwise_write(args, first.below(to.down).beside(to.right), more[e]);
  }
}
#endif
// 1: sums of blocks of k are scaled before they are added (defined by pointwise_source.cuh).
#ifndef SCALES
#define SCALES 0
#endif
// 1, with SCALES only: zero points are subtracted from B's numbers.
#ifndef ZERO_POINTS
#define ZERO_POINTS 0
#endif
