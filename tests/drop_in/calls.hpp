#pragma once
#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "drop_in/abi.hpp"
#include "tilewise/call.hpp"

/// The calls that the drop-in answers, as values, and functions that make them.
namespace tilewise::drop_in {

// Values of cublasComputeType_t and cublasMath_t that are passed through.
inline constexpr int kCompute16Pedantic = 65, kCompute32Pedantic = 69, kCompute64Pedantic = 71,
                     kCompute32Fast16 = 74;
inline constexpr int kPedanticMath = 2;
inline constexpr int kLtRowMajor = 1;
inline constexpr int kLtDrelu = 8 | 128;  // of cublasLtEpilogue_t: its mask is missing

/// Types and arithmetic. The operands are whole numbers up to `most_a` and `most_b`: sums are exact
/// in the accumulator, and operands of f32 and f64 are not exact in a lower precision.
struct Kind {
  int operand, result, compute, scalar;
  const char* plain;  ///< function of these types, without suffix; null: the _ex functions
  int most_a, most_b;
  bool lt_only = false;    ///< 8-bit floats
  bool fast_sums = false;  ///< only for 8-bit floats
  bool answered = true;    ///< false: the drop-in does not support the arithmetic
};
inline constexpr int kWide = 1 << 30;  // more bits than f32 has
inline constexpr Kind kKinds[] = {
    {kF32, kF32, kCompute32, kF32, "cublasSgemm", 4095, 2},
    {kF64, kF64, kCompute64, kF64, "cublasDgemm", kWide, 2},
    {kF16, kF16, kCompute16, kF16, "cublasHgemm", 2, 1},
    {kF16, kF16, kCompute32, kF32, nullptr, 4, 4},
    {kBf16, kBf16, kCompute32, kF32, nullptr, 4, 4},
    {kF16, kF32, kCompute32, kF32, nullptr, 255, 4},
    {kBf16, kF32, kCompute32, kF32, nullptr, 255, 4},
    {kF32, kF32, kComputeTf32, kF32, nullptr, 1023, 2},
    {kI8, kI32, kComputeI32, kI32, nullptr, 127, 127},
    {kE4m3, kBf16, kCompute32, kF32, nullptr, 8, 2, true},
    {kE4m3, kF32, kCompute32, kF32, nullptr, 8, 2, true, true},
    {kE4m3, kE4m3, kCompute32, kF32, nullptr, 2, 1, true},
    {kF16, kF16, kCompute16Pedantic, kF16, nullptr, 2, 1, false, false, false},
    {kF32, kF32, kCompute32Pedantic, kF32, nullptr, 4095, 2, false, false, false},
    {kF32, kF32, kCompute32Fast16, kF32, nullptr, 4, 4, false, false, false},
    {kF64, kF64, kCompute64Pedantic, kF64, nullptr, kWide, 2, false, false, false},
};

/// A matrix of a call. `order` is cublasLt's order.
struct Operand {
  int type = 0;
  std::int64_t rows = 0, columns = 0, ld = 0, stride = 0;
  int order = kLtColumnMajor;
  std::int64_t at = 0;  ///< offset of the matrix in the memory of the calls, in bytes

