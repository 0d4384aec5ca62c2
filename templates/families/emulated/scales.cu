// scales: the scale of each row of A and of each column of B (RowScale), in one pass. It also begins the choice of the
// number of moduli with the least.
//
// Where k is contiguous a warp takes a row; else a block takes 32 rows, and its warps share k. Constants: A_TRANSPOSED,
// B_TRANSPOSED, the types.
#include "families/emulated/operands.cuh"
#include "words/warp.cuh"

typedef tilewise::residues::ScalesLayout Layout;

struct ScaledOperand {
  const Element* from;
  Int64 ld, rows;
  RowScale* to;
};
struct ScalesArgs {
  ScaledOperand a, b;
  Int64 k;      // 0: neither is read
  int* needed;
  int blocks_a;
};

// Sums of numbers relative to 2^exponent, which is above all of them: the largest so far decides.
struct RowSums {
  unsigned largest = 0;  // the high bits of the largest magnitude
  unsigned rest = 0;     // the low bits of all
  double sum = 0, squares = 0;

  // Smaller numbers cannot be told from zeros by a row that has one above 2^-400.
  static constexpr int kLeastExponent = -1000;
  static DEVICE_MEMBER int exponent_above(unsigned high) {
    const int exponent = int(high >> 20) - 1022;
    return exponent < kLeastExponent ? kLeastExponent : exponent;
  }
  DEVICE_MEMBER int exponent() const { return exponent_above(largest); }
  DEVICE_MEMBER void rescale(int by) {  // by: at most 0
    const double factor = by < -1000 ? 0 : f64_power_of_2(by);
    sum *= factor;
    squares *= factor * factor;
  }
  // scale: 2^-exponent(), which changes with the largest number.
  DEVICE_MEMBER void take(double value, double& scale) {
    const unsigned high = high_bits_of(value) & 0x7fffffffu;
    rest |= low_bits_of(value);
    if (high > largest) {
      const int before = exponent(), now = exponent_above(high);
      if (now != before || scale == 0) {
        rescale(before - now);
        scale = f64_power_of_2(now > 1000 ? -1000 : -now);
      }
      largest = high;  //@ residues-largest
    }
    const double relative = value * scale;
    sum += relative < 0 ? -relative : relative;
    squares = multiply_add(relative, relative, squares);
  }
  // After the last number: whether any is not 0.
  DEVICE_MEMBER void end() {
    if (largest == 0 && rest != 0) largest = 1;  //@ residues-tiny
  }
  DEVICE_MEMBER void join(unsigned other_largest, double other_sum, double other_squares) {
    RowSums other;
    other.largest = other_largest, other.sum = other_sum, other.squares = other_squares;
    const int mine = exponent(), theirs = other.exponent();
    if (mine < theirs) rescale(mine - theirs);
    if (theirs < mine) other.rescale(theirs - mine);
    sum += other.sum;
    squares += other.squares;
    if (other.largest > largest) largest = other.largest;
  }
  DEVICE_MEMBER RowScale scale() const {
    if (largest == 0) return {0, 0, 0, 0};
    const int exponent = exponent_above(largest);
    // Rounded up: of n additions each is off by 2^-53, and n is below 2^31.
    constexpr double UP = 1 + 0x1p-20;
    const bool held = largest < 0x7ff00000u && exponent >= -400 && exponent <= 500;  //@ residues-held
    const double most = f64_power_of_2(held ? -exponent : 0) * magnitude_above(largest);
    return {exponent, held ? float(sum * UP) : float_of(0x7fc00000u), float(root(squares) * UP), float(most / 127)};
  }
  static DEVICE_MEMBER double magnitude_above(unsigned high) {
    const UInt64 bits = static_cast<UInt64>(high + 1) << 32;
    double value;
    copy_bits(value, bits);
    return value;
  }
  static DEVICE_MEMBER double root(double value) {
#ifdef TILEWISE_HOST
    return __builtin_sqrt(value);
#else
    return sqrt(value);
#endif
  }
};

DEVICE void scale_along(const ScaledOperand& x, Int64 k, int block) {
  const int lane = int(threadIdx.x) % 32;
  const Int64 row = Int64(block) * Layout::kWarps + int(threadIdx.x) / 32;
  if (row >= x.rows) return;  // the whole warp
  const Element* from = x.from + row * x.ld;
  RowSums sums;
  double scale = 0;
  UNROLL_BY(8)
  for (Int64 h = lane; h < k; h += 32) sums.take(from[h], scale);
  sums.end();
  UNROLL_ALL
  for (int by = 16; by > 0; by /= 2)
    sums.join(shuffle_xor(sums.largest, by), shuffle_xor(sums.sum, by), shuffle_xor(sums.squares, by));  //@ residues-join
  if (lane == 0) x.to[row] = sums.scale();
}

DEVICE void scale_across(const ScaledOperand& x, Int64 k, int block) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const Int64 row = Int64(block) * 32 + lane;
  RowSums sums;
  double scale = 0;
  if (row < x.rows) {
    UNROLL_BY(8)
    for (Int64 h = warp; h < k; h += Layout::kWarps) sums.take(x.from[h * x.ld + row], scale);
    sums.end();
  }
  double* shared = reinterpret_cast<double*>(shared_floats());  // [3][warp][lane]
  constexpr int ALL = Layout::kThreads;
  const int at = warp * 32 + lane;
  shared[at] = double(sums.largest), shared[ALL + at] = sums.sum, shared[2 * ALL + at] = sums.squares;
  barrier();  //@ residues-barrier
  if (warp > 0 || row >= x.rows) return;
  for (int w = 1; w < Layout::kWarps; ++w) {
    const int other = w * 32 + lane;
    sums.join(static_cast<unsigned>(shared[other]), shared[ALL + other], shared[2 * ALL + other]);
  }
  x.to[row] = sums.scale();
}

KERNEL(Layout::kThreads, 4) scales(ARGUMENTS ScalesArgs args) {
  grid_dependency_wait();
  launch_dependents();
  const int block = int(blockIdx.x);
  if (block == 0 && threadIdx.x == 0) *args.needed = tilewise::residues::kLeast;  //@ residues-begin
  if (block < args.blocks_a) {
    if (A_TRANSPOSED)
      scale_across(args.a, args.k, block);
    else
      scale_along(args.a, args.k, block);
  } else {
    if (B_TRANSPOSED)
      scale_along(args.b, args.k, block - args.blocks_a);
    else
      scale_across(args.b, args.k, block - args.blocks_a);
  }
}
