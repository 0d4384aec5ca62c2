#include "drop_in/lt.hpp"

#include <array>
#include <cstring>

#include "drop_in/real.hpp"

namespace tilewise::drop_in {
namespace {

using GetOfProduct = Status(const LtProduct*, int, void*, std::size_t, std::size_t*);
using GetOfMatrix = Status(const LtMatrix*, int, void*, std::size_t, std::size_t*);
Real<GetOfProduct> product_attribute("cublasLtMatmulDescGetAttribute");
Real<GetOfMatrix> matrix_attribute("cublasLtMatrixLayoutGetAttribute");

/// An attribute, or `otherwise` if this version of cublasLt does not have it.
template <class Value, class Function, class Described>
Value attribute(Real<Function>& real, const Described* described, int name, Value otherwise) {
  Value value = otherwise;
  std::size_t written = 0;
  auto* const get = real.get();
  if (!get || get(described, name, &value, sizeof value, &written) != kSuccess) return otherwise;
  return value;
}

/// The contents of a call's descriptors.
struct Said {
  Why why = Why::none;
  int compute = 0, scalar = 0, op_a = 0, op_b = 0, epilogue = kLtNoEpilogue;
  Matrix bias;  ///< its type -1: that of D
  Matrix aux;   ///< the same
  const void* scale_a = nullptr;
  const void* scale_b = nullptr;
  int pointer_mode = kPointersOnHost;
  bool fast_sums = false, all_multiprocessors = true;
  struct {
    int type = 0;
    std::int64_t rows = 0, columns = 0, ld = 0, stride = 0;
    std::int32_t batch = 1;
  } matrices[4];
};

Said read(const LtProduct* product, const std::array<const LtMatrix*, 4>& matrices) {
  Said said;
  const auto of = [&](int name, auto otherwise) {
    return attribute(product_attribute, product, name, otherwise);
  };
  said.compute = of(kLtCompute, std::int32_t{0});
  said.scalar = of(kLtScaleType, std::int32_t{0});
  said.op_a = of(kLtTransA, std::int32_t{0});
  said.op_b = of(kLtTransB, std::int32_t{0});
  said.pointer_mode = of(kLtPointerMode, std::int32_t{kPointersOnHost});
  said.scale_a = of(kLtScaleA, static_cast<const void*>(nullptr));
  said.scale_b = of(kLtScaleB, static_cast<const void*>(nullptr));
  said.fast_sums = of(kLtFastSums, std::int8_t{0}) != 0;
  said.all_multiprocessors = of(kLtSmCount, std::int32_t{0}) == 0;
  said.epilogue = static_cast<int>(of(kLtEpilogue, std::uint32_t{kLtNoEpilogue}));
  if ((said.epilogue & (kLtWithBias | kLtBiasGradient)) != 0)
    said.bias = {of(kLtBias, static_cast<const void*>(nullptr)), of(kLtBiasType, std::int32_t{-1}),
                 0, of(kLtBiasStride, std::int64_t{0})};
  if ((said.epilogue & kLtAux) != 0)
    said.aux = {of(kLtAuxPointer, static_cast<const void*>(nullptr)),
                of(kLtAuxType, std::int32_t{-1}), of(kLtAuxLd, std::int64_t{0}),
                of(kLtAuxStride, std::int64_t{0})};
  bool plain = of(kLtTransC, std::int32_t{0}) == kNotTransposed &&
               of(kLtFill, std::int32_t{kLtFullFill}) == kLtFullFill;
  for (const int pointer :
       {kLtScaleC, kLtScaleD, kLtAmax, kLtAuxScale, kLtAuxAmax, kLtScaleOut, kLtEmulation})
    plain = plain && of(pointer, static_cast<const void*>(nullptr)) == nullptr;
  // CUDA 12: chunks of a product that other kernels wait for; first numbers, then addresses.
  for (int sync = kLtSyncFirst; sync <= kLtSyncLast; ++sync)
    plain = plain && (sync < kLtSyncLast - 1 ? of(sync, std::int32_t{0}) == 0
                                             : of(sync, std::uint64_t{0}) == 0);
  for (int mode = kLtScaleModes; mode < kLtScaleModesEnd; ++mode)
    plain = plain && of(mode, std::int32_t{0}) == 0;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const auto from = [&](int name, auto otherwise) {
      return attribute(matrix_attribute, matrices[i], name, otherwise);
    };
    auto& to = said.matrices[i];
    to.type = static_cast<int>(from(kLtType, std::uint32_t{0}));
    to.rows = static_cast<std::int64_t>(from(kLtRows, std::uint64_t{0}));
    to.columns = static_cast<std::int64_t>(from(kLtColumns, std::uint64_t{0}));
    to.ld = from(kLtLd, std::int64_t{0});
    to.batch = from(kLtBatch, std::int32_t{1});
    to.stride = from(kLtStride, std::int64_t{0});
    plain = plain && from(kLtOrder, std::int32_t{kLtColumnMajor}) == kLtColumnMajor &&
            from(kLtPlane, std::int64_t{0}) == 0 && from(kLtBatchMode, std::uint32_t{0}) == 0;
  }
  if (!said.all_multiprocessors) said.why = Why::multiprocessors;
  if (!plain) said.why = Why::described;
  return said;
}

/// The contents of all descriptors of a call, which are the key of the cache.
struct Contents {
  LtProduct product;
  std::array<LtMatrix, 4> matrices;
};

/// One of the last descriptor sets of a thread.
struct Known {
  bool filled = false;
  Contents contents;
  Said said;
};
constexpr std::size_t kKnown = 64;  // a bias has a descriptor of its own
thread_local std::array<Known, kKnown> known;

/// Whether descriptors have the size of LtProduct, which is so since CUDA 13. Earlier ones are
/// shorter.
bool sizes_are_known() {
  static Real<std::size_t()> version("cublasLtGetVersion");
  static const bool are_known = version.get() && version.get()() >= 130'000;
  return are_known;
}

const Said& said_of(const LtCall& call) {
  if (!sizes_are_known()) {
    thread_local Said said;
    return said = read(call.product, {call.a_matrix, call.b_matrix, call.c_matrix, call.d_matrix});
  }
  Contents contents;
  const std::array<const LtMatrix*, 4> matrices{call.a_matrix, call.b_matrix, call.c_matrix,
                                                call.d_matrix};
  contents.product = *call.product;
  for (std::size_t i = 0; i < matrices.size(); ++i) contents.matrices[i] = *matrices[i];
  std::uint64_t hash = 0;
  const auto mix = [&hash](std::uint64_t word) { hash = (hash ^ word) * 0x9e3779b97f4a7c15u; };
  for (const std::uint64_t word : contents.product.data) mix(word);
  for (const LtMatrix& matrix : contents.matrices)
    for (const std::uint64_t word : matrix.data) mix(word);
  Known& slot = known[(hash >> 50) % kKnown];
  if (slot.filled && std::memcmp(&slot.contents, &contents, sizeof contents) == 0) return slot.said;
  slot.said = read(call.product, matrices);
  slot.contents = contents;
  slot.filled = true;
  return slot.said;
}

}  // namespace

