#include "device/cuda/byte_comparison.hpp"

#include <algorithm>
#include <utility>

namespace tilewise::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kMostBlocks = 2048;

// A grid-stride loop over the words; a thread that finds a difference sets the flag.
constexpr const char* kPtx = R"(
.version 6.3
.target sm_75
.address_size 64
.visible .entry compare(.param .u64 x, .param .u64 y, .param .u64 words, .param .u64 differ)
{
  .reg .pred at_end, equal;
  .reg .b32 block, thread, blocks, threads, one, other, seen;
  .reg .b64 to_x, to_y, count, flag, word, step, offset, from;

  ld.param.u64 to_x, [x];
  ld.param.u64 to_y, [y];
  ld.param.u64 count, [words];
  ld.param.u64 flag, [differ];
  mov.u32 block, %ctaid.x;
  mov.u32 blocks, %nctaid.x;
  mov.u32 threads, %ntid.x;
  mov.u32 thread, %tid.x;
  mul.wide.u32 word, block, threads;
  cvt.u64.u32 offset, thread;
  add.u64 word, word, offset;
  mul.wide.u32 step, blocks, threads;
  mov.b32 seen, 0;
next:
  setp.ge.u64 at_end, word, count;
  @at_end bra end;
  shl.b64 offset, word, 2;
  add.u64 from, to_x, offset;
  ld.global.u32 one, [from];
  add.u64 from, to_y, offset;
  ld.global.u32 other, [from];
  xor.b32 one, one, other;
  or.b32 seen, seen, one;
  add.u64 word, word, step;
  bra next;
end:
  setp.eq.u32 equal, seen, 0;
  @equal bra done;
  mov.b32 one, 1;
  st.global.u32 [flag], one;
done:
  ret;
}
)";

}  // namespace

ByteComparison::~ByteComparison() {
  if (!module_) return;
  const CurrentContext current(context_);
  if (differ_) context_.driver().mem_free(differ_);
  context_.driver().module_unload(module_);
}

// Tries once: a driver that refuses the kernel refuses it again.
bool ByteComparison::load() {
  const Driver& driver = context_.driver();
  if (!std::exchange(tried_, true) &&
      driver.module_load_data(&module_, kPtx, 0, nullptr, nullptr) == CUDA_SUCCESS) {
    driver.check(driver.module_get_function(&function_, module_, "compare"),
                 "finding the kernel that compares");
  }
  if (function_ && !differ_ && driver.mem_alloc(&differ_, sizeof(std::uint32_t)) != CUDA_SUCCESS) {
    return false;  // out of memory now; the next call tries again
  }
  return function_ != nullptr;
}

bool ByteComparison::known_equal(const void* x, const void* y, std::int64_t bytes,
                                 CUstream stream) {
  auto from = reinterpret_cast<CUdeviceptr>(x), other = reinterpret_cast<CUdeviceptr>(y);
  std::int64_t words = bytes / 4;
  if ((from | other | static_cast<CUdeviceptr>(bytes)) % 4 != 0) return false;
  const Driver& driver = context_.driver();
  const CurrentContext current(context_);
  const std::lock_guard lock(mutex_);
  if (!load()) return false;
  driver.check(driver.memset_d32(differ_, 0, 1, stream), "filling device memory");
  if (words > 0) {
    const std::int64_t blocks = std::min(kMostBlocks, (words + kThreads - 1) / kThreads);
    void* parameters[] = {&from, &other, &words, &differ_};
    driver.check(driver.launch_kernel(function_, static_cast<unsigned>(blocks), 1, 1, kThreads, 1,
                                      1, 0, stream, parameters, nullptr),
                 "comparing device memory");
  }
  std::uint32_t differ = 1;
  driver.check(driver.memcpy_to_host(&differ, differ_, sizeof differ, stream),
               "copying from the device");
  driver.check(driver.stream_synchronize(stream), "comparing device memory");
  return differ == 0;
}

}  // namespace tilewise::cuda
