#include <algorithm>
#include <cstring>

#include "device/cpu/cpu_device.hpp"
#include "device/cpu/image_api.hpp"
#include "device/map_place.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cpu {
namespace {

using tilewise_host::TensorMapData;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::invalid_argument, "encoding a tensor map with " + what);
}

/// Refuses boxes that a GPU's driver refuses, so that a wrong plan fails on every device.
void check_box(const TensorMapRecipe& recipe) {
  const std::size_t rank = recipe.dims.size();
  if ((rank != 2 && rank != 3) || recipe.box.size() != rank)
    refuse("rank " + std::to_string(rank) + " and a box of rank " +
           std::to_string(recipe.box.size()) + "; allowed are 2 and 3, both the same");
  for (const std::int32_t side : recipe.box)
    if (side < 1 || side > 256)
      refuse("a box side of " + std::to_string(side) + "; allowed are 1 to 256");
  const std::int64_t line = bytes_of(recipe.type, recipe.box.front());
  if (line % 16 != 0)
    refuse("a box of " + std::to_string(line) + " bytes a row; it must be a multiple of 16");
  const int swizzle = recipe.swizzle_bytes;
  if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128)
    refuse("a swizzle of " + std::to_string(swizzle) + " bytes; allowed are 0, 32, 64, 128");
  // The driver also accepts narrower boxes; no kernel here relies on their layout.
  if (swizzle != 0 && line != swizzle)
    refuse("a swizzle of " + std::to_string(swizzle) + " bytes and a box of " +
           std::to_string(line) + " bytes a row; the CPU executor requires them equal");
}

/// `batch`: bytes between matrices.
void check_matrix(const TensorMapRecipe& recipe, const MapPlace& place, std::int64_t batch) {
  for (const std::int64_t dim :
       {place.columns, place.rows, recipe.dims.size() == 3 ? recipe.dims[2] : std::int64_t{1}})
    if (dim < 1 || dim > std::int64_t{1} << 32)
      refuse("a dimension of " + std::to_string(dim) + "; allowed are 1 to 2^32");
  if (reinterpret_cast<std::uintptr_t>(place.base) % 16 != 0)
    refuse("an address that is no multiple of 16 bytes");
  for (const std::int64_t stride : {place.stride, batch})
    if (stride % 16 != 0 || stride < 0 || stride >= std::int64_t{1} << 40)
      refuse("a stride of " + std::to_string(stride) +
             " bytes; it must be a multiple of 16 below 2^40");
}

}  // namespace

void CpuDevice::encode_tensor_map(const TensorMapRecipe& recipe, const void* base,
                                  const MapStrides& strides, void* map) {
  check_box(recipe);
  const MapPlace place = place_of(recipe, base, strides.row);
  check_matrix(recipe, place, strides.batch);
  TensorMapData data{};
  data.mark = tilewise_host::kTensorMapMark;
  data.rank = static_cast<int>(recipe.dims.size());
  data.element_bytes = bytes_of(recipe.type);
  data.swizzle_bytes = recipe.swizzle_bytes;
  data.rounded = recipe.rounded;
  data.base = place.base;
  std::copy(recipe.dims.begin(), recipe.dims.end(), data.dims);
  data.dims[0] = place.columns;
  data.dims[1] = place.rows;
  if (strides.batch == 0 || data.rank == 2) data.dims[2] = 1;
  data.unread = place.before_row;
  std::copy(recipe.box.begin(), recipe.box.end(), data.box);
  data.box[0] = static_cast<int>(copied_elements(recipe.type, recipe.box[0]));
  data.stride = place.stride;
  data.batch = strides.batch;
  std::memset(map, 0, 128);
  std::memcpy(map, &data, sizeof data);
}

}  // namespace tilewise::cpu
