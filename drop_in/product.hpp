#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "drop_in/abi.hpp"
#include "tilewise/call.hpp"
#include "tilewise/problem.hpp"

namespace tilewise::drop_in {

/// Why a call goes to cuBLAS, or is refused (Settings::invariant).
enum class Why : std::uint8_t {
  none,             ///< the call does not go to cuBLAS
  off,              ///< the drop-in is off or has failed
  arguments,        ///< an empty product, or arguments that cuBLAS may refuse
  overlap,          ///< C shares or may share an element with A or B
  types,            ///< types or arithmetic without a kernel
  precision,        ///< a mode with other results: pedantic, emulated, down-converting
  algorithm,        ///< the call names an algorithm by its number
  scalars,          ///< alpha and beta are in device memory, as vectors or in f16
  described,        ///< cublasLt: another epilogue, further scales, or an order
  multiprocessors,  ///< the caller limits the number of multiprocessors
  capture,          ///< inside a stream capture, and the kernel is not loaded or needs a workspace
  context,          ///< no CUDA context is current, or it is not its device's primary one
  many,             ///< more distinct problems than are kept
  untuned,          ///< no record of this problem on this GPU
  unmeasured,       ///< cuBLAS was not measured together with the record
  slower,           ///< cuBLAS was faster
  unloaded,         ///< the kernel is not stored
  recording,        ///< the process only records
  function,         ///< a function of cuBLAS that is never answered
  order,            ///< no kernel adds in the order that is kept for the product
  memory,           ///< too little memory for the product
};
inline constexpr std::size_t kWhys = static_cast<std::size_t>(Why::memory) + 1;
/// The reason in words, for people.
std::string_view to_string(Why why);

/// A matrix as cuBLAS describes it: column-major, sizes in elements.
struct Matrix {
  const void* data = nullptr;
  int type = 0;
  std::int64_t ld = 0, stride = 0;
};

/// The arguments that all calls have. `compute` is a cublasComputeType_t, `scalar` a
/// cudaDataType_t.
struct Gemm {
  int op_a = 0, op_b = 0;
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a, b, c;
  std::int64_t batch = 1;
  int compute = 0, scalar = 0;
  bool fast_sums = false;  ///< sums of 8-bit floats need no promotion
  const void* alpha = nullptr;
  const void* beta = nullptr;
  int algorithm = kAnyAlgorithm;  ///< a cublasGemmAlgo_t
  // The rest is cublasLt's.
  int epilogue = kLtNoEpilogue;   ///< a cublasLtEpilogue_t
  Matrix bias = {};               ///< of the epilogue: a column as long as those of C
  Matrix aux = {};                ///< of the epilogue, as large as C; written, or read
  Matrix addend = {};             ///< what beta multiplies, unless that is C; beta is on the host
  const void* scale_a = nullptr;  ///< a factor in device memory
  const void* scale_b = nullptr;
  bool scalars_on_host = true;
};

struct Product {
  Problem problem;
  Call call;  ///< without scalars, stream and operands
  std::array<EpilogueOperand, 6> operands;
  std::size_t operand_count = 0;
};

/// Sets `product` to the same product in row-major terms, in which a column-major matrix is its
/// transpose: C^T = op(B)^T op(A)^T, so A and B, m and n, and the letters of the layout are
/// swapped. `math` is the handle's cublasMath_t (cublasLt: kDefaultMath). Reads no memory except
/// the arguments. Returns the reason if no kernel may answer.
Why product_of(const Gemm& gemm, int math, Product& product);

/// Sets alpha and beta of the call. False if they are in device memory and no kernel reads them.
bool set_scalars(const Gemm& gemm, bool on_host, Product& product);

/// The layout in row-major terms. Requires operations that cuBLAS has.
Layout layout_of(const Gemm& gemm);

/// Whether alpha and beta may have this cudaDataType_t.
bool is_scalar(int type);
/// The value of alpha or beta of such a type.
double scalar_of(const void* from, int type);

}  // namespace tilewise::drop_in
