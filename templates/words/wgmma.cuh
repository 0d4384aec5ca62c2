// Words of the kernel dialect for wgmma: a warpgroup (4 warps, the first at a multiple of 4) multiplies tiles that lie in
// shared memory, or the left one in its registers. The sums stay in its registers. sm_90a.
//
// The instruction is asynchronous: between multiply_async() and the wgmma_wait() that covers it neither its sums nor the shared
// memory and registers that it reads may be written, and the sums may not be read.
#pragma once
#include "words/mbarrier.cuh"
#include "words/types.cuh"
#include "words/wgmma_operands.cuh"
#ifdef TILEWISE_HOST
#include "wgmma_on_cpu.hpp"
#endif

constexpr int kWarpgroup = 128;  // threads

// How assembly names a sum that it reads and writes.
#if ELEMENT == TYPE_I8
#define TILEWISE_SUM "+r"
#else
#define TILEWISE_SUM "+f"
#endif

// A matrix in shared memory, as the instruction reads it: panels of rows of `swizzle` bytes (32, 64 or 128), swizzled
// at that width, each aligned to 8 x swizzle. Along k: a row is of m (n), its elements are of k. Otherwise a row is of
// k, its elements are of m (n). PTX calls this the matrix descriptor.
//
// panel_bytes: from one panel to the next. The instruction uses it where m (n) takes more than one panel.
struct MatrixLayout {
  int swizzle, panel_bytes;
  // The descriptor's bits besides the address: bytes from one panel to the next, and from 8 rows to the next 8.
  constexpr unsigned long long bits() const {
    const unsigned long long code = swizzle == 128 ? 1 : (swizzle == 64 ? 2 : 3);
    return code << 62 | static_cast<unsigned long long>(8 * swizzle / 16) << 32 |
           static_cast<unsigned long long>(panel_bytes / 16 & 0x3fff) << 16;
  }
};
struct MatrixDescriptor {
  unsigned long long bits;
#ifdef TILEWISE_HOST
  const char* at;  // the executor's addresses have 64 bits
  DEVICE_MEMBER MatrixDescriptor after(int bytes) const { return {bits, at + bytes}; }
#else
  DEVICE_MEMBER MatrixDescriptor after(int bytes) const { return {bits + static_cast<unsigned>(bytes) / 16}; }
#endif
};
DEVICE MatrixDescriptor matrix_descriptor(const char* at, const MatrixLayout& layout) {
#ifdef TILEWISE_HOST
  return {layout.bits(), at};
#else
  return {layout.bits() | (shared_address(at) & 0x3ffff) >> 4};
#endif
}

