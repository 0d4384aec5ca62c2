#pragma once
// Small kernels for the tests of device/. nvrtc_test compiles them without a GPU; device_gpu_test
// runs them.

namespace tilewise::test {

/// x[i] = x[i] + by for i < n.
inline constexpr const char* kAdd = R"(
struct Arguments { float* x; long long n; float by; };
extern "C" __global__ void add(Arguments a) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < a.n) a.x[i] += a.by;
}
)";

/// Fills `words` of dynamic shared memory and writes their sum: every word must exist.
inline constexpr const char* kShared = R"(
struct Arguments { unsigned* sum; int words; };
extern __shared__ unsigned memory[];
extern "C" __global__ void shared_sum(Arguments a) {
  for (int i = threadIdx.x; i < a.words; i += blockDim.x) memory[i] = i;
  __syncthreads();
  if (threadIdx.x != 0) return;
  unsigned sum = 0;
  for (int i = 0; i < a.words; ++i) sum += memory[i];
  *a.sum = sum;
}
)";

/// Each block writes its rank in its cluster and the cluster's size.
inline constexpr const char* kCluster = R"(
struct Arguments { unsigned* out; };
extern "C" __global__ void cluster_rank(Arguments a) {
  unsigned rank, size;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  if (threadIdx.x == 0) a.out[blockIdx.x] = size * 100 + rank;
}
)";

/// Waits for the previous grid, then reads its results.
inline constexpr const char* kDependent = R"(
struct Arguments { float* x; long long n; float by; };
extern "C" __global__ void dependent_add(Arguments a) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < a.n) a.x[i] = a.x[i] * 2 + a.by;
}
)";

/// Copies one box of 8 rows of 16 floats, from column x and row y, by TMA.
inline constexpr const char* kTensorMap = R"(
struct alignas(64) TensorMap { unsigned long long opaque[16]; };
struct Arguments { TensorMap map; float* out; int x; int y; };
extern "C" __global__ void tensor_load(const __grid_constant__ Arguments a) {
  __shared__ alignas(128) float tile[8 * 16];
  __shared__ alignas(8) unsigned long long barrier;
  unsigned to = (unsigned)__cvta_generic_to_shared(tile);
  unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(8 * 16 * 4)
                 : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
        "l"((unsigned long long)&a.map), "r"(a.x), "r"(a.y), "r"(at)
        : "memory");
  }
  unsigned done = 0;
  while (!done) {
    asm volatile(
        "{\n\t.reg .pred p;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(done)
        : "r"(at)
        : "memory");
  }
  a.out[threadIdx.x] = tile[threadIdx.x];
}
)";

/// Writes to an unmapped address.
inline constexpr const char* kIllegal = R"(
struct Arguments { float* nowhere; };
extern "C" __global__ void illegal(Arguments a) { a.nowhere[threadIdx.x] = 1; }
)";

}  // namespace tilewise::test