Why gemm_of(const LtCall& call, Gemm& gemm) {
  if (!call.product || !call.a_matrix || !call.b_matrix || !call.d_matrix || !call.beta)
    return Why::arguments;
  LtCall whole = call;
  if (!whole.c_matrix) whole.c_matrix = whole.d_matrix;
  const Said& said = said_of(whole);
  if (said.why != Why::none) return said.why;
  if (said.pointer_mode != kPointersOnHost && said.pointer_mode != kPointersOnDevice)
    return Why::scalars;
  if (!is_scalar(said.scalar)) return Why::types;
  gemm.scalars_on_host = said.pointer_mode == kPointersOnHost;
  const bool beta_is_zero = gemm.scalars_on_host && scalar_of(call.beta, said.scalar) == 0;
  const auto& [a, b, c, d] = said.matrices;
  const bool alike = c.type == d.type && c.rows == d.rows && c.columns == d.columns &&
                     c.ld == d.ld && c.batch == d.batch && c.stride == d.stride;
  // Scales are factors of the product only, so a C that is added is an operand beside them, too.
  const bool scaled = said.scale_a || said.scale_b;
  if (!beta_is_zero && (call.c != call.d || !alike || scaled)) {
    if (!gemm.scalars_on_host) return Why::scalars;
    if (c.rows != d.rows || c.columns != d.columns || c.batch != d.batch || !call.c)
      return Why::arguments;
    gemm.addend = {call.c, c.type, c.ld, c.stride};
  }
  gemm.alpha = call.alpha, gemm.beta = call.beta;
  gemm.fast_sums = said.fast_sums;
  gemm.op_a = said.op_a, gemm.op_b = said.op_b;
  gemm.m = d.rows, gemm.n = d.columns;
  gemm.k = gemm.op_a == kNotTransposed ? a.columns : a.rows;
  const std::int64_t a_rows = gemm.op_a == kNotTransposed ? a.rows : a.columns;
  const std::int64_t b_rows = gemm.op_b == kNotTransposed ? b.rows : b.columns;
  const std::int64_t b_columns = gemm.op_b == kNotTransposed ? b.columns : b.rows;
  if (a_rows != gemm.m || b_rows != gemm.k || b_columns != gemm.n || a.batch != d.batch ||
      b.batch != d.batch)
    return Why::arguments;
  gemm.a = {call.a, a.type, a.ld, a.stride};
  gemm.b = {call.b, b.type, b.ld, b.stride};
  gemm.c = {call.d, d.type, d.ld, d.stride};
  gemm.batch = d.batch;
  gemm.compute = said.compute, gemm.scalar = said.scalar;
  gemm.epilogue = said.epilogue, gemm.bias = said.bias;
  gemm.aux = said.aux;
  if (gemm.aux.type < 0) gemm.aux.type = d.type;
  gemm.scale_a = said.scale_a, gemm.scale_b = said.scale_b;
  if (gemm.bias.type < 0) {
    if (a.type == kE4m3 || a.type == kE5m2) return Why::described;  // by rules of their own
    gemm.bias.type = d.type;
  }
  return Why::none;
}

}  // namespace tilewise::drop_in
