// Words of the kernel dialect for TMA: one thread issues the copy of a whole tile. sm_90 and later.
#pragma once
#include "words/mbarrier.cuh"

// An encoded tensor map in the arguments (Argument::Kind::tensor_map).
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

// True in one lane of the warp (elect.sync). Called by the whole warp. Under it the compiler treats the code as run by
// one lane, and computes operands that are uniform in the warp once.
DEVICE bool elect_one(SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  return tilewise_host::vote("elect_one", threadIdx.x % 32 == 0, kWholeWarp, at) == 1u << threadIdx.x % 32;
#else
  unsigned chosen;
  asm volatile(
      "{\n\t.reg .pred chosen;\n\t"
      "elect.sync _|chosen, 0xffffffff;\n\t"
      "selp.u32 %0, 1, 0, chosen;\n\t}"
      : "=r"(chosen));
  return chosen != 0;
#endif
}

// Starts the copy of a box of the matrix, from column x and row y on, to shared memory: row by row, swizzled as the
// map states, zeros outside the matrix. Called by one thread. The bytes count towards the barrier's phase. `to` is
// aligned to 128 bytes; the swizzle depends on addresses in shared memory: swizzled(). x elements are a multiple of 16 bytes (4
// floats): otherwise the hardware raises an illegal-instruction error. x may be below 0 or past the edge; y is any row.
DEVICE void load_tile(void* to, const TensorMap& map, int x, int y, Mbarrier* barrier,
                      SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::load_tile(to, 2, &map, x, y, 0, barrier, at);
#else
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)),
      "l"(&map), "r"(x), "r"(y), "r"(shared_address(barrier))
      : "memory");
#endif
}

// The same, of matrix z of a batch, whose map has rank 3.
DEVICE void load_tile(void* to, const TensorMap& map, int x, int y, int z, Mbarrier* barrier,
                      SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::load_tile(to, 3, &map, x, y, z, barrier, at);
#else
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(to)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier))
      : "memory");
#endif
}

// What the L2 keeps of a copy: as usual, or it makes room for others first.
typedef unsigned long long CachePolicy;
DEVICE CachePolicy cache_policy([[maybe_unused]] bool read_once) {
#ifdef TILEWISE_HOST
  return 0;
#else
  CachePolicy usual, once;
  asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(usual));
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
  return read_once ? once : usual;
#endif
}
// load_tile() of a batch with a policy.
DEVICE void load_tile(void* to, const TensorMap& map, int x, int y, int z, Mbarrier* barrier,
                      [[maybe_unused]] CachePolicy policy, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::load_tile(to, 3, &map, x, y, z, barrier, at);
#else
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(to)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
#endif
}

// Fetches the map from memory, so that the first copy by it waits less. Called by one thread.
DEVICE void prefetch_map([[maybe_unused]] const TensorMap& map) {
#ifndef TILEWISE_HOST
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

// Starts the copy of a box from shared memory to the matrix, from column x and row y on; what lies past the matrix's
// edges is not written, but for the rest of the 16 bytes in which a row ends (seen on an H200). x and y are at least 0:
// otherwise the hardware raises an illegal-instruction error. x elements are a multiple of 16 bytes, and `from` is laid out
// and aligned, as for load_tile(). Called by one thread. Before, each thread that wrote the box calls
// fence_proxy_async(), and a barrier follows.
DEVICE void store_tile(const TensorMap& map, int x, int y, const void* from, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::store_tile(2, &map, x, y, 0, from, at);
#else
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(x), "r"(y),
               "r"(shared_address(from))
               : "memory");
#endif
}
// The same, to matrix z of a batch, whose map has rank 3.
DEVICE void store_tile(const TensorMap& map, int x, int y, int z, const void* from, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::store_tile(3, &map, x, y, z, from, at);
#else
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map), "r"(x),
               "r"(y), "r"(z), "r"(shared_address(from))
               : "memory");
#endif
}
// Closes the group of this thread's store_tile() since the last call.
DEVICE void stores_commit() {
#ifdef TILEWISE_HOST
  tilewise_host::runtime->stores_commit();
#else
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}
// Waits until shared memory has been read for all but the last PENDING groups of this thread.
template <int PENDING>
DEVICE void stores_read() {
#ifdef TILEWISE_HOST
  tilewise_host::stores_read(PENDING);
#else
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
#endif
}

// The XOR swizzle of TMA: the offset at which byte `offset` of a tile lies. Bytes: the swizzle's width, 32, 64 or 128
// (0: none). The index of a 16-byte chunk within its line is XORed with bits of the line's index, so that the chunks
// of a column lie in different banks. Described at CUtensorMapSwizzle of the CUDA driver API.
template <int Bytes>
DEVICE int swizzled(int offset) {
  static_assert(Bytes == 0 || Bytes == 32 || Bytes == 64 || Bytes == 128,
                "a swizzle is of 0, 32, 64 or 128 bytes");
  if constexpr (Bytes == 0) return offset;
  return offset ^ ((offset >> 7 & (Bytes / 16 - 1)) << 4);
}
