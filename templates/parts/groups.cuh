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

// A warp's walk over the products, 32 at a time, one of each lane.
struct GroupWalk {
  int rows, tile_m;  // of A; of a tile
  int end = 0;       // the largest end of the products before
  unsigned tiles = 0;  // tile rows of the products before
  GroupRows own = {0, 0, 0, 0};
  unsigned own_tiles = 0;

  DEVICE_MEMBER GroupWalk(int of_a, int of_tile) : rows(of_a), tile_m(of_tile) {}

  // Takes the next 32 products. number: the lane's, of the product `group`; is_one: there is one.
  DEVICE_MEMBER void take(int number, int group, bool is_one) {
    const int lane = int(threadIdx.x) % 32;
    int inside = !is_one || number < 0 ? 0 : (number < rows ? number : rows);  //@ groups-clamp
    int begin = 0;
#if GROUPED == 1
    UNROLL_ALL
    for (int by = 1; by < 32; by *= 2) {
      const int before = shuffle(inside, (lane + 32 - by) % 32);
      if (lane >= by && before > inside) inside = before;  //@ groups-largest
    }
    if (end > inside) inside = end;
    const int before = shuffle(inside, (lane + 31) % 32);
    begin = lane == 0 ? end : before;
    end = shuffle(inside, 31);
#endif
    own_tiles = (static_cast<unsigned>(inside - begin) + tile_m - 1) / tile_m;
    unsigned sum = own_tiles;
    UNROLL_ALL
    for (int by = 1; by < 32; by *= 2) {
      const unsigned before = shuffle(sum, (lane + 32 - by) % 32);
      if (lane >= by) sum += before;
    }
    own = {begin, inside, tiles + sum - own_tiles, group};
    tiles += shuffle(sum, 31);
  }
};

// Calls each(walk) after each 32 products, until it returns true. Numbers of COUNT x 32 products are loaded at a time: loads that
// wait for one another would take longer than all else.
template <int COUNT, class Each>
DEVICE void for_groups(const MultiplyArgs& args, int tile_m, const Each& each) {
  GroupWalk walk(static_cast<int>(args.m), tile_m);
  const int groups = static_cast<int>(args.groups), lane = int(threadIdx.x) % 32;
  for (int first = 0; first < groups; first += 32 * COUNT) {
    int numbers[COUNT];
    UNROLL_ALL
    for (int i = 0; i < COUNT; ++i) {
      const int group = first + 32 * i + lane;
      numbers[i] = group < groups ? args.group_rows[group] : 0;
    }
    UNROLL_ALL
    for (int i = 0; i < COUNT; ++i) {
      const int begin = first + 32 * i;
      if (begin >= groups) return;
      walk.take(numbers[i], begin + lane, begin + lane < groups);
      if (each(walk)) return;
    }
  }
}

// The product that has the tile row of this number, among those of all products; one without rows where there is none.
// Called by a whole warp.
DEVICE GroupRows group_of_tile_row(const MultiplyArgs& args, int tile_m, unsigned tile_row) {
  GroupRows found = {0, 0, 0, 0};
  for_groups<4>(args, tile_m, [&](const GroupWalk& walk) {
    if (tile_row >= walk.tiles) return false;
    // The lanes whose products end behind it are the last ones; the first of these has it.
    const unsigned behind = which_lanes(tile_row < walk.own.tiles_before + walk.own_tiles);
    const int lane = lowest_lane(behind);  //@ groups-lane
    found = {shuffle(walk.own.begin, lane), shuffle(walk.own.end, lane), shuffle(walk.own.tiles_before, lane),
             shuffle(walk.own.group, lane)};
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
    for_groups<8>(args, tile_m, [&](const GroupWalk& walk) {
      const int group = walk.own.group;
      if (group < groups) {
        tiles_before[group] = walk.own.tiles_before;
        ends[group] = static_cast<int>(walk.own.end);
      }
      if (group == groups - 1) tiles_before[groups] = walk.own.tiles_before + walk.own_tiles;
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
    return {GROUPED == 1 && at > 0 ? ends[at - 1] : 0, ends[at], tiles_before[at], at};
  }
};
#endif
