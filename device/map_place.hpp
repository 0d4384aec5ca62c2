#pragma once
#include <cstdint>

#include "vocabulary/plan.hpp"

namespace tilewise {

/// The elements of a map for so many of a matrix: TMA copies those of less than a byte as bytes.
inline std::int64_t copied_elements(DType type, std::int64_t elements) {
  return bytes_of(type, elements) / bytes_of(type);
}

/// The place of a tensor map's matrix for a given base and stride.
struct MapPlace {
  const char* base;         ///< of the first row; for a row class rounded down to 16 bytes
  std::int64_t stride;      ///< bytes between rows
  std::int64_t columns;     ///< copied_elements(), including those before the row
  std::int64_t rows;        ///< in the row class
  std::int64_t before_row;  ///< elements added by the rounding; their values are unused
};

/// `stride_bytes`: bytes between neighbouring rows of the whole matrix.
inline MapPlace place_of(const TensorMapRecipe& recipe, const void* base,
                         std::int64_t stride_bytes) {
  const char* first = static_cast<const char*>(base) + recipe.row_class * stride_bytes;
  const auto early = recipe.row_classes > 1
                         ? static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(first) % 16)
                         : 0;
  const std::int64_t before = early / bytes_of(recipe.type);
  const std::int64_t after_first = recipe.dims[1] - 1 - recipe.row_class;
  return {first - early, stride_bytes * recipe.row_classes,
          copied_elements(recipe.type, recipe.dims[0]) + before,
          after_first < 0 ? 0 : after_first / recipe.row_classes + 1, before};
}

}  // namespace tilewise
