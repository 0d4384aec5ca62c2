// Grouped products: the products of a batch have different numbers of rows, which args.group_rows has in device memory.
// GROUPED 1: the rows of all products follow one another in A and C; number g is the end of product g's rows. GROUPED 2:
// product g has the first rows of its own A and C; number g is their count.
//
// A number outside of 0 to m counts as the nearest inside; an end before that of another product as the end of no rows.
// So no row is outside of A and C, and none has two products, whatever the numbers are.
#pragma once
#include "parts/arguments.cuh"

#if GROUPED_DEPTH
// GROUPED_DEPTH: the steps of k of all products follow one another in A and B, which are stored by k; number g is the end of
// product g's. A number outside of 0 to k counts as the nearest inside.
struct DepthRange {
  Int64 begin, end;
};
DEVICE DepthRange depth_of_product(const MultiplyArgs& args, Int64 product) {
  const auto inside = [&](Int64 nth) {
    const Int64 number = args.group_rows[nth];
    return number < 0 ? 0 : (number < args.k ? number : args.k);  //@ groups-depth-clamp
  };
  if (args.k == 0) return {0, 0};  // alpha is 0
  const Int64 begin = product == 0 ? 0 : inside(product - 1), end = inside(product);
  return {begin, end > begin ? end : begin};
}
#endif

// The steps of k of a product. (A variable that holds args.k moves loads in the code of products that are not grouped.)
#if GROUPED_DEPTH
#define PRODUCT_STEPS(args, range) ((range).end - (range).begin)
#else
#define PRODUCT_STEPS(args, range) (args).k
#endif

#if GROUPED
#include "words/warp.cuh"

// The rows of a product, and how many tile rows the products before it have.
struct GroupRows {
  Int64 begin, end;
  unsigned tiles_before;
  int group;
};

// A warp's walk over the products, 32 COUNT at a time. Each lane has COUNT neighbours. The two scans of the lanes take ten
// dependent shuffles, whatever COUNT is.
template <int COUNT>
struct GroupWalk {
  int rows, tile_m;  // of A; of a tile
  int end = 0;       // the largest end of the products before
  unsigned tiles = 0;  // tile rows of the products before
  // The lane's products: the first one, its first row and tile row, and the ends of all.
  int group = 0, begin = 0;
  unsigned tiles_before = 0;
  int ends[COUNT];

  DEVICE_MEMBER GroupWalk(int of_a, int of_tile) : rows(of_a), tile_m(of_tile) {}

  // Takes the next products. numbers: the lane's, from the product `first` on.
  DEVICE_MEMBER void take(const int (&numbers)[COUNT], int first) {
    const int lane = int(threadIdx.x) % 32;
    group = first;
    UNROLL_ALL
    for (int i = 0; i < COUNT; ++i) {
      const int number = numbers[i];
      ends[i] = number < 0 ? 0 : (number < rows ? number : rows);  //@ groups-clamp
#if GROUPED == 1
      if (i > 0 && ends[i - 1] > ends[i]) ends[i] = ends[i - 1];  //@ groups-largest-of-lane
#endif
    }
#if GROUPED == 1
    int largest = ends[COUNT - 1];
    UNROLL_ALL
    for (int by = 1; by < 32; by *= 2) {
      const int before = shuffle(largest, (lane + 32 - by) % 32);
      if (lane >= by && before > largest) largest = before;  //@ groups-largest
    }
    const int before = shuffle(largest, (lane + 31) % 32);
    begin = lane > 0 && before > end ? before : end;
    UNROLL_ALL
    for (int i = 0; i < COUNT; ++i)
      if (begin > ends[i]) ends[i] = begin;
    const int last = shuffle(largest, 31);
    if (last > end) end = last;
#endif
    unsigned own = 0;
    UNROLL_ALL
    for (int i = 0; i < COUNT; ++i) own += tiles_of(i);
    unsigned sum = own;
    UNROLL_ALL
    for (int by = 1; by < 32; by *= 2) {
      const unsigned before = shuffle(sum, (lane + 32 - by) % 32);
      if (lane >= by) sum += before;
    }
    tiles_before = tiles + sum - own;
    tiles += shuffle(sum, 31);
  }
  DEVICE_MEMBER int begin_of(int i) const { return GROUPED == 1 && i > 0 ? ends[i - 1] : begin; }
  DEVICE_MEMBER unsigned tiles_of(int i) const { return (static_cast<unsigned>(ends[i] - begin_of(i)) + tile_m - 1) / tile_m; }
  // Calls each(product, its tile rows) for the lane's products.
  template <class Each>
  DEVICE_MEMBER void for_own(const Each& each) const {
    unsigned before = tiles_before;
    UNROLL_ALL
    for (int i = 0; i < COUNT; ++i) {
      const unsigned own = tiles_of(i);
      each(GroupRows{begin_of(i), ends[i], before, group + i}, own);
      before += own;
    }
  }
};

