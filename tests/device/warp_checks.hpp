#pragma once
// The warp operations of templates/warp.cuh and mma.cuh, checked on the CPU executor
// (cpu_warp_test) and on a GPU (mma_gpu_test). The layouts follow the PTX ISA ("Matrix Fragments
// for ..."), independently of the wrappers.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/compiler.hpp"
#include "device/device.hpp"

namespace tilewise::test {

inline std::string text_of(const std::string& file) {
  std::ifstream stream(std::string(TILEWISE_SOURCE_DIR) + "/" + file);
  if (!stream) throw std::runtime_error("no file " + file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

using Defines = std::map<std::string, std::int64_t>;

/// A request for source NAME.cu with the entry NAME, and the dialect's headers.
inline CompileRequest dialect_request(const std::string& name, const std::string& text,
                                      const Defines& defines, const Target& target) {
  CompileRequest request{{name + ".cu", name, defines}, text, {}, target};
  for (const std::string header :
       {"words/dialect.cuh", "words/types.cuh", "words/warp.cuh", "words/mma.cuh",
        "words/mbarrier.cuh", "words/tma.cuh", "words/cluster.cuh", "words/wgmma.cuh",
        "words/wgmma_operands.cuh"})
    request.headers.emplace_back(header, text_of("templates/" + header));
  return request;
}

/// A device and its compiler.
struct Machine {
  Device& device;
  const Compiler& compiler;

  std::unique_ptr<LoadedKernel> load(const std::string& name, const std::string& text,
                                     const Defines& defines = {}, std::uint32_t shared = 0) const {
    const CompileResult made =
        compiler.compile(dialect_request(name, text, defines, device.info().target));
    if (!made.image) throw std::runtime_error(name + ": " + made.log);
    return device.load(*made.image, shared, 1);
  }
  template <class T>
  DeviceBuffer upload(const std::vector<T>& values) const {
    DeviceBuffer buffer(device, static_cast<std::int64_t>(values.size() * sizeof(T)));
    device.copy_to_device(buffer.data(), values.data(), buffer.bytes(), nullptr);
    return buffer;
  }
  template <class T>
  std::vector<T> download(const DeviceBuffer& buffer) const {
    std::vector<T> values(static_cast<std::size_t>(buffer.bytes()) / sizeof(T));
    device.copy_to_host(values.data(), buffer.data(), buffer.bytes(), nullptr);
    device.synchronize(nullptr);
    return values;
  }
  /// Launches one block with `pointers` as the kernel's arguments.
  void launch(const LoadedKernel& kernel, unsigned threads, const std::vector<void*>& pointers,
              std::uint32_t shared = 0) const {
    device.launch(kernel, {{1, 1, 1}, {threads, 1, 1}, {}, shared, false}, pointers.data(),
                  nullptr);
  }
};

/// 64 threads; per thread two values of each of four types, as doubles.
inline const char* const kShuffles = R"(#include "words/warp.cuh"
struct Args { double* to; };
template <class T> DEVICE void all_kinds(double* to, T x, int lane) {
  to[0] = double(shuffle(x, lane * 7 + 3));
  to[1] = double(shuffle_xor(x, 9));
}
KERNEL(64, 1) shuffles(ARGUMENTS Args args) {
  const int lane = threadIdx.x % 32, x = int(threadIdx.x);
  double* to = args.to + threadIdx.x * 8;
  all_kinds(to, x - 40, lane);
  all_kinds(to + 2, x * 1.5f, lane);
  all_kinds(to + 4, (Int64(x) << 40) + x, lane);
  all_kinds(to + 6, x + 1e-9, lane);
}
)";

inline void check_shuffles(const Machine& machine) {
  const auto kernel = machine.load("shuffles", kShuffles);
  const DeviceBuffer to = machine.upload(std::vector<double>(64 * 8));
  machine.launch(*kernel, 64, {to.data()});
  const auto got = machine.download<double>(to);
  for (int thread = 0; thread < 64; ++thread) {
    const int lane = thread % 32, warp = thread - lane;
    const int from[2] = {(lane * 7 + 3) % 32, lane ^ 9};
    for (int kind = 0; kind < 2; ++kind) {
      const int x = warp + from[kind];
      const double values[4] = {x - 40.0, x * 1.5, std::ldexp(x, 40) + x, x + 1e-9};
      for (int type = 0; type < 4; ++type)
        ASSERT_EQ(got[static_cast<std::size_t>(thread * 8 + type * 2 + kind)], values[type])
            << "thread " << thread << ", kind " << kind << ", type " << type;
    }
  }
}

/// With `half`, the lanes of each half warp vote separately.
inline const char* const kVotes = R"(#include "words/warp.cuh"
struct Args { unsigned* to; };
KERNEL(32, 1) votes(ARGUMENTS Args args) {
  const int lane = threadIdx.x;
  const unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  unsigned* to = args.to + lane * 8;
  to[0] = which_lanes(lane % 3 == 0);
  to[1] = all_lanes(lane < 31);
  to[2] = all_lanes(lane < 32);
  to[3] = any_lane(lane == 7);
  to[4] = any_lane(lane == 32);
  to[5] = which_lanes(lane % 5 == 0, half);
  to[6] = all_lanes(lane < 16, half);
  to[7] = any_lane(lane == 20, half);
}
)";

inline void check_votes(const Machine& machine) {
  const auto kernel = machine.load("votes", kVotes);
  const DeviceBuffer to = machine.upload(std::vector<unsigned>(32 * 8, 77));
  machine.launch(*kernel, 32, {to.data()});
  const auto got = machine.download<unsigned>(to);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const bool low = lane < 16;
    // Multiples of 3 and of 5 below 32.
    const std::array<unsigned, 8> expected{
        0x49249249, 0, 1, 1, 0, low ? 0x8421U : 0x42100000U, low ? 1U : 0U, low ? 0U : 1U};
    for (std::size_t i = 0; i < 8; ++i)
      ASSERT_EQ(got[lane * 8 + i], expected[i]) << "lane " << lane << ", vote " << i;
  }
}

