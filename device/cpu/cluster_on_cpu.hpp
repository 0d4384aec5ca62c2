// The words of templates/words/cluster.cuh on the CPU: the blocks of a cluster run in turn, as the
// threads of a block do.
#pragma once

namespace tilewise_host {

inline int block_of_cluster() { return static_cast<int>(thread().block->rank); }

inline void cluster_barrier(Site site) { runtime->cluster_barrier(site); }

inline void mbarrier_arrive_in(void* barrier, int block, Site site) {
  mbarrier_state(barrier, site);
  const auto offset = static_cast<char*>(barrier) - static_cast<char*>(thread().block->shared);
  char* const there = runtime->shared_of(static_cast<unsigned>(block), site) + offset;
  runtime->edge(edge_in_flight(there), true);
  runtime->arrival_start(there, site);
}

}  // namespace tilewise_host
