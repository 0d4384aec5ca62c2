#include "drop_in/product.hpp"

#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string_view>

#include "device/cuda/cublas_terms.hpp"
#include "tilewise/number.hpp"
#include "tilewise/strided_array.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise::drop_in {
namespace {

/// Whether NVIDIA_TF32_OVERRIDE=0 is set: no library computes in TF32, even if a call allows it.
bool tf32_is_forbidden() {
  static const bool forbidden = [] {
    const char* value = std::getenv("NVIDIA_TF32_OVERRIDE");
    return value && std::string_view(value) == "0";
  }();
  return forbidden;
}

/// The elements of a column-major matrix, over a batch.
StridedArray elements_of(const Matrix& x, std::int64_t rows, std::int64_t columns,
                         std::int64_t batch, DType type) {
  StridedArray elements;
  elements.data = x.data;
  elements.element_bytes = bytes_of(type);
  elements.add(batch, x.stride);
  elements.add(columns, x.ld);
  elements.add(rows, 1);
  return elements;
}

bool is_16_bit(DType type) { return type == DType::f16 || type == DType::bf16; }

/// Sets accumulator and mode. The precision is never lower than the call requires.
Why set_arithmetic(const Gemm& gemm, int math, Problem& problem) {
  const int mode = math & ~kNoReducedSums;
  const bool plain = mode == kDefaultMath || mode == kTensorOpMath || mode == kTf32Math;
  problem.math = MathMode::strict;
  problem.accumulator = DType::f32;
  int scalars = kF32;
  switch (gemm.compute) {
    case kCompute16:  // sums in f32 are more accurate
      if (problem.a.type != DType::f16 || problem.c.type != DType::f16) return Why::types;
      scalars = kF16;
      break;
    case kCompute32:
      if (problem.a.type == DType::f32) {
        // This mode allows down-conversion, which was not measured.
        if (mode == kTensorOpMath) return Why::precision;
        if (mode == kTf32Math && !tf32_is_forbidden()) problem.math = MathMode::tf32;
      } else if (is_fp8(problem.a.type)) {
        if (gemm.fast_sums) problem.math = MathMode::fast;
      } else if (!is_16_bit(problem.a.type)) {
        return Why::types;
      }
      break;
    case kComputeTf32:
      if (problem.a.type != DType::f32) return Why::precision;
      if (!tf32_is_forbidden()) problem.math = MathMode::tf32;
      break;
    case kCompute64:
      problem.accumulator = DType::f64;
      scalars = kF64;
      break;
    case kComputeI32:
      problem.accumulator = DType::i32;
      scalars = kI32;
      break;
    default:
      return Why::precision;
  }
  if (!plain) return Why::precision;
  if (gemm.scalar != scalars) return Why::types;
  return product_kind(problem) ? Why::none : Why::types;
}

int alignment_of(const void* data, std::int64_t ld, std::int64_t stride, std::int64_t batch,
                 DType type) {
  const auto bytes = static_cast<std::uint64_t>(bytes_of(type));
  return common_alignment({reinterpret_cast<std::uintptr_t>(data),
                           static_cast<std::uint64_t>(ld) * bytes,
                           batch > 1 ? static_cast<std::uint64_t>(stride) * bytes : 0});
}

/// The place of an operand of an epilogue that has it.
EpilogueOperand& operand_of(Product& product, const Epilogue& epilogue, std::string_view name) {
  return product.operands[epilogue.slot(name)];
}

/// The form for another type of the bias. A thread keeps its last ones: a new one takes a lock.
const EpilogueForm* with_bias_type(const Epilogue& epilogue, DType type) {
  struct Kept {
    const EpilogueForm* of = nullptr;
    DType type{};
    const EpilogueForm* form = nullptr;
  };
  thread_local std::array<Kept, 64> kept;
  Kept& one =
      kept[(std::hash<const void*>{}(epilogue.form()) / 16 + static_cast<std::size_t>(type)) %
           kept.size()];
  if (one.of != epilogue.form() || one.type != type)
    one = {epilogue.form(), type, epilogue.with_type(epilogue.slot("bias"), type).form()};
  return one.form;
}

/// Sets the problem's epilogue and its operands.
Why set_epilogue_of(const Gemm& gemm, Product& product) {
  Problem& problem = product.problem;
  problem.epilogue = nullptr;
  product.operand_count = 0;
  const cuda::LtEpilogue terms{gemm.epilogue, gemm.scale_a != nullptr, gemm.scale_b != nullptr,
                               gemm.addend.data != nullptr};
  if (terms == cuda::LtEpilogue{}) return Why::none;
  const Epilogue* const epilogue = cuda::epilogue_of(terms);
  const DType c = problem.c.type;
  if (!epilogue || is_integer(c) || c == DType::f64) return Why::described;
  if ((terms.scale_a || terms.scale_b) && !is_fp8(problem.a.type)) return Why::described;
  problem.epilogue = epilogue->form();
  product.operand_count = epilogue->operands();
  if (terms.scale_a) operand_of(product, *epilogue, "scale_a") = {gemm.scale_a};
  if (terms.scale_b) operand_of(product, *epilogue, "scale_b") = {gemm.scale_b};
  if (terms.addend) {
    if (cuda::type_of_blas(gemm.addend.type) != c) return Why::described;
    operand_of(product, *epilogue, "addend") = {gemm.addend.data, gemm.addend.ld,
                                                gemm.addend.stride};
    operand_of(product, *epilogue, "beta") = {.value = scalar_of(gemm.beta, gemm.scalar)};
  }
  if ((terms.number & kLtAux) != 0) {
    if (!gemm.aux.data || cuda::type_of_blas(gemm.aux.type) != c || is_fp8(c))
      return Why::described;
    operand_of(product, *epilogue, "aux") = {gemm.aux.data, gemm.aux.ld, gemm.aux.stride};
  }
  if ((terms.number & (kLtWithBias | kLtBiasGradient)) == 0) return Why::none;
  const std::optional<DType> bias = cuda::type_of_blas(gemm.bias.type);
  if (!bias || !gemm.bias.data) return Why::described;
  operand_of(product, *epilogue, "bias") = {gemm.bias.data, 0, gemm.bias.stride};
  if (*bias != c) problem.epilogue = with_bias_type(*epilogue, *bias);
  return Why::none;
}

bool is_operation(int op) { return op >= kNotTransposed && op <= kConjugate; }

}  // namespace

