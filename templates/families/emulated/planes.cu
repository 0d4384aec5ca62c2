// planes: matrices of A and B, with k contiguous. MAGNITUDES 1: one matrix of 7-bit magnitudes, rounded down; of halves it
// has a sample of the steps of k. 0: a matrix of residues for each modulus that the device has chosen, of the integers to
// which rows are scaled and rounded; with OF_HALVES two matrices of f16, whose sum is the scaled operand.
//
// A thread takes 16 steps of k of a row (a column of B).
//
// Constants: A_TRANSPOSED, B_TRANSPOSED, VECTOR_A, VECTOR_B (elements of a load where k is contiguous: 1, 2 or 4), the types.
#include "families/emulated/operands.cuh"

typedef tilewise::residues::PlanesLayout Layout;
constexpr int kValues = Layout::kValues, kWords = Layout::kWords;

#if OF_HALVES && !MAGNITUDES
typedef Number<TYPE_F16> Half;
typedef Half::Stored Plane;
#else
typedef signed char Plane;
#endif

struct PlanesOperand {
  const Element* from;
  Int64 ld;
  Int64 first, rows;  // of the operand: those that are taken
  const RowScale* scales;
  Plane* to;
  Int64 to_rows;      // of a matrix: those that the operand lacks are zeros
};
struct PlanesArgs {
  PlanesOperand a, b;
  Int64 k;            // 0: neither is read
  Int64 part, to_ld;  // steps of k of a part, and elements of a row of a matrix
  Int64 sampled_of;   // of so many steps of k, magnitudes of halves have the first kSampled
  ModuliArgs moduli;
  int blocks_a;
};

// The step of k of a matrix's step.
DEVICE Int64 source_step(const PlanesArgs& args, Int64 step) {
  constexpr int SAMPLED = tilewise::residues::kSampled;
  return OF_HALVES && MAGNITUDES ? step / SAMPLED * args.sampled_of + step % SAMPLED : step;  //@ halves-sample
}

#if !OF_HALVES || MAGNITUDES
// Writes the words of a thread, of those that lie in the row's `bytes`.
template <int APART>
DEVICE void write_words(signed char* to, const unsigned (&words)[kWords], Int64 bytes) {
  if constexpr (APART == 4) {
    store_vector<kWords>(reinterpret_cast<unsigned*>(to), words);
  } else {
    UNROLL_ALL
    for (int w = 0; w < kWords; ++w)
      if (w * APART < bytes) *reinterpret_cast<unsigned*>(to + w * APART) = words[w];  //@ residues-row-end
  }
}

#endif

#if MAGNITUDES
// The magnitudes of a thread's values: at most |x| / row.magnitude.
template <bool OF_A, int APART>
DEVICE void write_values(const PlanesArgs&, const double (&values)[kValues], const RowScale& row, signed char* to, Int64 bytes,
                         Int64) {
  // Of a row that is not held, and of one of zeros, no number is converted.
  const bool any = row.sum > 0;
  const double relative = f64_power_of_2(any ? -row.exponent : 0);
  const double scale = any ? (1 - 0x1p-50) / double(row.magnitude) : 0;
  unsigned words[kWords];
  UNROLL_ALL
  for (int w = 0; w < kWords; ++w) {
    words[w] = 0;
    UNROLL_ALL
    for (int e = 0; e < 4; ++e) {
      const double x = values[4 * w + e] * relative * scale;
      words[w] |= static_cast<unsigned>(any ? int(x < 0 ? -x : x) : 0) << 8 * e;  //@ residues-magnitude
    }
  }
  write_words<APART>(to, words, bytes);
}
#elif OF_HALVES
// matrices: elements from the matrix of the nearest numbers to that of the rest.
template <bool OF_A, int APART>
DEVICE void write_values(const PlanesArgs&, const double (&values)[kValues], const RowScale& row, Plane* to, Int64 elements,
                         Int64 matrices) {
  constexpr int TOGETHER = APART == 4 ? 8 : 4;  // neighbours in a row of a matrix
  const double scale = f64_power_of_2(-unit_exponent(row));
  UNROLL_ALL
  for (int first = 0; first < kValues; first += TOGETHER) {
    const int at = first / 4 * APART;
    Plane high[TOGETHER], low[TOGETHER];
    UNROLL_ALL
    for (int e = 0; e < TOGETHER; ++e) {
      const float x = float(values[first + e] * scale);
      high[e] = Half::narrow(x);
      low[e] = Half::narrow(x - Half::widen(high[e]));  //@ halves-rest
    }
    if (at >= elements) break;
    store_vector<TOGETHER>(to + at, high);
    store_vector<TOGETHER>(to + matrices + at, low);  //@ halves-low
  }
}
#else
// The integers of a thread's values plus 2^63, in two words of 32 bits each, the lowest first.
typedef unsigned Integers[kValues][2];
DEVICE void to_integers(Integers& integers, const double (&values)[kValues], double scale) {
  UNROLL_ALL
  for (int e = 0; e < kValues; ++e) {
    const UInt64 bits = static_cast<UInt64>(nearest_integer(values[e] * scale));  //@ residues-round
    integers[e][0] = static_cast<unsigned>(bits);
    integers[e][1] = static_cast<unsigned>(bits >> 32) ^ 0x80000000u;
  }
}
// nth: of the moduli.
template <int APART>
DEVICE void write_residues(const Integers& integers, int nth, signed char* to, Int64 bytes) {
  constexpr tilewise::residues::Table<tilewise::residues::Modulus, tilewise::residues::kMost> MODULI =
      tilewise::residues::all_moduli();
  const tilewise::residues::Modulus m = MODULI.of[nth];
  unsigned words[kWords];
  UNROLL_ALL
  for (int w = 0; w < kWords; ++w) {
    words[w] = 0;
    UNROLL_ALL
    for (int e = 0; e < 4; ++e) {
      const unsigned (&of)[2] = integers[4 * w + e];
      const unsigned sum = dot_bytes(of[1], m.powers[1], dot_bytes(of[0], m.powers[0], m.start[1]));
      words[w] |= residue_byte(m, sum) << 8 * e;
    }
  }
  write_words<APART>(to, words, bytes);
}
// matrices: bytes from the part's matrix of one modulus to that of the next.
template <bool OF_A, int APART>
DEVICE void write_values(const PlanesArgs& args, const double (&values)[kValues], const RowScale& row, signed char* to,
                         Int64 bytes, Int64 matrices) {
  const int count = args.moduli.count();
  const tilewise::residues::Scales& scales = scales_of(count);
  Integers integers;
  to_integers(integers, values, f64_power_of_2(-unit_exponent(row, scales.fits, OF_A ? scales.bits_a : scales.bits_b)));
  UNROLL_ALL
  for (int nth = 0; nth < tilewise::residues::kMost; ++nth)
    if (nth < count) write_residues<APART>(integers, nth, to + nth * matrices, bytes);
}
#endif

