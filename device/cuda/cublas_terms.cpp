#include "device/cuda/cublas_terms.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "tilewise/error.hpp"

namespace tilewise::cuda {
namespace {

// cublasComputeType_t.
constexpr int kCompute32 = 68;          // CUBLAS_COMPUTE_32F: for f32 operands, no TF32
constexpr int kCompute32Pedantic = 69;  // CUBLAS_COMPUTE_32F_PEDANTIC
constexpr int kCompute64 = 70;          // CUBLAS_COMPUTE_64F
constexpr int kComputeInteger = 72;     // CUBLAS_COMPUTE_32I
constexpr int kComputeTf32 = 77;        // CUBLAS_COMPUTE_32F_FAST_TF32

constexpr int kIntegerAlignment = 4, kFp8Alignment = 16;  // bytes

int compute_type(const Problem& problem, CublasMath math) {
  if (problem.accumulator == DType::f64) return kCompute64;
  if (problem.accumulator == DType::i32) return kComputeInteger;
  if (problem.math == MathMode::tf32) return kComputeTf32;
  return math == CublasMath::pedantic ? kCompute32Pedantic : kCompute32;
}

/// Why neither library supports a problem; empty if one may.
std::string why_neither(const Problem& problem) {
  if (!product_kind(problem)) return "nothing computes these types together";
  if (problem.m <= 0 || problem.n <= 0 || problem.k <= 0 || problem.batch <= 0)
    return "the product is empty";
  if (problem.a.type == DType::i8 &&
      std::min(problem.a.alignment, problem.b.alignment) < kIntegerAlignment)
    return "i8 only where addresses, leading dimensions and strides of A and B are multiples of 4";
  return "";
}

}  // namespace

int blas_type(DType type) {
  switch (type) {
    case DType::f32:
      return 0;  // CUDA_R_32F
    case DType::f64:
      return 1;  // CUDA_R_64F
    case DType::f16:
      return 2;  // CUDA_R_16F
    case DType::i8:
      return 3;  // CUDA_R_8I
    case DType::i32:
      return 10;  // CUDA_R_32I
    case DType::bf16:
      return 14;  // CUDA_R_16BF
    case DType::e4m3:
      return 28;  // CUDA_R_8F_E4M3
    case DType::e5m2:
      return 29;  // CUDA_R_8F_E5M2
  }
  throw Error(ErrorKind::invalid_argument, "not a type");
}

std::optional<DType> type_of_blas(int type) {
  for (const DType one : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i8, DType::i32,
                          DType::e4m3, DType::e5m2})
    if (blas_type(one) == type) return one;
  return std::nullopt;
}

BlasTerms blas_terms(const Problem& problem, CublasMath math) {
  BlasTerms terms;
  terms.op_first = problem.b.transposed ? kTransposed : kNotTransposed;
  terms.op_second = problem.a.transposed ? kTransposed : kNotTransposed;
  terms.operand = blas_type(problem.a.type);
  terms.result = blas_type(problem.c.type);
  terms.addend = blas_type(is_fp8(problem.c.type) ? DType::bf16 : problem.c.type);
  terms.compute = compute_type(problem, math);
  terms.scalar = blas_type(problem.accumulator);
  terms.fast_sums = problem.math == MathMode::fast;
  return terms;
}

BlasScalar blas_scalar(double value, DType accumulator) {
  BlasScalar scalar{};
  if (accumulator == DType::f64)
    scalar.f64 = value;
  else if (accumulator == DType::i32)
    scalar.i32 = static_cast<std::int32_t>(value);
  else
    scalar.f32 = static_cast<float>(value);
  return scalar;
}

std::optional<std::int32_t> lt_epilogue(const Problem& problem) {
  if (!problem.epilogue) return 1;
  static const std::array<std::pair<const EpilogueForm*, std::int32_t>, 5> known{
      {{Epilogue("relu(acc)").form(), 2},
       {Epilogue("acc + bias[j]").form(), 4},
       {Epilogue("relu(acc + bias[j])").form(), 6},
       {Epilogue("gelu_tanh(acc)").form(), 32},
       {Epilogue("gelu_tanh(acc + bias[j])").form(), 36}}};
  for (const auto& [form, number] : known)
    if (form == problem.epilogue) return number;
  return std::nullopt;
}

std::string why_not_cublas(const Problem& problem, CublasMath math) {
  if (const std::string why = why_neither(problem); !why.empty()) return why;
  if (problem.epilogue) return "it has no epilogues";
  if (is_fp8(problem.a.type)) return "8-bit floats are multiplied by cublasLt only";
  if (math == CublasMath::pedantic &&
      (problem.a.type != DType::f32 || problem.math != MathMode::strict))
    return "pedantic is a column of strict f32 only";
  return "";
}

std::string why_not_cublas_lt(const Problem& problem) {
  if (const std::string why = why_neither(problem); !why.empty()) return why;
  if (!lt_epilogue(problem)) return "cublasLt has no epilogue " + epilogue_text(problem);
  if (problem.epilogue && (problem.batch > 1 || is_integer(problem.c.type) ||
                           is_fp8(problem.a.type) || problem.c.type == DType::f64))
    return "epilogues only of one product, with results in f32, f16 or bf16";
  if (problem.a.type == DType::e5m2) return "cublasLt multiplies e5m2 by e4m3 only";
  if (problem.a.type != DType::e4m3) return "";
  if (layout_of(problem) != Layout::nt)
    return "8-bit floats only in layout nt (which cublasLt, column-major, calls tn)";
  const Alignment alignment = alignment_of(problem);
  if (std::min({alignment.a, alignment.b, alignment.c}) < kFp8Alignment)
    return "8-bit floats only where addresses, leading dimensions and strides are multiples of 16 "
           "bytes";
  return "";
}

}  // namespace tilewise::cuda
