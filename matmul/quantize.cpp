#include "matmul/quantize.hpp"

#include <string>

#include "templates/plan/quantize_layout.hpp"
#include "tilewise/epilogue.hpp"
#include "tilewise/error.hpp"
#include "tilewise/strided_array.hpp"
#include "vocabulary/problem.hpp"
#include "vocabulary/rounding.hpp"

namespace tilewise {
namespace {

static_assert(QuantizeLayout::kSteps == kScaledSteps);

[[noreturn]] void reject(const std::string& message) {
  throw Error(ErrorKind::invalid_argument, message);
}

/// A matrix of a quantization, as stored.
struct StoredRows {
  const char* name;
  const void* data;
  std::int64_t rows, columns, ld;
  DType type;

  StridedArray elements() const {
    StridedArray made;
    made.data = data;
    made.element_bytes = bytes_of(type);
    made.add(rows, ld);
    made.add(columns, 1);
    return made;
  }
};

void check_rows(const StoredRows& x) {
  if (x.ld < x.columns)
    reject("the leading dimension of " + std::string(x.name) + " is " + std::to_string(x.ld) +
           ", shorter than a row of " + std::to_string(x.columns) + " elements");
  if (!x.data) reject(std::string(x.name) + " is a null pointer, but it would be touched");
  const std::int64_t off = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(x.data) %
                                                     static_cast<std::uintptr_t>(bytes_of(x.type)));
  if (off != 0)
    reject("the address of " + std::string(x.name) + " is not a multiple of its " +
           std::to_string(bytes_of(x.type)) + "-byte elements: it is off by " +
           std::to_string(off));
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(x.rows, x.ld, &bytes) ||
      __builtin_mul_overflow(bytes, std::int64_t{bytes_of(x.type)}, &bytes))
    reject("the extent of " + std::string(x.name) +
           " passes the address space: " + std::to_string(x.rows) +
           " rows with a leading dimension of " + std::to_string(x.ld) + " elements");
}

StoredRows matrix_rows(const Quantization& q) {
  return {"the matrix", q.matrix, q.rows, q.columns, q.ld, q.from};
}
StoredRows numbers_rows(const Quantization& q) {
  return {"numbers", q.numbers, q.rows, q.columns, q.ld_numbers, q.to};
}
StoredRows scales_rows(const Quantization& q) {
  const std::int64_t blocks = ceil_div(q.columns, kScaledSteps);
  return {"scales",    q.scales,  q.k_first ? blocks : q.rows, q.k_first ? q.rows : blocks,
          q.ld_scales, DType::f32};
}

}  // namespace

void check_quantization(const Quantization& q) {
  if (q.from != DType::f32 && q.from != DType::f16 && q.from != DType::bf16)
    reject("a matrix of " + std::string(to_string(q.from)) +
           " is not quantized; allowed are f32, f16 and bf16");
  if (!is_fp8(q.to))
    reject("numbers of " + std::string(to_string(q.to)) +
           " have no scales of 128 steps; allowed are "
           "e4m3 and e5m2");
  if (q.rows < 0 || q.columns < 0)
    reject("sizes must not be negative, not " + std::to_string(q.rows) + " x " +
           std::to_string(q.columns));
  if (q.rows == 0 || q.columns == 0) return;
  const StoredRows all[] = {matrix_rows(q), numbers_rows(q), scales_rows(q)};
  for (const StoredRows& one : all) check_rows(one);
  for (int i = 0; i < 3; ++i)
    for (int j = i + 1; j < 3; ++j)
      if (share_elements(all[i].elements(), all[j].elements()))
        reject(std::string(all[j].name) + " may share memory with " + all[i].name);
}

QuantizeLaunch quantize_launch(const Quantization& q) {
  using Block = QuantizeLayout;
  const std::int64_t each = Block::kBytes / bytes_of(q.from);  // elements of a wide copy
  const auto aligned = [each](const void* data, std::int64_t ld, DType type) {
    return ld % each == 0 && reinterpret_cast<std::uintptr_t>(data) %
                                     static_cast<std::uintptr_t>(each * bytes_of(type)) ==
                                 0;
  };
  const bool vector = aligned(q.matrix, q.ld, q.from) && aligned(q.numbers, q.ld_numbers, q.to);
  const std::size_t from = q.from == DType::f32 ? 0 : (q.from == DType::f16 ? 1 : 2);
  QuantizeLaunch made;
  made.vector = vector;
  made.number = (from * 2 + (q.to == DType::e4m3 ? 0 : 1)) * 2 + (vector ? 1 : 0);
  made.arguments = {q.matrix,
                    q.ld,
                    q.numbers,
                    q.ld_numbers,
                    q.scales,
                    q.k_first ? 1 : q.ld_scales,
                    q.k_first ? q.ld_scales : 1,
                    q.rows,
                    q.columns,
                    0};
  // The split with the fewest blocks has the fewest idle warps. Of equal ones the last has the
  // longest stretches of a row.
  const std::int64_t parts = ceil_div(q.columns, std::int64_t{Block::kTogether} * Block::kSteps);
  std::int64_t across = 0, down = 0;
  for (int split = 0; 1 << split <= Block::kWarps; ++split) {
    const std::int64_t x = ceil_div(parts, std::int64_t{1} << split);
    const std::int64_t y = ceil_div(q.rows, std::int64_t{Block::kWarps >> split});
    if (split != 0 && x * y > across * down) continue;
    made.arguments.split = split, across = x, down = y;
  }
  // A block goes on with further rows. No memory holds a row of 2^31 parts.
  constexpr std::int64_t most = 65535;
  made.shape.grid.x = static_cast<std::uint32_t>(across);
  made.shape.grid.y = static_cast<std::uint32_t>(ceil_div(down, ceil_div(down, most)));
  made.shape.block.x = 32 * Block::kWarps;
  return made;
}

KernelSpec quantize_kernel(const Quantization& q, const QuantizeLaunch& launch) {
  return {"quantize.cu",
          "quantize",
          {{"ELEMENT", static_cast<int>(q.from)},
           {"RESULT", static_cast<int>(q.to)},
           {"VECTOR", launch.vector ? 1 : 0}}};
}

}  // namespace tilewise
