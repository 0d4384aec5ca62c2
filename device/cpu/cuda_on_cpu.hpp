// CUDA's built-ins for a C++ compiler whose target is the CPU, as far as the kernel dialect
// (templates/dialect.cuh) uses them. Every kernel is compiled behind this header.
#pragma once
#define TILEWISE_HOST 1
#include "image_api.hpp"

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__

// The processor that the image needs, in the words of processor().
#if defined(__AVX2__) && defined(__FMA__)
#define TILEWISE_CPU "x86-64 avx2 fma"
#elif defined(__x86_64__)
#define TILEWISE_CPU "x86-64"
#elif defined(__aarch64__)
#define TILEWISE_CPU "aarch64"
#else
#define TILEWISE_CPU "other"
#endif

namespace tilewise_host {

// For functions that act for all lanes or for the hardware: the thread sanitizer must not attribute
// their accesses to the thread that runs them.
#define TILEWISE_FOR_ALL __attribute__((no_sanitize("thread")))

inline const Runtime* runtime = nullptr;

// Blocks that a multiprocessor holds at a time, by the kernel's launch bounds. Set when the image
// is loaded.
inline unsigned resident_blocks = 1;
inline bool set_bounds(unsigned blocks) {
  resident_blocks = blocks;
  return true;
}
#define TILEWISE_BOUNDS(blocks) \
  [[maybe_unused]] static const bool tilewise_bounds = tilewise_host::set_bounds(blocks);

// A fiber's record does not move and the fiber stays on its OS thread, so the compiler may reuse
// the result. (The attribute applies to the function, not to the pointer.)
__attribute__((const, noinline)) static const Thread& thread() { return *runtime->thread(); }

// Calls a kernel with any argument struct.
template <class Arguments>
inline void call(void (*kernel)(Arguments), const void* arguments) {
  kernel(*static_cast<const Arguments*>(arguments));
}
template <class Arguments>
constexpr unsigned bytes_of_argument(void (*)(Arguments)) {
  return sizeof(Arguments);
}

}  // namespace tilewise_host

#define threadIdx (tilewise_host::thread().index)
#define blockIdx (tilewise_host::thread().block->index)
#define blockDim (tilewise_host::thread().block->threads)
#define gridDim (tilewise_host::thread().block->grid)
#define warpSize 32

struct __attribute__((aligned(8), may_alias)) float2 {
  float x, y;
};
struct __attribute__((aligned(16), may_alias)) float4 {
  float x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }

// `file` and `line` are those of the call.
inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  tilewise_host::runtime->barrier({file, line});
}
inline void __nanosleep(unsigned, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE()) {
  tilewise_host::runtime->yield({file, line});
}

namespace tilewise_host {

// An asynchronous copy first fills its destination with the canary 0xFF (NaN in any float type),
// which shows reads that are too early and overwritten data that are still needed. The data are
// stored when the thread waits for them, without the first `unwanted` bytes.
inline void copy_async(void* to, const void* from, int bytes, int valid, int unwanted, Site site) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  for (int i = unwanted; i < valid; ++i) (void)static_cast<const volatile char*>(from)[i];
#endif
  if ((reinterpret_cast<unsigned long long>(to) | reinterpret_cast<unsigned long long>(from)) %
          static_cast<unsigned>(bytes) !=
      0)
    runtime->fault(site, "a copy between addresses that are not aligned to its bytes");
  // A loop: the thread sanitizer does not see memset here.
  for (int i = 0; i < bytes / 4; ++i) static_cast<unsigned*>(to)[i] = ~0u;
  runtime->copy(static_cast<char*>(to) + unwanted, static_cast<const char*>(from) + unwanted,
                static_cast<unsigned>(bytes - unwanted),
                static_cast<unsigned>(valid > unwanted ? valid - unwanted : 0));
}

}  // namespace tilewise_host