// Calls each(walk) after each 32 COUNT products, until it returns true. Their numbers are loaded at a time: loads that wait for
// one another would take longer than all else.
template <int COUNT, class Each>
DEVICE void for_groups(const MultiplyArgs& args, int tile_m, const Each& each) {
  GroupWalk<COUNT> walk(static_cast<int>(args.m), tile_m);
  const int groups = static_cast<int>(args.groups);
  for (int first = int(threadIdx.x) % 32 * COUNT, all = 0; all < groups; first += 32 * COUNT, all += 32 * COUNT) {
    int numbers[COUNT];
    UNROLL_ALL
    for (int i = 0; i < COUNT; ++i) numbers[i] = first + i < groups ? args.group_rows[first + i] : 0;
    walk.take(numbers, first);
    if (each(walk)) return;
  }
}

// The product that has the tile row of this number, among those of all products; one without rows where there is none.
// Called by a whole warp.
DEVICE GroupRows group_of_tile_row(const MultiplyArgs& args, int tile_m, unsigned tile_row) {
  GroupRows found = {0, 0, 0, 0};
  for_groups<4>(args, tile_m, [&](const GroupWalk<4>& walk) {
    if (tile_row >= walk.tiles) return false;
    GroupRows own = {0, 0, 0, 0};
    bool behind = false;  // the end of one of the lane's products
    walk.for_own([&](const GroupRows& rows, unsigned tiles) {
      if (behind || tile_row >= rows.tiles_before + tiles) return;
      own = rows;
      behind = true;
    });
    // The first of the lanes with such a product has it.
    const int lane = lowest_lane(which_lanes(behind));  //@ groups-lane
    found = {shuffle(own.begin, lane), shuffle(own.end, lane), shuffle(own.tiles_before, lane), shuffle(own.group, lane)};
    return true;
  });
  return found;
}

// The same for a persistent block, whose threads look products up by themselves. In shared memory, so many words:
// of `groups` products, 2 groups + 1.
struct GroupTable {
  unsigned* tiles_before;  // by product; behind the last one all tile rows
  int* ends;               // by product
  int groups;

  DEVICE_MEMBER GroupTable(const MultiplyArgs& args, char* shared)
      : tiles_before(reinterpret_cast<unsigned*>(shared)), groups(static_cast<int>(args.groups)) {
    ends = reinterpret_cast<int*>(tiles_before + groups + 1);
  }
  // Called by one warp; a barrier must follow.
  DEVICE_MEMBER void fill(const MultiplyArgs& args, int tile_m) const {
    for_groups<8>(args, tile_m, [&](const GroupWalk<8>& walk) {
      walk.for_own([&](const GroupRows& rows, unsigned tiles) {
        if (rows.group >= groups) return;
        tiles_before[rows.group] = rows.tiles_before;
        ends[rows.group] = static_cast<int>(rows.end);
        if (rows.group == groups - 1) tiles_before[groups] = rows.tiles_before + tiles;
      });
      return false;
    });
  }
  DEVICE_MEMBER unsigned all() const { return tiles_before[groups]; }
  // tile_row: less than all().
  DEVICE_MEMBER GroupRows group_of(unsigned tile_row) const {
    // The last product that begins at or before the tile row: those with the same number before it have no rows.
    int at = 0, count = groups;
    while (count > 1) {
      const int half = count / 2;
      if (tiles_before[at + half] <= tile_row) at += half;  //@ groups-half
      count -= half;
    }
    return {GROUPED == 1 && at > 0 ? ends[at - 1] : 0, ends[at], tiles_before[at], at};  //@ groups-of-product
  }
};
#endif
