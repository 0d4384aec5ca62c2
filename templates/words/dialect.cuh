// The kernel dialect: the macros and functions in which every kernel is written, so that NVRTC and a CPU
// compiler build the same source. Rules:
//   - a kernel takes one struct by value;
//   - all shared memory is dynamic: shared_floats() returns it;
//   - unrolling and PTX instructions are only used through the wrappers of this folder: below, in warp.cuh
//     (shuffles, votes), mma.cuh (tensor cores), mbarrier.cuh and tma.cuh (copies by TMA);
//   - kernels include no headers but those of templates/; parameters are macros, checked by static_assert.
#pragma once

typedef long long Int64;  // offsets: m x ld passes 2^31
typedef unsigned long long UInt64;

#define TILEWISE_PRAGMA(text) _Pragma(#text)
#ifdef TILEWISE_HOST  // the CPU executor, device/cpu/cuda_on_cpu.hpp, leaves unrolling to its compiler
#define UNROLL_ALL
#define UNROLL_BY(count)
#else
#define UNROLL_ALL TILEWISE_PRAGMA(unroll)
#define UNROLL_BY(count) TILEWISE_PRAGMA(unroll (count))
#endif

// A kernel of at most `threads` threads a block; `blocks` blocks must fit on a multiprocessor.
#ifdef TILEWISE_HOST
#define KERNEL(threads, blocks) TILEWISE_BOUNDS(blocks) extern "C" __global__ void
#else
#define KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#endif
#define ARGUMENTS const __grid_constant__
#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__  // of a struct; `static` is then the member's own

// Copies a value's bytes to another type of the same size.
template <class To, class From>
DEVICE void copy_bits(To& to, const From& from) {
  static_assert(sizeof(To) == sizeof(From), "bits are copied one for one");
#ifdef TILEWISE_HOST
  __builtin_memcpy(&to, &from, sizeof to);
#else
  memcpy(&to, &from, sizeof to);
#endif
}

// The source line of an operation, for the CPU executor's reports: a default argument of the wrappers, empty on
// a GPU.
#ifdef TILEWISE_HOST
typedef tilewise_host::Site SourceLine;
DEVICE SourceLine source_line(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return {file, line};
}
#else
struct SourceLine {};
DEVICE SourceLine source_line() { return {}; }
#endif

// The block's shared memory, aligned for vectors and for swizzled tiles (tma.cuh).
DEVICE float* shared_floats() {
#ifdef TILEWISE_HOST
  return static_cast<float*>(tilewise_host::thread().block->shared);
#else
  extern __shared__ __align__(1024) float tilewise_shared[];
  // The asm keeps the address in one register; without it the compiler recomputes the address at each use.
  unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(tilewise_shared));
  asm("" : "+r"(at));
  return static_cast<float*>(__cvta_shared_to_generic(at));
#endif
}

// The same address, hidden from the optimiser. Addresses at an offset from it then take one addition, or none for
// a constant offset; otherwise the compiler keeps many addresses in registers, or recomputes each.
template <class T>
DEVICE T* opaque_pointer(T* at) {  // to global memory
#ifdef TILEWISE_HOST
  return at;
#else
  unsigned long long address = __cvta_generic_to_global(at);
  asm("" : "+l"(address));
  return static_cast<T*>(__cvta_global_to_generic(address));
#endif
}
DEVICE float* opaque_shared_pointer(float* at) {
#ifdef TILEWISE_HOST
  return at;
#else
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(at));
  asm("" : "+r"(address));
  return static_cast<float*>(__cvta_shared_to_generic(address));
#endif
}

#ifdef TILEWISE_HOST
// Reports its source line to the executor.
DEVICE void barrier(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  __syncthreads(file, line);
}
#else
DEVICE void barrier() { __syncthreads(); }
#endif

// Programmatic dependent launch (sm_90 and later): a step of a plan may start before the previous step has finished.
// After this call the previous step's writes are visible. Every thread of a later step calls it.
DEVICE void grid_dependency_wait() {
#if !defined(TILEWISE_HOST) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The next step's blocks may start once every block of this step has called this.
DEVICE void launch_dependents() {
#if !defined(TILEWISE_HOST) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Fetches what lies at `at` into the L2.
DEVICE void prefetch_l2([[maybe_unused]] const void* at) {
#ifndef TILEWISE_HOST
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#endif
}

DEVICE float multiply_add(float x, float y, float sum) { return __fmaf_rn(x, y, sum); }

// COUNT (1, 2 or 4) neighbouring floats at an address aligned to all of them, as one access.
template <int COUNT>
DEVICE void load_vector(float (&to)[COUNT], const float* from) {
  static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4, "an access is 4, 8 or 16 bytes wide");
  if constexpr (COUNT == 4) {
    const float4 v = *reinterpret_cast<const float4*>(from);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
  } else if constexpr (COUNT == 2) {
    const float2 v = *reinterpret_cast<const float2*>(from);
    to[0] = v.x, to[1] = v.y;
  } else {
    to[0] = *from;
  }
}

template <int COUNT>
DEVICE void store_vector(float* to, const float (&from)[COUNT]) {
  static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4, "an access is 4, 8 or 16 bytes wide");
  if constexpr (COUNT == 4) {
    *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
  } else if constexpr (COUNT == 2) {
    *reinterpret_cast<float2*>(to) = make_float2(from[0], from[1]);
  } else {
    *to = from[0];
  }
}

// Starts a copy of BYTES (4, 8 or 16) from global to shared memory: the first `valid` bytes, zeros for the rest
// (cp.async with a source size; sm_80 and later, as the two below). Both addresses are aligned to BYTES. The copy is
// complete after copies_done(). The first `before_row` bytes are copied, but not used: they may lie outside the operand.
template <int BYTES>
DEVICE void copy_bytes_async(void* to_shared, const void* from, int valid, [[maybe_unused]] int before_row = 0,
                             [[maybe_unused]] SourceLine at = source_line()) {
  const int bytes = valid >= BYTES ? BYTES : (valid > 0 ? valid : 0);
#ifdef TILEWISE_HOST
  tilewise_host::copy_async(to_shared, from, BYTES, bytes, before_row, at);
#else
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(to_shared));
  if constexpr (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES),
                 "r"(bytes)
                 : "memory");
  }
#endif
}
// The same, counted in floats.
template <int COUNT>
DEVICE void copy_async(float* to_shared, const float* from, int valid) {
  copy_bytes_async<COUNT * 4>(to_shared, from, valid * 4);
}

// Closes the group of copies started since the last call.
DEVICE void copies_commit() {
#ifdef TILEWISE_HOST
  tilewise_host::runtime->copies_commit();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most PENDING groups of this thread are in flight. A barrier() makes other threads' copies visible.
template <int PENDING>
DEVICE void copies_done() {
#ifdef TILEWISE_HOST
  tilewise_host::runtime->copies_wait(PENDING);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}
