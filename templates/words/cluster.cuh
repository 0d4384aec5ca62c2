// Words of the kernel dialect for clusters: blocks that run at the same time and reach each other's shared memory. sm_90
// and later. Block r of a cluster has the blockIdx.x that is r more than the first block's.
#pragma once
#include "words/tma.cuh"
#ifdef TILEWISE_HOST
#include "cluster_on_cpu.hpp"
#endif

// The block's number in its cluster.
DEVICE int block_of_cluster() {
#ifdef TILEWISE_HOST
  return tilewise_host::block_of_cluster();
#else
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
#endif
}

// Waits for all threads of the cluster's blocks. It orders no memory but the mbarriers that mbarriers_ready() has made
// known, and no arrivals (mbarrier_arrive_in): the form that orders all waits for every store of the block
// (MEMBAR.ALL.GPU).
DEVICE void cluster_barrier(SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::cluster_barrier(at);
#else
  asm volatile(
      "barrier.cluster.arrive.relaxed.aligned;\n\t"
      "barrier.cluster.wait.aligned;" ::: "memory");
#endif
}

// Arrives at the mbarrier that lies in block `block` of the cluster where `barrier` lies in this one. The arrival takes
// time: that block must not end before it, so it waits for the phase.
//
// A deviation from PTX's memory model: the scope of the arrival's release is this block, though another block waits. With
// the scope of the cluster ptxas adds a fence of the whole GPU (MEMBAR.ALL.GPU) to every stage. The word follows reads by
// wgmma alone, which wgmma_wait() has ended; it orders no write.
DEVICE void mbarrier_arrive_in(Mbarrier* barrier, int block, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::mbarrier_arrive_in(barrier, block, at);
#else
  asm volatile(
      "{\n\t.reg .b32 there;\n\t"
      "mapa.shared::cluster.u32 there, %0, %1;\n\t"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t}" ::"r"(shared_address(barrier)),
      "r"(block)
      : "memory");
#endif
}

// load_tile() to the same place in each block of the cluster whose bit in `blocks` is set (multicast). The bytes count
// towards the barrier at that place in each of these blocks.
DEVICE void load_tile_to(unsigned blocks, void* to, const TensorMap& map, int x, int y, Mbarrier* barrier,
                         SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::load_tile_to(blocks, to, 2, &map, x, y, 0, barrier, at);
#else
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to)),
      "l"(&map), "r"(x), "r"(y), "r"(shared_address(barrier)), "h"(static_cast<unsigned short>(blocks))
      : "memory");
#endif
}
// The same, of matrix z of a batch, whose map has rank 3.
DEVICE void load_tile_to(unsigned blocks, void* to, const TensorMap& map, int x, int y, int z, Mbarrier* barrier,
                         SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::load_tile_to(blocks, to, 3, &map, x, y, z, barrier, at);
#else
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(to)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier)), "h"(static_cast<unsigned short>(blocks))
      : "memory");
#endif
}
// The same with a cache_policy().
DEVICE void load_tile_to(unsigned blocks, void* to, const TensorMap& map, int x, int y, int z, Mbarrier* barrier,
                         [[maybe_unused]] CachePolicy policy, SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::load_tile_to(blocks, to, 3, &map, x, y, z, barrier, at);
#else
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4}], [%5], %6, %7;" ::"r"(shared_address(to)),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(barrier)), "h"(static_cast<unsigned short>(blocks)), "l"(policy)
      : "memory");
#endif
}
