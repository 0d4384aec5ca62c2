// Pipelines: circular buffers of stages in shared memory. Tiles of the next steps of k are copied while the current
// one is multiplied.
#pragma once
#include "words/dialect.cuh"

// The offset of the current stage (a multiple of StageSize), for a pipeline that all threads fill and use in turn.
template <int Stages, int StageSize>
struct StageOffset {
  int at = 0;
  static DEVICE_MEMBER int after(int stage) { return stage == (Stages - 1) * StageSize ? 0 : stage + StageSize; }
  DEVICE_MEMBER void advance() { at = after(at); }
};

// The current stage of a pipeline with mbarriers, and the parity of the phase to wait for. The first round of stages is
// empty: the producer begins with parity 1, that of the phase before the first, which counts as complete.
template <int Stages>
struct StagePhase {
  int stage = 0, phase;
  DEVICE_MEMBER explicit StagePhase(int first_phase) : phase(first_phase) {}
  DEVICE_MEMBER void advance() {
    if (++stage == Stages) stage = 0, phase ^= 1;
  }
  DEVICE_MEMBER void advance_by(int count) {
    const int at = stage + count;
    stage = at % Stages;
    phase ^= at / Stages & 1;
  }
};

#if __CUDA_ARCH__ >= 900
#include "words/cluster.cuh"
#include "words/mbarrier.cuh"

// A pipeline with mbarriers. Its stages are filled by TMA, whose copies one thread issues, or by threads that store.
// Each warp waits on full barriers and arrives on empty barriers by itself: the main loop has no barrier of the whole
// block. `barriers`: shared memory for 2 x Stages mbarriers.
//
// Flipped: the mbarriers are initialised by unrolled code, and the producer's phase counts from 0 and is inverted when
// waited for. With it simt's winners on an H200 differ in time by -6% to +1%, and are 0.5% faster on average
// (bench/results/h200_simt_pipeline.txt). mma was measured without it.
template <int Stages, int StageSize, class Unit = char, bool Flipped = false>
struct Pipeline {
  Unit* stages;
  Mbarrier *full, *empty;  // of each stage
  StagePhase<Stages> producer{Flipped ? 0 : 1}, consumer{0};

  // Called by all threads. full_arrivals, empty_arrivals: arrivals in a phase of a full and of an empty barrier.
  DEVICE_MEMBER Pipeline(Unit* first_stage, char* barriers, int full_arrivals, int empty_arrivals)
      : stages(first_stage), full(reinterpret_cast<Mbarrier*>(barriers)), empty(full + Stages) {
    if (threadIdx.x == 0) {
      UNROLL_BY(Flipped ? Stages : 1)
      for (int s = 0; s < Stages; ++s) {
        mbarrier_init(full + s, full_arrivals);
        mbarrier_init(empty + s, empty_arrivals);
      }
      mbarriers_ready();  //@ pipeline-ready
    }
    barrier();
  }
  DEVICE_MEMBER Unit* producer_stage() const { return stages + producer.stage * StageSize; }
  DEVICE_MEMBER const Unit* consumer_stage() const { return stages + consumer.stage * StageSize; }
  DEVICE_MEMBER Mbarrier* producer_barrier() const { return full + producer.stage; }
  DEVICE_MEMBER void wait_empty() const {
    mbarrier_wait(empty + producer.stage, Flipped ? producer.phase ^ 1 : producer.phase);  //@ pipeline-wait-empty
  }
  DEVICE_MEMBER void wait_full() const { mbarrier_wait(full + consumer.stage, consumer.phase); }  //@ pipeline-wait-full
  // Called by a whole warp after its last read of the consumer's stage.
  DEVICE_MEMBER void release() const { release_to_tma(empty + consumer.stage); }
};

// A pipeline of a warp-specialised kernel, in each block of a cluster of Cluster blocks. One thread of a block fills its
// stages, and may fill those of the other blocks, too: a stage is empty when the readers of all blocks have left it.
// Producer and consumers each have a StagePhase.
template <int Stages, int StageSize, int Cluster>
struct ClusterPipeline {
  char* stages;
  Mbarrier *full, *empty;  // of each stage

  // Called by all threads. readers: warps of the cluster that read a stage. A barrier follows, of the cluster where it
  // has more than one block.
  DEVICE_MEMBER ClusterPipeline(char* first_stage, char* barriers, int readers)
      : stages(first_stage), full(reinterpret_cast<Mbarrier*>(barriers)), empty(full + Stages) {
    if (threadIdx.x == 0) {
      UNROLL_ALL
      for (int s = 0; s < Stages; ++s) {
        mbarrier_init(full + s, 1);
        mbarrier_init(empty + s, readers);
      }
      mbarriers_ready();  //@ cluster-ready
    }
  }
  DEVICE_MEMBER void wait_empty(const StagePhase<Stages>& at) const { mbarrier_wait(empty + at.stage, at.phase); }  //@ cluster-wait-empty
  DEVICE_MEMBER void wait_full(const StagePhase<Stages>& at) const { mbarrier_wait(full + at.stage, at.phase); }  //@ cluster-wait-full
  // Called by the thread that fills the stages, after the last one. A block of a cluster must not end before the arrivals
  // of the others at its barriers, which the end of their threads does not wait for.
  DEVICE_MEMBER void wait_all_empty(StagePhase<Stages> at) const {
    UNROLL_BY(1)
    for (int s = 0; s < Stages; ++s) {
      wait_empty(at);
      at.advance();
    }
  }
  // Called by a whole warp after the wgmma_wait() for its products of the stage. wgmma reads by the async proxy, as TMA
  // writes: no proxy fence is needed.
  DEVICE_MEMBER void arrive_empty(const StagePhase<Stages>& at) const {
    if constexpr (Cluster == 1) {
      mbarrier_arrive_warp(empty + at.stage);
    } else {
      warp_barrier();
      const int lane = int(threadIdx.x) % 32;
      if (lane < Cluster) mbarrier_arrive_in(empty + at.stage, lane);  //@ cluster-empty-arrive
    }
  }
  // The same, where the warp's threads have read the stage, too: release_to_tma().
  DEVICE_MEMBER void release(const StagePhase<Stages>& at) const {
    fence_proxy_async();  //@ cluster-release-fence
    arrive_empty(at);
  }
};
#endif