// COUNT neighbours in memory, of those with `left` of them inside.
template <int COUNT, int VECTOR>
DEVICE void load_some(double* to, const Element* from, Int64 left) {
  UNROLL_ALL
  for (int e = 0; e < COUNT; e += VECTOR) {
    Element some[VECTOR];
    load_part<VECTOR>(some, from + e, 0, left - e < VECTOR ? int(left - e) : VECTOR);
    UNROLL_ALL
    for (int v = 0; v < VECTOR; ++v) to[e + v] = some[v];
  }
}

template <bool OF_A, bool ALONG_K, int VECTOR>
DEVICE void write_block(const PlanesArgs& args, const PlanesOperand& x, unsigned block) {
  constexpr Layout LAYOUT = {ALONG_K};
  constexpr int APART = LAYOUT.apart();
  const unsigned down = static_cast<unsigned>((x.to_rows + LAYOUT.rows() - 1) / LAYOUT.rows());
  const unsigned across = static_cast<unsigned>((args.part + LAYOUT.depth() - 1) / LAYOUT.depth());  // of a part
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const Int64 row = Int64(block % down) * LAYOUT.rows() + (ALONG_K ? warp : warp % 4 * 16 + lane % 16);
  const unsigned nth = block / down;
  const Int64 part = nth / across;
  // Of the part: the thread's first step, and those that the operand has.
  const Int64 first = Int64(nth % across) * LAYOUT.depth() + (ALONG_K ? 4 * lane : warp / 4 * 32 + lane / 16 * 16);
  const Int64 rest = args.k - part * args.part, inside = OF_HALVES || rest < args.part ? rest : args.part;
  if (row >= x.to_rows || first >= args.to_ld) return;
  double values[kValues] = {};
  RowScale scale = {0, 0, 0, 0};
  if (row < x.rows) {
    scale = x.scales[x.first + row];  //@ residues-scale-of-row
    const Int64 step = source_step(args, part * args.part + first), left = inside - source_step(args, first);
    const Element* from = x.from + (ALONG_K ? (x.first + row) * x.ld + step : step * x.ld + x.first + row);
    if constexpr (ALONG_K) {
      UNROLL_ALL
      for (int w = 0; w < kWords; ++w) {
        const Int64 by = source_step(args, w * APART);
        load_some<4, VECTOR>(values + 4 * w, from + by, left - by);
      }
    } else {
      UNROLL_ALL
      for (int e = 0; e < kValues; ++e)
        if (e < left) values[e] = from[e * x.ld];
    }
  }
  const Int64 matrix = x.to_rows * args.to_ld;
  Plane* to = x.to + part * matrix + row * args.to_ld + first;
  write_values<OF_A, APART>(args, values, scale, to, args.to_ld - first, args.moduli.parts * matrix);
}

KERNEL(Layout::kThreads, 1) planes(ARGUMENTS PlanesArgs args) {
  grid_dependency_wait();
  launch_dependents();
#if !MAGNITUDES
  if (args.moduli.count() == 0) return;
#endif
  if (args.k == 0) return;
  if (int(blockIdx.x) < args.blocks_a)
    write_block<true, !A_TRANSPOSED, VECTOR_A>(args, args.a, blockIdx.x);
  else
    write_block<false, B_TRANSPOSED, VECTOR_B>(args, args.b, blockIdx.x - unsigned(args.blocks_a));
}
