// Words of the kernel dialect for mbarriers: barriers in shared memory that count arrivals and bytes. sm_90 and later.
//
// A phase ends when its arrivals are counted down (mbarrier_init) and all expected bytes have been copied
// (mbarrier_expect_tx). Phases have parity 0, 1, 0, ...
//
// The instructions take one address for all lanes of a warp. Where the compiler does not know that all lanes have the same
// mbarrier, it loops over the lanes, and a wait makes it take all that follows for code of lanes that may diverge: a main loop
// has addresses of its own for each lane then (bench/results/h100_uniform_waits.txt). So they are initialised in unrolled code,
// and those of a warp follow from warp_number().
#pragma once
#include "words/warp.cuh"
#ifdef TILEWISE_HOST
#include "tma_on_cpu.hpp"
#endif

static_assert(__CUDA_ARCH__ >= 900, "mbarrier.cuh needs sm_90 or later");

typedef unsigned long long Mbarrier;  // in shared memory

#ifndef TILEWISE_HOST
DEVICE unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
#endif

// Called by one thread for each mbarrier. That thread calls mbarriers_ready() after its last one. A barrier() follows
// before other threads use the mbarriers. `arrivals`: of each phase.
DEVICE void mbarrier_init(Mbarrier* barrier, int arrivals,
                                  SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::mbarrier_init(barrier, arrivals, at);
#else
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
#endif
}
// Makes the mbarriers that this thread has initialised known to TMA and to the blocks of its cluster.
DEVICE void mbarriers_ready() {
#ifdef TILEWISE_HOST
  tilewise_host::runtime->mbarriers_ready();
#else
  asm volatile(
      "fence.mbarrier_init.release.cluster;\n\t"
      "fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

DEVICE void mbarrier_arrive(Mbarrier* barrier, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::mbarrier_arrive(barrier, 0, at);
#else
  asm volatile(
      "{\n\t.reg .b64 state;\n\t"
      "mbarrier.arrive.shared::cta.b64 state, [%0];\n\t}" ::"r"(shared_address(barrier))
      : "memory");
#endif
}

// One arrival for the warp, by lane 0, after all lanes have reached this call. Called by the whole warp. It orders the
// warp's ordinary reads and writes of shared memory before the ordinary accesses of a thread that sees the phase end.
DEVICE void mbarrier_arrive_warp(Mbarrier* barrier, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::warp_barrier(kWholeWarp, at);
  if (threadIdx.x % 32 == 0) tilewise_host::mbarrier_arrive(barrier, 0, at);
#else
  __syncwarp();
  // A predicate, not an if: the compiler does not move multiply-adds across a branch.
  asm volatile(
      "{\n\t.reg .b64 state;\n\t"
      ".reg .pred first;\n\t"
      "setp.eq.u32 first, %1, 0;\n\t"
      "@first mbarrier.arrive.shared::cta.b64 state, [%0];\n\t}" ::"r"(shared_address(barrier)),
      "r"(threadIdx.x % 32)
      : "memory");
#endif
}

// Orders this thread's ordinary accesses of shared memory (the generic proxy) before later ones of TMA and of wgmma (the
// async proxy): those that this thread issues, and those that another thread issues after it has waited for this one, at
// a barrier() or an mbarrier. `.shared::cta`: without it the compiler adds a fence of the whole GPU.
DEVICE void fence_proxy_async() {
#ifdef TILEWISE_HOST
  tilewise_host::fence_proxy_async();
#else
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Hands memory of the block back to TMA, after the warp's last ordinary access of it. One arrival at `empty` for the
// warp; the thread that issues TMA's next write waits for the phase. Called by the whole warp.
//
// An arrival alone does not order loads that are in flight: TMA's write may overtake them. PTX orders an access of the
// generic proxy before one of the async proxy by a proxy fence alone (PTX ISA, "Proxies" and "Async proxy").
DEVICE void release_to_tma(Mbarrier* empty, SourceLine at = source_line()) {
  fence_proxy_async();  //@ release-fence
  mbarrier_arrive_warp(empty, at);
}

// Arrives, and adds `bytes` to what this phase waits for: TMA counts whole boxes, also where a box lies partly outside
// its matrix.
DEVICE void mbarrier_expect_tx(Mbarrier* barrier, int bytes, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::mbarrier_arrive(barrier, bytes, at);
#else
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   shared_address(barrier)),
               "r"(bytes)
               : "memory");
#endif
}

// Whether the phase of this parity has ended.
DEVICE bool mbarrier_try_wait(Mbarrier* barrier, int parity, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  return tilewise_host::mbarrier_try_wait(barrier, parity, at);
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
DEVICE void mbarrier_wait(Mbarrier* barrier, int parity, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  while (!tilewise_host::mbarrier_try_wait(barrier, parity, at)) tilewise_host::runtime->yield(at);
#else
  while (!mbarrier_try_wait(barrier, parity, at)) {
  }
#endif
}
