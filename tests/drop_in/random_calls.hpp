#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device/cuda/cublas_terms.hpp"
#include "device/device.hpp"
#include "drop_in/abi.hpp"
#include "tilewise/number.hpp"

/// Random calls of all forms, answered by the drop-in and by cuBLAS itself.
namespace tilewise::drop_in {

using GemmEx = Status(Handle, int, int, int, int, int, const void*, const void*, int, int,
                      const void*, int, int, const void*, void*, int, int, int, int);
using BatchedEx = Status(Handle, int, int, int, int, int, const void*, const void*, int, int,
                         long long, const void*, int, int, long long, const void*, void*, int, int,
                         long long, int, int, int);
using GemmEx64 = Status(Handle, int, int, std::int64_t, std::int64_t, std::int64_t, const void*,
                        const void*, int, std::int64_t, const void*, int, std::int64_t, const void*,
                        void*, int, std::int64_t, int, int);
using BatchedEx64 = Status(Handle, int, int, std::int64_t, std::int64_t, std::int64_t, const void*,
                           const void*, int, std::int64_t, long long, const void*, int,
                           std::int64_t, long long, const void*, void*, int, std::int64_t,
                           long long, std::int64_t, int, int);
using PlainBatched64 = Status(Handle, int, int, std::int64_t, std::int64_t, std::int64_t,
                              const void*, const void*, std::int64_t, long long, const void*,
                              std::int64_t, long long, const void*, void*, std::int64_t, long long,
                              std::int64_t);
using Plain = Status(Handle, int, int, int, int, int, const void*, const void*, int, const void*,
                     int, const void*, void*, int);
using Plain64 = Status(Handle, int, int, std::int64_t, std::int64_t, std::int64_t, const void*,
                       const void*, std::int64_t, const void*, std::int64_t, const void*, void*,
                       std::int64_t);
using PlainBatched = Status(Handle, int, int, int, int, int, const void*, const void*, int,
                            long long, const void*, int, long long, const void*, void*, int,
                            long long, int);

/// One library's functions.
struct Functions {
  void* library;
  template <class Function>
  Function* get(const std::string& name) const {
    return reinterpret_cast<Function*>(dlsym(library, name.c_str()));
  }
};

struct Kind {
  int operand, result, compute, scalar;
  const char* plain;  ///< the function of this type, without its suffix; null: GemmEx alone
};
inline constexpr Kind kKinds[] = {
    {kF32, kF32, kCompute32, kF32, "cublasSgemm"}, {kF64, kF64, kCompute64, kF64, "cublasDgemm"},
    {kF16, kF16, kCompute16, kF16, "cublasHgemm"}, {kF16, kF16, kCompute32, kF32, nullptr},
    {kBf16, kBf16, kCompute32, kF32, nullptr},     {kBf16, kF32, kCompute32, kF32, nullptr},
    {kF16, kF32, kCompute32, kF32, nullptr},       {kF32, kF32, kComputeTf32, kF32, nullptr},
    {kI8, kI32, kComputeI32, kI32, nullptr},
};

inline DType dtype(int type) { return cuda::type_of_blas(type).value(); }

class RandomCalls : public testing::Test {
 protected:
  /// Of the first of the libraries that opens. False where none does.
  bool start(std::unique_ptr<Device> device, const std::vector<std::string>& libraries) {
    device_ = std::move(device);
    for (const std::string& library : libraries)
      if (!cublas_.library) cublas_.library = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!cublas_.library) return false;
    setenv("TILEWISE_DROP_IN_ALWAYS", "1", 1);
    // Where this program was copied to another machine, a variable says where the library is.
    const char* const named = std::getenv("TILEWISE_DROP_IN_LIBRARY");
    ours_.library = dlopen(named ? named : TILEWISE_CUBLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(ours_.library, nullptr) << dlerror();
    for (DeviceBuffer* buffer : {&a_, &b_, &c_, &d_}) *buffer = DeviceBuffer(*device_, kBytes);
    EXPECT_EQ(cublas_.get<Status(Handle*)>("cublasCreate_v2")(&handle_), kSuccess);
    return ours_.library != nullptr;
  }

  int draw(int first, int last) { return std::uniform_int_distribution(first, last)(generator_); }
  /// Log-uniform.
  int size(int most) {
    return static_cast<int>(std::exp2(
        std::uniform_real_distribution<>(0, std::log2(static_cast<double>(most) + 1))(generator_)));
  }

  /// Whole numbers that every type holds, in all of a buffer.
  const std::vector<std::byte>& numbers(int type) {
    std::vector<std::byte>& made = numbers_[type];
    if (!made.empty()) return made;
    made.resize(kBytes);
    const int bytes = bytes_of(dtype(type));
    for (std::int64_t i = 0; i < kBytes / bytes; ++i)
      from_double(dtype(type), draw(-4, 4), made.data() + i * bytes);
    return made;
  }
  void fill(DeviceBuffer& buffer, int type) {
    device_->copy_to_device(buffer.data(), numbers(type).data(), kBytes, nullptr);
  }
  std::vector<std::byte> read(const DeviceBuffer& buffer) {
    std::vector<std::byte> host(kBytes);
    device_->synchronize(nullptr);
    device_->copy_to_host(host.data(), buffer.data(), kBytes, nullptr);
    device_->synchronize(nullptr);
    return host;
  }

  void compare(int calls);