// Orders the warpgroup's accesses of the sums' registers before the next multiply_async().
DEVICE void wgmma_fence() {
#ifdef TILEWISE_HOST
  tilewise_host::runtime->product_fence();
#else
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
// The same for values that the next multiply_async() takes from registers: they are there before the fence. The empty
// statements keep the compiler from computing them behind it: "memory" orders no registers.
template <int COUNT>
DEVICE void wgmma_settle([[maybe_unused]] unsigned (&words)[COUNT]) {
#ifndef TILEWISE_HOST
  UNROLL_ALL
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "+r"(words[i]));
#endif
}
// Closes the group of the multiply_async() since the last call.
DEVICE void wgmma_commit([[maybe_unused]] SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::wgmma_commit(at);
#else
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// Waits until at most PENDING groups are in flight.
template <int PENDING>
DEVICE void wgmma_wait([[maybe_unused]] SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::wgmma_wait(PENDING, at);
#else
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
#endif
}
// The same, where `sums` are complete then. The empty statement keeps the compiler from reading them before the wait:
// "memory" orders no registers.
template <int PENDING, int INSTRUCTIONS>
DEVICE void wgmma_wait(Sum (&sums)[INSTRUCTIONS][WGMMA_N / 2], SourceLine at = source_line()) {
  wgmma_wait<PENDING>(at);
#ifdef TILEWISE_HOST
  static_cast<void>(sums);
#else
  UNROLL_ALL
  for (int i = 0; i < INSTRUCTIONS; ++i) {
    UNROLL_ALL
    for (int j = 0; j < WGMMA_N / 2; ++j) asm volatile("" : TILEWISE_SUM(sums[i][j]));
  }
#endif
}

// Raises or lowers the registers of each thread of the warpgroup to REGISTERS, a multiple of 8 from 24 to 256. Raising
// waits until the block's other warps have released as many. Called by the whole warpgroup.
template <int REGISTERS>
DEVICE void raise_registers([[maybe_unused]] SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::set_registers(REGISTERS, true, at);
#else
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}
template <int REGISTERS>
DEVICE void lower_registers([[maybe_unused]] SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::set_registers(REGISTERS, false, at);
#else
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}

// sums += left x right, where left has 64 rows, right WGMMA_N columns, and k is 32 bytes deep. KEEP false: sums = left x
// right. Called by the whole warpgroup. LEFT_ALONG_K, RIGHT_ALONG_K: MatrixLayout's; only operands of 16 bits may lie
// otherwise. Operands are of type ELEMENT: f16, bf16, i8, e4m3, e5m2, or f32, of which the instruction ignores the low 13
// bits (tf32). WGMMA_N is a multiple of 8; of i8 over 24 a multiple of 16.
//
// Of lane l of warp w (0 to 3), sum 4 j + e is that of row 16 w + l / 4 + e / 2 x 8 and column 8 j + l % 4 x 2 + e % 2.
// Sums of i8 wrap around. Those of 8-bit floats keep about 14 bits (h200_mma_rates.txt; DeepSeek-V3 Technical Report,
// arXiv:2412.19437). PTX ISA, "wgmma.mma_async": figures of the fragment D.
#if ELEMENT == TYPE_BF16
#define TILEWISE_WGMMA_TYPES "k16.f32.bf16.bf16"
#elif ELEMENT == TYPE_F16
#define TILEWISE_WGMMA_TYPES "k16.f32.f16.f16"
#elif ELEMENT == TYPE_F32
#define TILEWISE_WGMMA_TYPES "k8.f32.tf32.tf32"
#elif ELEMENT == TYPE_I8
#define TILEWISE_WGMMA_TYPES "k32.s32.s8.s8"
#elif ELEMENT == TYPE_E4M3
#define TILEWISE_WGMMA_TYPES "k32.f32.e4m3.e4m3"
#elif ELEMENT == TYPE_E5M2
#define TILEWISE_WGMMA_TYPES "k32.f32.e5m2.e5m2"
#endif
// What follows `keep`: the signs of the operands, which integers lack, and whether they lie across k.
#if ELEMENT == TYPE_BF16 || ELEMENT == TYPE_F16
#define TILEWISE_WGMMA_TAIL(left_across, right_across) ", 1, 1, " left_across ", " right_across ";"
#elif ELEMENT == TYPE_I8
#define TILEWISE_WGMMA_TAIL(left_across, right_across) ";"
#else
#define TILEWISE_WGMMA_TAIL(left_across, right_across) ", 1, 1;"
#endif
#define TILEWISE_WGMMA_ASM(n, sums, left, right, keep, left_across, right_across, sixth, seventh)              \
  "wgmma.mma_async.sync.aligned.m64n" #n TILEWISE_WGMMA_TYPES " {" sums "}, " left ", " right ", " keep       \
  TILEWISE_WGMMA_TAIL(left_across, right_across)
#define TILEWISE_PASTE(a, b) a##b
#define TILEWISE_OF_WIDTH(name, n) TILEWISE_PASTE(name, n)

template <bool LEFT_ALONG_K, bool RIGHT_ALONG_K, bool KEEP = true>
DEVICE void multiply_async(Sum (&sums)[WGMMA_N / 2], const MatrixDescriptor& left, const MatrixDescriptor& right,
                           [[maybe_unused]] SourceLine at = source_line()) {
  static_assert(sizeof(Element) == 2 || (LEFT_ALONG_K && RIGHT_ALONG_K), "only 16-bit operands may lie across k");
#ifdef TILEWISE_HOST
  tilewise_host::multiply_async<Number<ELEMENT>, WGMMA_N, LEFT_ALONG_K, RIGHT_ALONG_K, KEEP>(sums, left, right, at);
#else
  asm volatile(TILEWISE_OF_WIDTH(TILEWISE_WGMMA_, WGMMA_N)(TILEWISE_WGMMA_ASM)
               : TILEWISE_OF_WIDTH(TILEWISE_OPERANDS_, WGMMA_N)(sums)
               : "l"(left.bits), "l"(right.bits), "n"(KEEP), "n"(!LEFT_ALONG_K), "n"(!RIGHT_ALONG_K));
#endif
}

// sums += left x right, with the left operand in registers: of lane l of warp w, word 2 h + r has the steps of k 8 h + l % 4 x 2 and the
// next one, of row 16 w + l / 4 + 8 r. Two 16-bit numbers in a word, the first in the low half. The registers may not be
// changed before the wgmma_wait() that covers the instruction. Called by the whole warpgroup.
#if ELEMENT == TYPE_BF16 || ELEMENT == TYPE_F16
#define TILEWISE_WGMMA_OF_REGISTERS(n, sums, first, second, third, fourth, right, keep, right_across)      \
  "wgmma.mma_async.sync.aligned.m64n" #n TILEWISE_WGMMA_TYPES " {" sums "}, {" first ", " second ", " third \
  ", " fourth "}, " right ", " keep ", 1, 1, " right_across ";"
template <bool RIGHT_ALONG_K, bool KEEP = true>
DEVICE void multiply_async(Sum (&sums)[WGMMA_N / 2], const unsigned (&left)[4], const MatrixDescriptor& right,
                           [[maybe_unused]] SourceLine at = source_line()) {
#ifdef TILEWISE_HOST
  tilewise_host::multiply_async_of_registers<Number<ELEMENT>, WGMMA_N, RIGHT_ALONG_K, KEEP>(sums, left, right, at);
#else
  asm volatile(TILEWISE_OF_WIDTH(TILEWISE_WGMMA_, WGMMA_N)(TILEWISE_WGMMA_OF_REGISTERS)
               : TILEWISE_OF_WIDTH(TILEWISE_OPERANDS_, WGMMA_N)(sums)
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right.bits), "n"(KEEP), "n"(!RIGHT_ALONG_K));
#endif
}
#endif
