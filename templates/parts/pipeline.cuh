// Circular buffers of stages in shared memory: tiles of the next steps of k are copied while the current one is
// multiplied.
#pragma once
#include "words/dialect.cuh"

// Where a stage begins, in units of StageSize, for a buffer whose stages all threads fill and use in turn.
template <int Stages, int StageSize>
struct StageOffset {
  int at = 0;
  static DEVICE_MEMBER int after(int stage) { return stage == (Stages - 1) * StageSize ? 0 : stage + StageSize; }
  DEVICE_MEMBER void advance() { at = after(at); }
};

// A stage of a buffer with barriers, and the phase of its barrier that is waited for. The first round of stages is
// empty: a producer begins with phase 1, the one before, which counts as complete.
template <int Stages>
struct StagePhase {
  int stage = 0, phase;
  DEVICE_MEMBER explicit StagePhase(int first_phase) : phase(first_phase) {}
  DEVICE_MEMBER void advance() {
    if (++stage == Stages) stage = 0, phase ^= 1;
  }
};

#if __CUDA_ARCH__ >= 900
#include "words/mbarrier.cuh"

// A buffer whose stages one thread has TMA fill, or threads store to; warps wait for full stages and free each by
// itself, so that no barrier holds the block together. `barriers` are 2 x Stages barriers in shared memory.
//
// Flipped: barriers are initialised by unrolled code, and the producer counts phases from 0 on and flips them. simt's
// winners on an H200 differ in time by -6% to +1% with it, and by 0.5% less on average
// (bench/results/h200_simt_pipeline.txt). mma's instructions are those that were measured without it.
template <int Stages, int StageSize, class Unit = char, bool Flipped = false>
struct Pipeline {
  Unit* stages;
  Mbarrier *full, *empty;  // of each stage
  StagePhase<Stages> producer{Flipped ? 0 : 1}, consumer{0};

  // By all threads. So many arrivals fill a stage, and so many empty it.
  DEVICE_MEMBER Pipeline(Unit* first_stage, char* barriers, int full_arrivals, int empty_arrivals)
      : stages(first_stage), full(reinterpret_cast<Mbarrier*>(barriers)), empty(full + Stages) {
    if (threadIdx.x == 0) {
      UNROLL_BY(Flipped ? Stages : 1)
      for (int s = 0; s < Stages; ++s) {
        mbarrier_init(full + s, full_arrivals);
        mbarrier_init(empty + s, empty_arrivals);
      }
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
  // By a whole warp, when it has read what it needs of the consumer's stage. `nothing`: mbarrier_arrive_warp().
  DEVICE_MEMBER void arrive_empty(unsigned nothing) const { mbarrier_arrive_warp(empty + consumer.stage, nothing); }
};
#endif