std::string_view to_string(Why why) {
  constexpr std::string_view kTexts[kWhys] = {
      "answered",
      "the drop-in is off",
      "empty products, or arguments that cuBLAS refuses",
      "operands that share elements with the result, or may",
      "types without a kernel",
      "modes with other results (pedantic, emulated, down-converting)",
      "an algorithm of cuBLAS by its number",
      "alpha and beta in device memory, as vectors or in f16",
      "cublasLt with another epilogue, further scales, or another order",
      "a limited number of multiprocessors",
      "in a stream capture, and not loaded or with a workspace",
      "in a CUDA context other than the device's primary one",
      "too many different problems",
      "not tuned on this GPU",
      "cuBLAS was not measured beside the record",
      "cuBLAS was faster",
      "no stored kernel",
      "recorded only",
      "functions that are never answered (vectors, pointers to matrices)",
      "no kernel in the kept order",
      "too little memory"};
  return kTexts[static_cast<std::size_t>(why)];
}

Layout layout_of(const Gemm& gemm) {
  const bool first = gemm.op_b != kNotTransposed, second = gemm.op_a != kNotTransposed;
  return first ? (second ? Layout::tt : Layout::tn) : second ? Layout::nt : Layout::nn;
}

Why product_of(const Gemm& gemm, int math, Product& product) {
  if (!is_operation(gemm.op_a) || !is_operation(gemm.op_b) || gemm.m < 1 || gemm.n < 1 ||
      gemm.k < 1 || gemm.batch < 1 || !gemm.alpha || !gemm.beta || !gemm.a.data || !gemm.b.data ||
      !gemm.c.data || gemm.a.stride < 0 || gemm.b.stride < 0 || gemm.c.stride < 0)
    return Why::arguments;
  if (gemm.aux.data && (gemm.aux.ld < gemm.m || gemm.aux.stride < 0)) return Why::arguments;
  if (gemm.addend.data && (gemm.addend.ld < gemm.m || gemm.addend.stride < 0))
    return Why::arguments;
  if (gemm.algorithm != kAnyAlgorithm && gemm.algorithm != kAnyTensorAlgorithm)
    return Why::algorithm;
  const std::optional<DType> a = cuda::type_of_blas(gemm.b.type),
                             b = cuda::type_of_blas(gemm.a.type),
                             c = cuda::type_of_blas(gemm.c.type);
  if (!a || !b || !c || *a != *b) return Why::types;
  Problem& problem = product.problem;
  problem.a.type = *a, problem.b.type = *b, problem.c.type = *c;
  if (const Why why = set_arithmetic(gemm, math, problem); why != Why::none) return why;
  if (const Why why = set_epilogue_of(gemm, product); why != Why::none) return why;
  const bool first = gemm.op_b != kNotTransposed, second = gemm.op_a != kNotTransposed;
  set_layout(problem, layout_of(gemm));
  problem.m = gemm.n, problem.n = gemm.m, problem.k = gemm.k;
  problem.batch = gemm.batch;
  problem.pointers = false;
  if (gemm.b.ld < min_lda(problem) || gemm.a.ld < min_ldb(problem) || gemm.c.ld < min_ldc(problem))
    return Why::arguments;
  // cuBLAS accepts a C that shares elements with A or B.
  const StridedArray of_c = elements_of(gemm.c, gemm.m, gemm.n, gemm.batch, *c);
  const StridedArray of_a =
      elements_of(gemm.a, second ? gemm.k : gemm.m, second ? gemm.m : gemm.k, gemm.batch, *b);
  const StridedArray of_b =
      elements_of(gemm.b, first ? gemm.n : gemm.k, first ? gemm.k : gemm.n, gemm.batch, *a);
  if (share_elements(of_c, of_a) || share_elements(of_c, of_b)) return Why::overlap;
  const auto aligned = [&gemm](const Matrix& x, DType type) {
    return alignment_of(x.data, x.ld, x.stride, gemm.batch, type);
  };
  set_alignment(problem, {aligned(gemm.b, *a), aligned(gemm.a, *b), aligned(gemm.c, *c)});
  Call& call = product.call;
  call.a = gemm.b.data, call.lda = gemm.b.ld, call.stride_a = gemm.b.stride;
  call.b = gemm.a.data, call.ldb = gemm.a.ld, call.stride_b = gemm.a.stride;
  call.c = const_cast<void*>(gemm.c.data), call.ldc = gemm.c.ld, call.stride_c = gemm.c.stride;
  return Why::none;
}

bool set_scalars(const Gemm& gemm, bool on_host, Product& product) {
  Call& call = product.call;
  if (!on_host || !gemm.scalars_on_host) {
    if (cuda::type_of_blas(gemm.scalar) != product.problem.accumulator) return false;
    call.alpha_device = gemm.alpha, call.beta_device = gemm.beta;
    return true;
  }
  call.alpha = scalar_of(gemm.alpha, gemm.scalar);
  call.beta = gemm.addend.data ? 0 : scalar_of(gemm.beta, gemm.scalar);
  return true;
}

bool is_scalar(int type) { return type == kF32 || type == kF64 || type == kF16 || type == kI32; }

double scalar_of(const void* from, int type) {
  return to_double(cuda::type_of_blas(type).value_or(DType::f32), from);
}

}  // namespace tilewise::drop_in