  std::int64_t line() const { return order == kLtColumnMajor ? rows : columns; }
  std::int64_t lines() const { return order == kLtColumnMajor ? columns : rows; }
};

enum class Form { plain, ex, lt };

struct RandomCall {
  const Kind* kind = nullptr;
  Form form = Form::plain;
  bool wide = false;  ///< 64-bit sizes
  int op_a = 0, op_b = 0;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  Operand a, b, c;
  Operand addend;      ///< cublasLt's C
  bool apart = false;  ///< the addend is not C
  alignas(8) std::array<std::byte, 8> alpha{}, beta{};
  std::int64_t scalars_at = -1;  ///< offset in the memory of the calls; below 0: on the host
  int math = kDefaultMath;
  int algorithm = kAnyAlgorithm;
  int epilogue = kLtNoEpilogue;
  Operand bias;  ///< one column, for an epilogue with a bias
  bool states_bias_type = false;
  Operand aux;  ///< of an epilogue that has one
  bool writes_aux() const { return (epilogue & kLtAux) != 0 && (epilogue & kLtGelu) != 0; }
  bool writes_bias() const { return (epilogue & kLtBiasGradient) != 0; }
  std::int64_t scales_at = -1;  ///< offset of the factors of A and B; below 0: none
  int multiprocessors = 0;
  std::size_t stream = 0;
  bool without_handle = false;
  bool answered = true;  ///< whether the drop-in must answer the call
  std::string text() const;
};

inline std::string RandomCall::text() const {
  const auto matrix = [](const char* name, const Operand& x) {
    return std::string(", ") + name + " of " + std::to_string(x.type) + " ld " +
           std::to_string(x.ld) + " stride " + std::to_string(x.stride) + " at " +
           std::to_string(x.at % 256) + (x.order == kLtColumnMajor ? "" : " row-major");
  };
  return std::string(form == Form::plain ? "plain"
                     : form == Form::ex  ? "Ex"
                                         : "Lt") +
         (wide ? " 64" : "") + " compute " + std::to_string(kind->compute) + " math " +
         std::to_string(math) + " op " + std::to_string(op_a) + std::to_string(op_b) + " " +
         std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " batch " +
         std::to_string(batch) + matrix("A", a) + matrix("B", b) + matrix("C", c) +
         (apart ? " apart from D" : "") + (scalars_at < 0 ? "" : ", scalars on the device") +
         (epilogue == kLtNoEpilogue ? "" : ", epilogue " + std::to_string(epilogue)) +
         (scales_at < 0 ? "" : ", scales") + (without_handle ? ", no handle" : "");
}

/// The functions of one library.
struct Functions {
  void* library;
  template <class Function>
  Function* get(const std::string& name) const {
    return reinterpret_cast<Function*>(dlsym(library, name.c_str()));
  }
};

template <class Int>
using Plain = Status(Handle, int, int, Int, Int, Int, const void*, const void*, Int, const void*,
                     Int, const void*, void*, Int);
template <class Int>
using PlainBatched = Status(Handle, int, int, Int, Int, Int, const void*, const void*, Int,
                            long long, const void*, Int, long long, const void*, void*, Int,
                            long long, Int);
template <class Int>
using Ex = Status(Handle, int, int, Int, Int, Int, const void*, const void*, int, Int, const void*,
                  int, Int, const void*, void*, int, Int, int, int);
template <class Int>
using BatchedEx = Status(Handle, int, int, Int, Int, Int, const void*, const void*, int, Int,
                         long long, const void*, int, Int, long long, const void*, void*, int, Int,
                         long long, Int, int, int);
using LtMatmul = Status(Handle, const LtProduct*, const void*, const void*, const LtMatrix*,
                        const void*, const LtMatrix*, const void*, const void*, const LtMatrix*,
                        void*, const LtMatrix*, const void*, void*, std::size_t, CUstream_st*);

/// The memory of the calls.
struct Memory {
  std::byte* operands;
  std::byte* results;
};

/// cublasLt's descriptors of a call. Empty if cublasLt refuses one.
class Described {
 public:
  Described(const Functions& cublas, const RandomCall& call, const Memory& memory)
      : cublas_(cublas) {
    using Set = Status(LtProduct*, int, const void*, std::size_t);
    const auto create = cublas.get<Status(LtProduct**, int, int)>("cublasLtMatmulDescCreate");
    if (create(&product, call.kind->compute, call.kind->scalar) != kSuccess) product = nullptr;
    const auto set = [&](int name, auto value) {
      cublas.get<Set>("cublasLtMatmulDescSetAttribute")(product, name, &value, sizeof value);
    };
    if (product) {
      set(kLtTransA, std::int32_t{call.op_a});
      set(kLtTransB, std::int32_t{call.op_b});
      if (call.scalars_at >= 0) set(kLtPointerMode, std::int32_t{kPointersOnDevice});
      if (call.scales_at >= 0) {
        set(kLtScaleA, static_cast<const void*>(memory.operands + call.scales_at));
        set(kLtScaleB, static_cast<const void*>(memory.operands + call.scales_at + 16));
      }
      if (call.kind->fast_sums) set(kLtFastSums, std::int8_t{1});
      if (call.epilogue != kLtNoEpilogue)
        set(kLtEpilogue, static_cast<std::uint32_t>(call.epilogue));
      if ((call.epilogue & kLtAux) != 0 && call.epilogue != kLtDrelu) {
        std::byte* const from = call.writes_aux() ? memory.results : memory.operands;
        set(kLtAuxPointer, static_cast<const void*>(from + call.aux.at));
        set(kLtAuxLd, call.aux.ld);
        if (call.batch > 1) set(kLtAuxStride, call.aux.stride);
      }
      if ((call.epilogue & (kLtWithBias | kLtBiasGradient)) != 0) {
        std::byte* const from = call.writes_bias() ? memory.results : memory.operands;
        set(kLtBias, static_cast<const void*>(from + call.bias.at));
        if (call.states_bias_type) set(kLtBiasType, std::int32_t{call.bias.type});
        if (call.batch > 1) set(kLtBiasStride, call.bias.stride);
      }
    }
    const std::array<const Operand*, 4> all{&call.a, &call.b, &call.addend, &call.c};
    for (std::size_t i = 0; i < all.size(); ++i) matrices[i] = describe(*all[i], call.batch);
  }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
  ~Described() {
    if (product) cublas_.get<Status(LtProduct*)>("cublasLtMatmulDescDestroy")(product);
    for (LtMatrix* matrix : matrices)
      if (matrix) cublas_.get<Status(LtMatrix*)>("cublasLtMatrixLayoutDestroy")(matrix);
  }
  bool is_whole() const {
    return product && matrices[0] && matrices[1] && matrices[2] && matrices[3];
  }

