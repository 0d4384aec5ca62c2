// column_sums: adds the rows of matrices in one order, for name[j] = sum(x) of an epilogue.
//
// from is [batch][rows][columns] without gaps. A block takes 32 columns and one part of the rows, kDepth of them. Row r
// of its threads adds rows r, r + 8, ...; their sums are then added in the order of r, through shared memory. Where
// there are several parts, the sums are the rows of a second run. The result of a part lies `columns` behind that of
// the part before, in numbers of the type TO.
#include "parts/pointwise.cuh"
#include "plan/steps_layout.hpp"
#include "words/functions.cuh"

struct ColumnSumsArgs {
  const PointwiseNumber* from;
  void* to;
  Int64 to_stride;  // elements, from one product of a batch to the next
  Int64 rows, columns;
  int parts;
};

KERNEL(tilewise::ColumnSumsLayout::kThreads, 1) column_sums(ARGUMENTS ColumnSumsArgs args) {
  typedef tilewise::ColumnSumsLayout Layout;
  typedef Functions<PointwiseNumber> F;
  PointwiseNumber* sums = reinterpret_cast<PointwiseNumber*>(shared_floats());  // [kDown][kAcross]
  const int lane = threadIdx.x % Layout::kAcross, row = threadIdx.x / Layout::kAcross;
  const unsigned across = static_cast<unsigned>((args.columns + Layout::kAcross - 1) / Layout::kAcross);
  const unsigned part = blockIdx.x / across % args.parts;
  const Int64 product = blockIdx.x / across / args.parts;
  const Int64 column = Int64(blockIdx.x % across) * Layout::kAcross + lane;
  const bool inside = column < args.columns;
  const Int64 first = Int64(part) * Layout::kDepth;
  const Int64 end = first + Layout::kDepth < args.rows ? first + Layout::kDepth : args.rows;
  const PointwiseNumber* from = args.from + product * args.rows * args.columns + (inside ? column : 0);
  PointwiseNumber sum = 0;
  grid_dependency_wait();
  UNROLL_BY(8)
  for (Int64 r = first + row; r < end; r += Layout::kDown) sum = F::add(sum, from[r * args.columns]);
  sums[row * Layout::kAcross + lane] = sum;
  barrier();
  if (row > 0 || !inside) return;
  UNROLL_ALL
  for (int r = 1; r < Layout::kDown; ++r) sum = F::add(sum, sums[r * Layout::kAcross + lane]);
  const Int64 at = product * args.to_stride + Int64(part) * args.columns + column;
  static_cast<Number<TO>::Stored*>(args.to)[at] = narrow_pointwise<TO>(sum);
}
