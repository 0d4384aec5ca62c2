#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "drop_in/abi.hpp"
#include "tilewise/call.hpp"
#include "tilewise/problem.hpp"

namespace tilewise::drop_in {

/// Why a call goes to cuBLAS.
enum class Why : std::uint8_t {
  none,             ///< it does not
  off,              ///< the drop-in is off, or has failed
  arguments,        ///< an empty product, or arguments that cuBLAS may refuse
  overlap,          ///< C shares an element with A or B, or may
  types,            ///< types or arithmetic without a kernel
  precision,        ///< a mode with other results: pedantic, emulated, down-converting
  algorithm,        ///< one is asked for by its number
  scalars,          ///< alpha and beta are in device memory
  described,        ///< cublasLt: an epilogue, scales, an order, or C apart from D
  multiprocessors,  ///< the caller limits the number of multiprocessors
  capture,          ///< inside a stream capture, and not loaded, or with a workspace
  context,          ///< no CUDA context is current, or not the primary one of its device
  many,             ///< more different problems than are kept
  untuned,          ///< no record of this problem on this GPU
  unmeasured,       ///< cuBLAS was not measured beside the record
  slower,           ///< cuBLAS was faster
  unloaded,         ///< its kernel is not stored
  recording,        ///< the process only records
};
inline constexpr std::size_t kWhys = static_cast<std::size_t>(Why::recording) + 1;
/// In words, for people.
std::string_view to_string(Why why);

/// A matrix as cuBLAS has it: column-major, sizes in elements.
struct Matrix {
  const void* data = nullptr;
  int type = 0;
  std::int64_t ld = 0, stride = 0;
};

/// The arguments that all calls share. `compute` is a cublasComputeType_t, `scalar` a
/// cudaDataType_t.
struct Gemm {
  int op_a = 0, op_b = 0;
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a, b, c;
  std::int64_t batch = 1;
  int compute = 0, scalar = 0;
  bool fast_sums = false;  ///< sums of 8-bit floats need not be promoted
  const void* alpha = nullptr;
  const void* beta = nullptr;
  int algorithm = kAnyAlgorithm;  ///< a cublasGemmAlgo_t
};

struct Product {
  Problem problem;
  Call call;  ///< without scalars and stream
};

/// The same product in row-major terms, where a column-major matrix is its transpose:
/// C^T = op(B)^T op(A)^T, with A and B, m and n, and the letters of the layout swapped. `math` is
/// the handle's cublasMath_t (cublasLt: kDefaultMath). Reads no memory but the arguments. The
/// reason where no kernel of ours may answer.
Why product_of(const Gemm& gemm, int math, Product& product);

/// In row-major terms; only of operations that cuBLAS has.
Layout layout_of(const Gemm& gemm);

/// Whether a cudaDataType_t is one that alpha and beta may have.
bool is_scalar(int type);
/// alpha or beta, of such a type.
double scalar_of(const void* from, int type);

}  // namespace tilewise::drop_in
