// The copies of templates/tma.cuh on the CPU. Issuing a copy fills its destination with a canary;
// the data are stored when a thread tests the copy's mbarrier. To the thread sanitizer the copy's
// accesses are those of the async proxy (FiberChecks) at the time of issue.
#pragma once

namespace tilewise_host {

inline __attribute__((always_inline)) MbarrierState& mbarrier_state(void* barrier, Site site) {
  const char* begin = static_cast<const char*>(thread().block->shared);
  const char* at = static_cast<const char*>(barrier);
  if (at < begin || at + 8 > begin + thread().block->shared_bytes || (at - begin) % 8 != 0)
    runtime->fault(site, "an mbarrier must be 8 aligned bytes of the block's shared memory");
  return *static_cast<MbarrierState*>(barrier);
}

// Happens-before edges from an arrival (or a completed copy) in a phase to a thread that sees the
// phase end. The mbarriers' own words give no order and are not checked as data.
inline void* edge_of(void* barrier, int parity) { return static_cast<char*>(barrier) + 4 * parity; }
// From an arrival in flight to the thread that counts it.
inline void* edge_in_flight(void* barrier) { return static_cast<char*>(barrier) + 2; }

TILEWISE_FOR_ALL inline void count_mbarrier(MbarrierState& state, int arrivals, int bytes) {
  state.missing -= arrivals;
  state.bytes_and_parity += 2 * bytes;
  if (state.missing == 0 && state.bytes() == 0) {
    state.missing = state.arrivals;
    state.bytes_and_parity ^= 1;
  }
}
TILEWISE_FOR_ALL inline int missing_of(const MbarrierState& state) { return state.missing; }
TILEWISE_FOR_ALL inline int parity_of(const MbarrierState& state) { return state.parity(); }
TILEWISE_FOR_ALL inline void set_mbarrier(MbarrierState& state, int arrivals) {
  state = {static_cast<unsigned short>(arrivals), static_cast<unsigned short>(arrivals), 0};
}

inline void mbarrier_init(void* barrier, int arrivals, Site site) {
  if (arrivals < 1 || arrivals > MbarrierState::kMost)
    runtime->fault(site, "an mbarrier needs 1 to 1024 arrivals");
  set_mbarrier(mbarrier_state(barrier, site), arrivals);
  runtime->mbarrier_made(barrier, site);
}

// Arrives at an mbarrier of any block of the cluster.
inline void arrive_at(void* barrier, int bytes, Site site) {
  MbarrierState& state = *static_cast<MbarrierState*>(barrier);
  const int missing = missing_of(state);
  if (missing > MbarrierState::kMost) runtime->fault(site, "an mbarrier that was not initialised");
  if (missing == 0)
    runtime->fault(site,
                   "one arrival too many: the phase lacks bytes only, is the stage empty already?");
  runtime->edge(edge_of(barrier, parity_of(state)), true);
  count_mbarrier(state, 1, bytes);
}
inline void mbarrier_arrive(void* barrier, int bytes, Site site) {
  mbarrier_state(barrier, site);
  arrive_at(barrier, bytes, site);
}

// Where the element lies in a box that begins at `box` in shared memory. The swizzle depends on
// addresses; shared memory is aligned to the largest pattern.
TILEWISE_FOR_ALL inline char* place_in_box(const TensorMapData& map, const void* box, long long row,
                                           long long column) {
  unsigned long long at =
      reinterpret_cast<unsigned long long>(box) + (row * map.box[0] + column) * map.element_bytes;
  if (map.swizzle_bytes) at ^= (at >> 7 & (map.swizzle_bytes / 16 - 1)) << 4;
  return reinterpret_cast<char*>(at);
}

// An f32 in shared memory becomes a tf32; NaN becomes 0x7fffe000, as on an H200.
TILEWISE_FOR_ALL inline void round_to_tf32(char* at) {
  float value;
  __builtin_memcpy(&value, at, 4);
  const unsigned bits = tf32_of_float(value, true) & 0xffffe000u;
  __builtin_memcpy(at, &bits, 4);
}

// What TMA and wgmma access, for the thread sanitizer. `pc`: the return address of a call in the
// kernel, whose line reports show.
#if defined(__SANITIZE_THREAD__)
constexpr bool kAccessesWatched = true;
extern "C" void __tsan_read_range_pc(void* at, unsigned long bytes, void* pc);
extern "C" void __tsan_write_range_pc(void* at, unsigned long bytes, void* pc);
TILEWISE_FOR_ALL inline void hardware_reads(const void* at, long long bytes, void* pc) {
  __tsan_read_range_pc(const_cast<void*>(at), static_cast<unsigned long>(bytes), pc);
}
TILEWISE_FOR_ALL inline void hardware_writes(void* at, long long bytes, void* pc) {
  __tsan_write_range_pc(at, static_cast<unsigned long>(bytes), pc);
}
#else
constexpr bool kAccessesWatched = false;
TILEWISE_FOR_ALL inline void hardware_reads(const void*, long long, void*) {}
TILEWISE_FOR_ALL inline void hardware_writes(void*, long long, void*) {}
#endif

TILEWISE_FOR_ALL inline long long bytes_of_box(const TensorMapData& map) {
  return static_cast<long long>(map.box[0]) * map.box[1] * map.element_bytes;
}
// Calls visit(begin, bytes) for the part of each row of a box that is inside the matrix, which has
// `columns`.
template <class Tile, class Visit>
TILEWISE_FOR_ALL inline void for_rows_inside(const Tile& tile, long long columns,
                                             const Visit& visit) {
  const TensorMapData& map = tile.map;
  const long long left = tile.x > map.unread ? tile.x : map.unread, behind = tile.x + map.box[0];
  const long long right = behind < columns ? behind : columns;
  if (tile.z < 0 || tile.z >= map.dims[2] || left >= right) return;
  char* const matrix = static_cast<char*>(const_cast<void*>(map.base)) + tile.z * map.batch;
  for (long long y = tile.y > 0 ? tile.y : 0; y < tile.y + map.box[1] && y < map.dims[1]; ++y)
    visit(matrix + y * map.stride + left * map.element_bytes, (right - left) * map.element_bytes);
}

TILEWISE_FOR_ALL inline void copy_element(char* to, const char* from, int bytes) {
  if (bytes == 1) __builtin_memcpy(to, from, 1);
  if (bytes == 2) __builtin_memcpy(to, from, 2);
  if (bytes == 4) __builtin_memcpy(to, from, 4);
  if (bytes == 8) __builtin_memcpy(to, from, 8);
}

// Stores one box of a matrix; elements outside the matrix are zero.
TILEWISE_FOR_ALL inline void land_tile(const TileLoad& load) {
  constexpr long long kOutside = 0, kUndefined = -1;
  const TensorMapData& map = load.map;
  const int element = map.element_bytes;
  const char* matrix = static_cast<const char*>(map.base) + load.z * map.batch;
  const bool any = load.z >= 0 && load.z < map.dims[2];
  for (long long row = 0; row < map.box[1]; ++row)
    for (long long column = 0; column < map.box[0]; ++column) {
      const long long x = load.x + column, y = load.y + row;
      char* to = place_in_box(map, load.to, row, column);
      const bool inside = any && x >= 0 && x < map.dims[0] && y >= 0 && y < map.dims[1];
      // Columns that are not part of the operand (map.unread) are undefined on a GPU.
      const char* from = reinterpret_cast<const char*>(&kOutside);
      if (inside && x < map.unread) from = reinterpret_cast<const char*>(&kUndefined);
      if (inside && x >= map.unread) from = matrix + y * map.stride + x * element;
      copy_element(to, from, element);
      if (map.rounded) round_to_tf32(to);
    }
}

inline bool mbarrier_try_wait(void* barrier, int parity, Site site) {
  MbarrierState& state = mbarrier_state(barrier, site);
  for (TileLoad load; runtime->load_next(barrier, &load);) {
    land_tile(load);
    count_mbarrier(state, 0, -static_cast<int>(bytes_of_box(load.map)));
  }
  for (Site from; runtime->arrival_next(barrier, &from);) {
    runtime->edge(edge_in_flight(barrier), false);
    arrive_at(barrier, 0, from);
  }
  if (parity_of(state) == parity) return false;
  runtime->edge(edge_of(barrier, parity), false);
  return true;
}

// The map of a word that copies a box to or from `place` in the block's shared memory.
inline const TensorMapData& checked_map(const char* word, int rank, const void* of,
                                        const void* place, Site site) {
  const TensorMapData& map = *static_cast<const TensorMapData*>(of);
  const auto fault = [&](const char* what) {
    char text[128];
    __builtin_snprintf(text, sizeof text, "%s%s", word, what);
    runtime->fault(site, text);
  };
  if (map.mark != kTensorMapMark) fault("'s map is none that this device has encoded");
  if (map.rank != rank)
    fault(rank == 2 ? " takes the map of a matrix" : " takes the map of a batch");
  const auto offset =
      static_cast<const char*>(place) - static_cast<const char*>(thread().block->shared);
  if (offset < 0 || offset + bytes_of_box(map) > thread().block->shared_bytes)
    fault(" reaches outside the block's shared memory");
  if (offset % 128 != 0) fault("'s place is not aligned to 128 bytes");
  return map;
}

// At such a column a GPU raises an illegal instruction in a load; stores are held to the same rule.
inline void refuse_column(const char* word, const TensorMapData& map, int x, Site site) {
  const int step = 16 / map.element_bytes;
  if (x % step == 0) return;
  char text[96];
  __builtin_snprintf(text, sizeof text,
                     "%s's column must be a multiple of %d (16 bytes), and is %d", word, step, x);
  runtime->fault(site, text);
}
inline void refuse_store_before(int x, int y, Site site) {
  if (x >= 0 && y >= 0) return;
  char text[96];
  __builtin_snprintf(text, sizeof text,
                     "store_tile's column and row must be at least 0, and are %d and %d", x, y);
  runtime->fault(site, text);
}

typedef unsigned long long __attribute__((may_alias)) EightBytes;
// The copy's end is released at the time of issue, too: the phase of the mbarrier in which the
// bytes count ends after it, and what the hardware does later is not released.
TILEWISE_FOR_ALL inline void start_load(const TileLoad& load, void* pc) {
  const long long bytes = bytes_of_box(load.map);
  runtime->load_start(load);
  if (kAccessesWatched) {
    const int parity = parity_of(*static_cast<const MbarrierState*>(load.barrier));
    runtime->async_proxy(true);
    for_rows_inside(load, load.map.dims[0],
                    [pc](char* at, long long n) TILEWISE_FOR_ALL { hardware_reads(at, n, pc); });
    hardware_writes(load.to, bytes, pc);
    runtime->edge(edge_of(load.barrier, parity), true);
    runtime->async_proxy(false);
  }
  for (long long i = 0; i < bytes / 8; ++i) static_cast<EightBytes*>(load.to)[i] = ~0ull;
}

// rank: of the map, 2 or 3; z: the matrix of a batch, else 0. `to` and `barrier`: in this block.
// The box goes to the same place, and its bytes count at the same mbarrier, in each block of the
// cluster whose bit in `blocks` is set.
inline __attribute__((noinline)) void load_tile_to(unsigned blocks, void* to, int rank,
                                                   const void* of, int x, int y, int z,
                                                   void* barrier, Site site) {
  const TensorMapData& map = checked_map("load_tile", rank, of, to, site);
  mbarrier_state(barrier, site);
  refuse_column("load_tile", map, x, site);
  const Block& block = *thread().block;
  if (blocks == 0 || blocks >> block.cluster != 0)
    runtime->fault(site, "load_tile_to names blocks that the cluster does not have, or none");
  for (unsigned b = 0; b < block.cluster; ++b) {
    if ((blocks >> b & 1u) == 0) continue;
    char* there = b == block.rank ? static_cast<char*>(block.shared) : runtime->shared_of(b, site);
    const auto translated = [&](void* at) {
      return there + (static_cast<char*>(at) - static_cast<char*>(block.shared));
    };
    start_load({translated(to), map, x, y, z, translated(barrier), site},
               __builtin_return_address(0));
  }
}
inline __attribute__((always_inline)) void load_tile(void* to, int rank, const void* of, int x,
                                                     int y, int z, void* barrier, Site site) {
  load_tile_to(1u << thread().block->rank, to, rank, of, x, y, z, barrier, site);
}

inline void fence_proxy_async() { runtime->fence_proxy_async(); }

// The columns that a store writes: all of the 16 bytes in which a row ends.
TILEWISE_FOR_ALL inline long long stored_columns(const TensorMapData& map) {
  const long long unit = 16 / map.element_bytes;
  return (map.dims[0] + unit - 1) / unit * unit;
}
// Waiting for the store's group waits for its reads, not for its writes.
TILEWISE_FOR_ALL inline void start_store(const TileStore& store, void* pc) {
  runtime->async_proxy(true);
  hardware_reads(store.from, bytes_of_box(store.map), pc);
  runtime->store_start(store);
  for_rows_inside(store, stored_columns(store.map),
                  [pc](char* at, long long n) TILEWISE_FOR_ALL { hardware_writes(at, n, pc); });
  runtime->async_proxy(false);
}
inline __attribute__((noinline)) void store_tile(int rank, const void* of, int x, int y, int z,
                                                 const void* from, Site site) {
  const TensorMapData& map = checked_map("store_tile", rank, of, from, site);
  refuse_column("store_tile", map, x, site);
  refuse_store_before(x, y, site);
  start_store({from, map, x, y, z, site}, __builtin_return_address(0));
}

// Copies one box to its matrix. Elements outside the matrix are left out, but for those of the 16
// bytes in which a row ends.
TILEWISE_FOR_ALL inline void put_tile(const TileStore& store) {
  const TensorMapData& map = store.map;
  const long long columns = stored_columns(map);
  for (long long row = 0; row < map.box[1]; ++row)
    for (long long column = 0; column < map.box[0]; ++column) {
      const long long x = store.x + column, y = store.y + row;
      if (x < 0 || x >= columns || y < 0 || y >= map.dims[1] || store.z >= map.dims[2]) continue;
      copy_element(static_cast<char*>(const_cast<void*>(map.base)) + store.z * map.batch +
                       y * map.stride + x * map.element_bytes,
                   place_in_box(map, store.from, row, column), map.element_bytes);
    }
}

inline void stores_read(int pending) {
  for (TileStore store; runtime->store_next(pending, &store);) put_tile(store);
}

}  // namespace tilewise_host