/// Shared memory has each 16-bit element's index as its value. Row r of matrix j begins at element
/// 64 j + 8 r; lane 8 j + r has its address.
inline const char* const kLoads = R"(#include "words/mma.cuh"
struct Args { unsigned* to; };
KERNEL(32, 1) loads(ARGUMENTS Args args) {
  unsigned short* shared = reinterpret_cast<unsigned short*>(shared_floats());
  for (int i = threadIdx.x; i < 256; i += 32) shared[i] = i;
  barrier();
  const unsigned short* row = shared + threadIdx.x * 8;
  unsigned one[1], two[2], four[4], *to = args.to + threadIdx.x * 14;
  load_matrices<1>(one, row);
  load_matrices<2>(two, row);
  load_matrices<4>(four, row);
  for (int j = 0; j < 4; ++j) to[j] = j < 1 ? one[0] : j < 3 ? two[j - 1] : four[0];
  for (int j = 1; j < 4; ++j) to[3 + j] = four[j];
  load_matrices<1, true>(one, row);
  load_matrices<2, true>(two, row);
  load_matrices<4, true>(four, row);
  for (int j = 0; j < 4; ++j) to[7 + j] = j < 1 ? one[0] : j < 3 ? two[j - 1] : four[0];
  for (int j = 1; j < 4; ++j) to[10 + j] = four[j];
}
)";

inline void check_loads(const Machine& machine) {
  const auto kernel = machine.load("loads", kLoads, {}, 512);
  const DeviceBuffer to = machine.upload(std::vector<unsigned>(32 * 14));
  machine.launch(*kernel, 32, {to.data()}, 512);
  const auto got = machine.download<unsigned>(to);
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < 14; ++i) {
      const unsigned matrix = std::array<unsigned, 7>{0, 0, 1, 0, 1, 2, 3}[i % 7];
      const unsigned line = lane / 4, place = lane % 4 * 2;
      const unsigned first = matrix * 64 + (i < 7 ? line * 8 + place : place * 8 + line);
      ASSERT_EQ(got[lane * 14 + i], first | (first + (i < 7 ? 1 : 8)) << 16)
          << "lane " << lane << ", word " << i;
    }
}

}  // namespace tilewise::test
