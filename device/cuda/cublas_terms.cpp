#include "device/cuda/cublas_terms.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tilewise/error.hpp"

namespace tilewise::cuda {
namespace {

// cublasComputeType_t.
constexpr int kCompute32 = 68;          // CUBLAS_COMPUTE_32F: for f32 operands, no TF32
constexpr int kCompute32Pedantic = 69;  // CUBLAS_COMPUTE_32F_PEDANTIC
constexpr int kCompute64 = 70;          // CUBLAS_COMPUTE_64F
constexpr int kComputeInteger = 72;     // CUBLAS_COMPUTE_32I
constexpr int kComputeTf32 = 77;        // CUBLAS_COMPUTE_32F_FAST_TF32

constexpr std::int64_t kAuxMultiple = 8;  // of the leading dimension, which is n in a search
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
  if (problem.a.type != problem.b.type) return "A and B have one type";
  if (is_grouped(problem)) return "no grouped product";
  if (problem.a.type == DType::i8 &&
      std::min(problem.a.alignment, problem.b.alignment) < kIntegerAlignment)
    return "i8 only where addresses, leading dimensions and strides of A and B are multiples of 4";
  return "";
}

// The derivative of gelu_tanh() at `z`, and what it needs.
constexpr std::string_view kOfGelu =
    "z = aux[i,j]; s = sigmoid(z * (1.5957691216057308 + 0.0713548162726 * z * z)); "
    "of_gelu = s + z * s * (1 - s) * (1.5957691216057308 + 0.2140644488178 * z * z); ";

std::string text_of(const LtEpilogue& terms) {
  std::string sum = "acc";
  if (terms.scale_a) sum += " * scale_a";
  if (terms.scale_b) sum += " * scale_b";
  if (terms.addend) sum += " + beta * addend[i,j]";
  if ((terms.number & kLtWithBias) != 0) sum += " + bias[j]";
  switch (terms.number & ~kLtWithBias) {
    case kLtRelu:
      return "relu(" + sum + ")";
    case kLtGelu:
      return "gelu_tanh(" + sum + ")";
    case kLtGeluAux:
      return "x = " + sum + "; aux[i,j] = x; gelu_tanh(x)";
    case kLtOfGelu:
      return std::string(kOfGelu) + "(" + sum + ") * of_gelu";
    case kLtOfGeluAndBias:
      return std::string(kOfGelu) + "d = (" + sum + ") * of_gelu; bias[j] = sum(d); d";
    default:
      return sum;
  }
}

struct KnownEpilogue {
  LtEpilogue terms;
  Epilogue epilogue;
};

// Without an epilogue first.
constexpr std::array kLtNumbers{kLtNoEpilogue,
                                kLtRelu,
                                kLtGelu,
                                kLtWithBias,
                                kLtRelu | kLtWithBias,
                                kLtGelu | kLtWithBias,
                                kLtGeluAux,
                                kLtGeluAux | kLtWithBias,
                                kLtOfGelu,
                                kLtOfGeluAndBias};

/// All but the first, which computes nothing. Never destroyed: the drop-in is used until the end.
const std::vector<KnownEpilogue>& known_epilogues() {
  static const auto* const all = [] {
    auto* made = new std::vector<KnownEpilogue>;
    for (const int number : kLtNumbers)
      for (int parts = 0; parts < 8; ++parts) {
        const LtEpilogue terms{number, (parts & 1) != 0, (parts & 2) != 0, (parts & 4) != 0};
        if (terms != LtEpilogue{}) made->push_back({terms, Epilogue(text_of(terms))});
      }
    return made;
  }();
  return *all;
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
    case DType::i4:
      break;
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

const Epilogue* epilogue_of(const LtEpilogue& terms) {
  const auto number = std::find(kLtNumbers.begin(), kLtNumbers.end(), terms.number);
  if (number == kLtNumbers.end() || terms == LtEpilogue{}) return nullptr;
  const int parts = (terms.scale_a ? 1 : 0) + (terms.scale_b ? 2 : 0) + (terms.addend ? 4 : 0);
  return &known_epilogues()[static_cast<std::size_t>(number - kLtNumbers.begin()) * 8 +
                            static_cast<std::size_t>(parts) - 1]
              .epilogue;
}

std::optional<LtEpilogue> lt_epilogue(const Problem& problem) {
  if (!problem.epilogue) return LtEpilogue{};
  for (const KnownEpilogue& known : known_epilogues())
    if (known.epilogue.form() == problem.epilogue) return known.terms;
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
  const std::optional<LtEpilogue> epilogue = lt_epilogue(problem);
  if (!epilogue) return "cublasLt has no epilogue " + epilogue_text(problem);
  if (problem.epilogue && (problem.batch > 1 || is_integer(problem.c.type) ||
                           is_fp8(problem.c.type) || problem.c.type == DType::f64))
    return "epilogues only of one product, with results in f32, f16 or bf16";
  if ((epilogue->number & kLtAux) != 0 && problem.n % kAuxMultiple != 0)
    return "a further matrix only where n is a multiple of 8";
  if ((epilogue->scale_a || epilogue->scale_b) && !is_fp8(problem.a.type))
    return "scales only of 8-bit floats";
  if (is_fp8(problem.a.type) && problem.c.type == DType::f32 &&
      (epilogue->number & kLtWithBias) != 0)
    return "a bias of 8-bit floats' products in f32 has another type";
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
