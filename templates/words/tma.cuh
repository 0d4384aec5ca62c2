// Words of the kernel dialect for tiles that the GPU copies by itself (TMA) and the barriers in shared
// memory that say when they are there. sm_90 and later.
//
// A transfer barrier counts, in each of its phases, arrivals and bytes: a phase ends when as many arrivals
// have come as were asked for and all announced bytes are there. Phases have parity 0, 1, 0, ...
#pragma once
#include "words/warp.cuh"
#ifdef TILEWISE_HOST
#include "tma_on_cpu.hpp"
#endif

static_assert(__CUDA_ARCH__ >= 900, "tma.cuh needs sm_90 or later");

typedef unsigned long long TransferBarrier;  // in shared memory

// An encoded tensor map in the arguments (Argument::Kind::tensor_map).
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

#ifndef TILEWISE_HOST
DEVICE unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
#endif

// By one thread, before all others use it (a barrier() between).
DEVICE void transfer_barrier_init(TransferBarrier* barrier, int arrivals,
                                  SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::transfer_init(barrier, arrivals, at);
#else
  asm volatile(
      "mbarrier.init.shared::cta.b64 [%0], %1;\n\t"
      "fence.mbarrier_init.release.cluster;\n\t"
      "fence.proxy.async.shared::cta;" ::"r"(shared_address(barrier)),
      "r"(arrivals)
      : "memory");
#endif
}

DEVICE void transfer_arrive(TransferBarrier* barrier, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::transfer_arrive(barrier, 0, at);
#else
  asm volatile(
      "{\n\t.reg .b64 state;\n\t"
      "mbarrier.arrive.shared::cta.b64 state, [%0];\n\t}" ::"r"(shared_address(barrier))
      : "memory");
#endif
}

// Lane 0 arrives when all of its warp, which comes here whole, have: they have read, or written, what they want.
//
// An arrival that lets TMA overwrite what was read must come after the reads have ended: it waits for none by itself,
// and TMA not for reads, so that those which have merely begun may get the next tile's values. `nothing` is for these:
// 0, computed of what was read so that no compiler knows that it is; the arrival's address then waits for it.
DEVICE void transfer_arrive_of_warp(TransferBarrier* barrier, unsigned nothing, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::warp_barrier(kWholeWarp, at);
  if (threadIdx.x % 32 == 0) tilewise_host::transfer_arrive(barrier + nothing, 0, at);
#else
  __syncwarp();
  // Not an if: the compiler would make a branch of it, and multiply nothing meanwhile.
  asm volatile(
      "{\n\t.reg .b64 state;\n\t"
      ".reg .pred first;\n\t"
      "setp.eq.u32 first, %1, 0;\n\t"
      "@first mbarrier.arrive.shared::cta.b64 state, [%0];\n\t}" ::"r"(shared_address(barrier) + nothing),
      "r"(threadIdx.x % 32)
      : "memory");
#endif
}

// Arrives and announces the bytes of the tiles that this phase waits for: whole boxes, also where a tile
// lies partly outside its matrix.
DEVICE void transfer_expect(TransferBarrier* barrier, int bytes, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::transfer_arrive(barrier, bytes, at);
#else
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   shared_address(barrier)),
               "r"(bytes)
               : "memory");
#endif
}

// Whether the phase of this parity has ended.
DEVICE bool transfer_done(TransferBarrier* barrier, int parity, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  return tilewise_host::transfer_done(barrier, parity, at);
#else
  unsigned done;
  asm volatile(
      "{\n\t.reg .pred done;\n\t"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n\t"
      "selp.u32 %0, 1, 0, done;\n\t}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
#endif
}
DEVICE void transfer_wait(TransferBarrier* barrier, int parity, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  while (!tilewise_host::transfer_done(barrier, parity, at)) tilewise_host::runtime->yield(at);
#else
  while (!transfer_done(barrier, parity, at)) {
  }
#endif
}

// Whether this lane is the one of its warp, which comes here whole, that is chosen to act for all. The compiler knows
// that one lane runs what follows: operands that are the same in the warp need not be found lane by lane.
DEVICE bool chosen_lane(SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  return tilewise_host::vote("chosen_lane", threadIdx.x % 32 == 0, kWholeWarp, at) == 1u << threadIdx.x % 32;
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
DEVICE void load_tile(void* to, const TensorMap& map, int x, int y, TransferBarrier* barrier,
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
DEVICE void transfers_may_overwrite() {
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