  static constexpr std::int64_t kBytes = 1 << 20;
  std::mt19937 generator_{1};
  std::map<int, std::vector<std::byte>> numbers_;  // by type
  std::unique_ptr<Device> device_;
  Functions cublas_{}, ours_{};
  Handle handle_ = nullptr;
  DeviceBuffer a_, b_, c_, d_;
};

inline void RandomCalls::compare(int calls) {
  for (int call = 0; call < calls; ++call) {
    const Kind& kind = kKinds[static_cast<std::size_t>(draw(0, 8))];
    // cuBLAS takes int8 in multiples of 4 alone.
    const int step = kind.operand == kI8 ? 4 : 1;
    const int m = size(120) * step, n = size(120) * step, k = size(200) * step;
    const int op_a = draw(0, 2), op_b = draw(0, 2), batch = draw(0, 3) == 0 ? draw(2, 4) : 1;
    const int lda = (op_a ? k : m) + step * draw(0, 2), ldb = (op_b ? n : k) + step * draw(0, 2);
    const int ldc = m + step * draw(0, 2);
    const auto stride = [&](int ld, int columns) {
      return static_cast<long long>(ld) * columns + step * draw(0, 2);
    };
    const long long stride_a = draw(0, 4) == 0 ? 0 : stride(lda, op_a ? m : k);
    const long long stride_b = stride(ldb, op_b ? k : n), stride_c = stride(ldc, n);
    const int element = bytes_of(dtype(kind.operand)), result = bytes_of(dtype(kind.result));
    if (std::max({stride_a * element, stride_b * element, stride_c * result}) * batch >= kBytes) {
      --call;
      continue;
    }
    fill(a_, kind.operand);
    fill(b_, kind.operand);
    fill(c_, kind.result);
    fill(d_, kind.result);
    alignas(8) std::byte alpha[8], beta[8];
    from_double(dtype(kind.scalar), draw(0, 3), alpha);
    from_double(dtype(kind.scalar), draw(0, 2), beta);
    const bool plain = kind.plain && draw(0, 1) == 0, wide = draw(0, 1) == 0;
    const bool is_half = kind.operand == kF16;
    const auto multiply = [&](const Functions& from, void* c) {
      if (batch > 1 && plain && wide)
        return from.get<PlainBatched64>(std::string(kind.plain) + "StridedBatched_64")(
            handle_, op_a, op_b, m, n, k, alpha, a_.data(), lda, stride_a, b_.data(), ldb, stride_b,
            beta, c, ldc, stride_c, batch);
      if (batch > 1 && plain)
        return from.get<PlainBatched>(std::string(kind.plain) + "StridedBatched")(
            handle_, op_a, op_b, m, n, k, alpha, a_.data(), lda, stride_a, b_.data(), ldb, stride_b,
            beta, c, ldc, stride_c, batch);
      if (batch > 1 && wide)
        return from.get<BatchedEx64>("cublasGemmStridedBatchedEx_64")(
            handle_, op_a, op_b, m, n, k, alpha, a_.data(), kind.operand, lda, stride_a, b_.data(),
            kind.operand, ldb, stride_b, beta, c, kind.result, ldc, stride_c, batch, kind.compute,
            -1);
      if (batch > 1)
        return from.get<BatchedEx>("cublasGemmStridedBatchedEx")(
            handle_, op_a, op_b, m, n, k, alpha, a_.data(), kind.operand, lda, stride_a, b_.data(),
            kind.operand, ldb, stride_b, beta, c, kind.result, ldc, stride_c, batch, kind.compute,
            -1);
      if (plain && wide)
        return from.get<Plain64>(std::string(kind.plain) + (is_half ? "_64" : "_v2_64"))(
            handle_, op_a, op_b, m, n, k, alpha, a_.data(), lda, b_.data(), ldb, beta, c, ldc);
      if (plain)
        return from.get<Plain>(std::string(kind.plain) + (is_half ? "" : "_v2"))(
            handle_, op_a, op_b, m, n, k, alpha, a_.data(), lda, b_.data(), ldb, beta, c, ldc);
      if (wide)
        return from.get<GemmEx64>("cublasGemmEx_64")(
            handle_, op_a, op_b, m, n, k, alpha, a_.data(), kind.operand, lda, b_.data(),
            kind.operand, ldb, beta, c, kind.result, ldc, kind.compute, -1);
      return from.get<GemmEx>("cublasGemmEx")(handle_, op_a, op_b, m, n, k, alpha, a_.data(),
                                              kind.operand, lda, b_.data(), kind.operand, ldb, beta,
                                              c, kind.result, ldc, kind.compute, -1);
    };
    const Status theirs = multiply(cublas_, c_.data()), mine = multiply(ours_, d_.data());
    const std::string what = std::to_string(kind.operand) + " to " + std::to_string(kind.result) +
                             " op " + std::to_string(op_a) + std::to_string(op_b) + " " +
                             std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
                             " batch " + std::to_string(batch) + " call " + std::to_string(call);
    ASSERT_EQ(theirs, mine) << what;
    const std::vector<std::byte> expected = read(c_), got = read(d_);
    if (expected == got) continue;
    const DType type = dtype(kind.result);
    // The operands and their products are whole numbers: f32's and f64's sums are exact, and a
    // 16-bit result may be rounded from a sum that is not.
    const double unit = type == DType::f16 ? 0x1p-10 : type == DType::bf16 ? 0x1p-7 : 0;
    for (std::int64_t i = 0; i < kBytes / result; ++i) {
      const double x = to_double(type, expected.data() + i * result);
      const double y = to_double(type, got.data() + i * result);
      ASSERT_TRUE(x == y || std::abs(x - y) <= 2 * unit * std::abs(x))
          << what << " at " << i << ": " << x << " and " << y;
    }
  }
  // cuBLAS is not compared with itself.
  EXPECT_EQ(ours_.get<std::uint64_t()>("tilewise_drop_in_answered")(), std::uint64_t(calls));
}

}  // namespace tilewise::drop_in