  LtProduct* product = nullptr;
  std::array<LtMatrix*, 4> matrices{};  ///< for A, B, C, D

 private:
  LtMatrix* describe(const Operand& x, std::int64_t batch) const {
    using Create = Status(LtMatrix**, int, std::uint64_t, std::uint64_t, std::int64_t);
    using Set = Status(LtMatrix*, int, const void*, std::size_t);
    LtMatrix* made = nullptr;
    if (cublas_.get<Create>("cublasLtMatrixLayoutCreate")(
            &made, x.type, static_cast<std::uint64_t>(x.rows),
            static_cast<std::uint64_t>(x.columns), x.ld) != kSuccess)
      return nullptr;
    const auto set = [&](int name, auto value) {
      cublas_.get<Set>("cublasLtMatrixLayoutSetAttribute")(made, name, &value, sizeof value);
    };
    if (x.order != kLtColumnMajor) set(kLtOrder, std::int32_t{x.order});
    if (batch != 1) set(kLtBatch, static_cast<std::int32_t>(batch)), set(kLtStride, x.stride);
    return made;
  }
  const Functions& cublas_;
};

/// Calls one library's functions with a handle. `described`: the descriptors of a call of Form::lt.
class Caller {
 public:
  Caller(const Functions& from, Handle handle, const RandomCall& call, const Memory& memory)
      : from_(from), call_(call), handle_(call.without_handle ? nullptr : handle) {
    a_ = memory.operands + call.a.at, b_ = memory.operands + call.b.at;
    c_ = memory.results + call.c.at;
    addend_ = call.apart ? memory.operands + call.addend.at : c_;
    alpha_ = call.alpha.data(), beta_ = call.beta.data();
    if (call.scalars_at < 0) return;
    alpha_ = memory.operands + call.scalars_at;
    beta_ = memory.operands + call.scalars_at + 16;
  }
  Status multiply(const Described* described, CUstream_st* stream) const {
    if (described) return lt(*described, stream);
    return call_.wide ? gemm<std::int64_t>() : gemm<int>();
  }

 private:
  Status lt(const Described& described, CUstream_st* stream) const {
    const auto& [a, b, addend, c] = described.matrices;
    return from_.get<LtMatmul>("cublasLtMatmul")(handle_, described.product, alpha_, a_, a, b_, b,
                                                 beta_, addend_, addend, c_, c, nullptr, nullptr, 0,
                                                 stream);
  }
  template <class Int>
  Status gemm() const {
    const RandomCall& call = call_;
    const Kind& kind = *call.kind;
    const auto m = static_cast<Int>(call.m), n = static_cast<Int>(call.n),
               k = static_cast<Int>(call.k), batch = static_cast<Int>(call.batch);
    const auto lda = static_cast<Int>(call.a.ld), ldb = static_cast<Int>(call.b.ld),
               ldc = static_cast<Int>(call.c.ld);
    const bool is_half = kind.operand == kF16;
    const std::string wide = call.wide ? "_64" : "";
    if (call.form == Form::plain && call.batch == 1)
      return from_.get<Plain<Int>>(std::string(kind.plain) + (is_half ? "" : "_v2") + wide)(
          handle_, call.op_a, call.op_b, m, n, k, alpha_, a_, lda, b_, ldb, beta_, c_, ldc);
    if (call.form == Form::plain)
      return from_.get<PlainBatched<Int>>(std::string(kind.plain) + "StridedBatched" + wide)(
          handle_, call.op_a, call.op_b, m, n, k, alpha_, a_, lda, call.a.stride, b_, ldb,
          call.b.stride, beta_, c_, ldc, call.c.stride, batch);
    if (call.batch == 1)
      return from_.get<Ex<Int>>("cublasGemmEx" + wide)(
          handle_, call.op_a, call.op_b, m, n, k, alpha_, a_, kind.operand, lda, b_, kind.operand,
          ldb, beta_, c_, kind.result, ldc, kind.compute, call.algorithm);
    return from_.get<BatchedEx<Int>>("cublasGemmStridedBatchedEx" + wide)(
        handle_, call.op_a, call.op_b, m, n, k, alpha_, a_, kind.operand, lda, call.a.stride, b_,
        kind.operand, ldb, call.b.stride, beta_, c_, kind.result, ldc, call.c.stride, batch,
        kind.compute, call.algorithm);
  }

  const Functions& from_;
  const RandomCall& call_;
  Handle handle_;
  const void *a_, *b_, *addend_, *alpha_, *beta_;
  void* c_;
};

}  // namespace tilewise::drop_in
