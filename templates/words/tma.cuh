// Words of the kernel dialect for tiles that the GPU copies by itself (TMA). sm_90 and later.
#pragma once
#include "words/mbarrier.cuh"

// An encoded tensor map in the arguments (Argument::Kind::tensor_map).
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

// Whether this lane is the one of its warp, which comes here whole, that is chosen to act for all. The compiler knows
// that one lane runs what follows: operands that are the same in the warp need not be found lane by lane.
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

// Starts the copy of the map's box from column x and row y of the matrix on to shared memory, row after row,
// swizzled as the map says; zeros for what lies outside. By one thread. The bytes count for the barrier's
// phase. `to` is aligned to 128 bytes, to 8 x the swizzle's when there is one. x, which may be below 0 or
// past the edge, is a multiple of 16 bytes of elements (4 floats): the hardware takes any other for an
// illegal instruction. y is free.
DEVICE void load_tile(void* to, const TensorMap& map, int x, int y, Mbarrier* barrier,
                      SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::load_tile(to, &map, x, y, barrier, at);
#else
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)),
      "l"(&map), "r"(x), "r"(y), "r"(shared_address(barrier))
      : "memory");
#endif
}

// What this thread wrote to shared memory comes before the tiles that are asked for after the next
// barrier().
DEVICE void fence_proxy_async() {
#ifndef TILEWISE_HOST
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Where byte `offset` of a tile lies when it is swizzled by 32, 64 or 128 bytes (0: not): pieces of 16 bytes
// change places within lines of 128 bytes, so that a column's are in different banks. From the tensor map's
// description in the CUDA driver API (CUtensorMapSwizzle).
template <int Bytes>
DEVICE int swizzled(int offset) {
  static_assert(Bytes == 0 || Bytes == 32 || Bytes == 64 || Bytes == 128,
                "a swizzle is of 0, 32, 64 or 128 bytes");
  if constexpr (Bytes == 0) return offset;
  return offset ^ ((offset >> 7 & (Bytes / 16 - 1)) << 4);
}
