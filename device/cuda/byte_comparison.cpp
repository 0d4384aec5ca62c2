#include "device/cuda/byte_comparison.hpp"

#include <algorithm>
#include <utility>

namespace tilewise::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kMostBlocks = 2048;

// Grid-stride loops over the words. compare: a thread that finds a difference sets the flag.
// checksum: see checksum.hpp; each warp adds its lanes' sums first.
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
.visible .entry checksum(.param .u64 from, .param .u64 words, .param .u64 sum)
{
  .reg .pred at_end, other;
  .reg .b32 block, thread, blocks, threads, lane, one, low, high, low_there, high_there;
  .reg .b64 to_from, count, to_sum, word, step, at, place, factor, value, total, there;

  ld.param.u64 to_from, [from];
  ld.param.u64 count, [words];
  ld.param.u64 to_sum, [sum];
  mov.u32 block, %ctaid.x;
  mov.u32 blocks, %nctaid.x;
  mov.u32 threads, %ntid.x;
  mov.u32 thread, %tid.x;
  mul.wide.u32 word, block, threads;
  cvt.u64.u32 at, thread;
  add.u64 word, word, at;
  mul.wide.u32 step, blocks, threads;
  mov.b64 total, 0;
next:
  setp.ge.u64 at_end, word, count;
  @at_end bra end;
  shl.b64 at, word, 2;
  add.u64 at, to_from, at;
  ld.global.u32 one, [at];
  cvt.u64.u32 value, one;
  mul.lo.u64 place, word, 0x9E3779B97F4A7C15;
  shr.u64 factor, place, 29;
  xor.b64 factor, factor, place;
  or.b64 factor, factor, 1;
  mad.lo.u64 total, value, factor, total;
  add.u64 word, word, step;
  bra next;
end:
  mov.b32 lane, 16;
fold:
  mov.b64 {low, high}, total;
  shfl.sync.down.b32 low_there, low, lane, 31, 0xffffffff;
  shfl.sync.down.b32 high_there, high, lane, 31, 0xffffffff;
  mov.b64 there, {low_there, high_there};
  add.u64 total, total, there;
  shr.u32 lane, lane, 1;
  setp.ne.u32 other, lane, 0;
  @other bra fold;
  and.b32 lane, thread, 31;
  setp.ne.u32 other, lane, 0;
  @other bra leave;
  red.global.add.u64 [to_sum], total;
leave:
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

// Tries only once: a driver that refuses the kernel would refuse it again.
bool ByteComparison::load() {
  const Driver& driver = context_.driver();
  if (!std::exchange(tried_, true) &&
      driver.module_load_data(&module_, kPtx, 0, nullptr, nullptr) == CUDA_SUCCESS) {
    driver.check(driver.module_get_function(&compare_, module_, "compare"),
                 "finding the kernel that compares");
    driver.check(driver.module_get_function(&checksum_, module_, "checksum"),
                 "finding the kernel that makes checksums");
  }
  return compare_ != nullptr;
}

void ByteComparison::launch(CUfunction kernel, std::int64_t words, void** parameters,
                            CUstream stream) const {
  if (words <= 0) return;
  const Driver& driver = context_.driver();
  const std::int64_t blocks = std::min(kMostBlocks, (words + kThreads - 1) / kThreads);
  driver.check(driver.launch_kernel(kernel, static_cast<unsigned>(blocks), 1, 1, kThreads, 1, 1, 0,
                                    stream, parameters, nullptr),
               "comparing device memory");
}

bool ByteComparison::add_checksum(const void* from, std::int64_t bytes, void* sum,
                                  CUstream stream) {
  auto begin = reinterpret_cast<CUdeviceptr>(from), to = reinterpret_cast<CUdeviceptr>(sum);
  std::int64_t words = bytes / 4;
  if ((begin | static_cast<CUdeviceptr>(bytes)) % 4 != 0 || to % 8 != 0) return false;
  const CurrentContext current(context_);
  const std::lock_guard lock(mutex_);
  if (!load()) return false;
  void* parameters[] = {&begin, &words, &to};
  launch(checksum_, words, parameters, stream);
  return true;
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
  if (!differ_ && driver.mem_alloc(&differ_, sizeof(std::uint32_t)) != CUDA_SUCCESS)
    return false;  // out of memory now; the next call tries again
  driver.check(driver.memset_d32(differ_, 0, 1, stream), "filling device memory");
  void* parameters[] = {&from, &other, &words, &differ_};
  launch(compare_, words, parameters, stream);
  std::uint32_t differ = 1;
  driver.check(driver.memcpy_to_host(&differ, differ_, sizeof differ, stream),
               "copying from the device");
  driver.check(driver.stream_synchronize(stream), "comparing device memory");
  return differ == 0;
}

}  // namespace tilewise::cuda
