#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "device/cuda/cuda_device.hpp"
#include "device/cuda/facts.hpp"
#include "device/map_place.hpp"
#include "tilewise/error.hpp"

namespace tilewise::cuda {
namespace {

using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                                 const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                 const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                 CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

constexpr std::size_t kMaxRank = 3;

EncodeTiled entry_point(const Driver& driver) {
  static const auto encode =
      reinterpret_cast<EncodeTiled>(driver.find("cuTensorMapEncodeTiled", 12000));
  return encode;
}

EncodeTiled encoder(const Driver& driver) {
  const EncodeTiled encode = entry_point(driver);
  if (!encode) {
    throw Error(ErrorKind::unsupported, "this NVIDIA driver (CUDA " +
                                            version_text(driver.version()) +
                                            ") cannot encode tensor maps");
  }
  return encode;
}

[[noreturn]] void bad_recipe(const char* what, int value, const char* allowed) {
  throw Error(ErrorKind::invalid_argument, "tensor map with " + std::string(what) + " " +
                                               std::to_string(value) + "; allowed are " + allowed);
}

CUtensorMapDataType data_type(DType type, bool rounded) {
  switch (type) {
    case DType::f32:
      return rounded ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::f64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case DType::f16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::i8:
    case DType::e4m3:
    case DType::e5m2:
    case DType::i4:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case DType::i32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
  }
  throw Error(ErrorKind::unsupported, "no tensor map type for " + std::string(to_string(type)));
}

CUtensorMapSwizzle swizzle(int bytes) {
  switch (bytes) {
    case 0:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
    case 32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case 128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
  }
  bad_recipe("swizzle", bytes, "0, 32, 64, 128 bytes");
}

CUtensorMapL2promotion promotion(int bytes) {
  switch (bytes) {
    case 0:
      return CU_TENSOR_MAP_L2_PROMOTION_NONE;
    case 64:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
    case 128:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    case 256:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  }
  bad_recipe("L2 promotion", bytes, "0, 64, 128, 256 bytes");
}

std::string describe(const TensorMapRecipe& recipe, const void* base, const MapStrides& strides) {
  char address[32];
  std::snprintf(address, sizeof address, "%p", base);
  std::string text = "encoding a tensor map at " + std::string(address) + " with dims";
  for (const std::int64_t dim : recipe.dims) text += " " + std::to_string(dim);
  text += ", stride " + std::to_string(strides.row) + " bytes, ";
  if (recipe.dims.size() == 3) text += "batch stride " + std::to_string(strides.batch) + " bytes, ";
  if (recipe.row_classes > 1)
    text += "row class " + std::to_string(recipe.row_class) + " of " +
            std::to_string(recipe.row_classes) + ", ";
  text += "box";
  for (const std::int32_t box : recipe.box) text += " " + std::to_string(box);
  return text + " and swizzle " + std::to_string(recipe.swizzle_bytes) +
         " (address and strides must be multiples of 16 bytes, a box side at most 256)";
}

}  // namespace

bool encodes_tensor_maps(const Driver& driver) { return entry_point(driver) != nullptr; }

void CudaDevice::encode_tensor_map(const TensorMapRecipe& recipe, const void* base,
                                   const MapStrides& strides, void* map) {
  const std::size_t rank = recipe.dims.size();
  if (rank < 2 || rank > kMaxRank || recipe.box.size() != rank) {
    bad_recipe("rank", static_cast<int>(rank), "2 and 3, with a box of the same rank");
  }
  const MapPlace place = place_of(recipe, base, strides.row);
  std::array<cuuint64_t, kMaxRank> dims{};
  std::array<cuuint32_t, kMaxRank> box{};
  std::transform(recipe.dims.begin(), recipe.dims.end(), dims.begin(),
                 [](std::int64_t dim) { return static_cast<cuuint64_t>(dim); });
  std::transform(recipe.box.begin(), recipe.box.end(), box.begin(),
                 [](std::int32_t side) { return static_cast<cuuint32_t>(side); });
  box[0] = static_cast<cuuint32_t>(copied_elements(recipe.type, recipe.box[0]));
  dims[0] = static_cast<cuuint64_t>(place.columns);
  dims[1] = static_cast<cuuint64_t>(place.rows);
  if (strides.batch == 0) dims[2] = 1;
  // The driver requires the strides of all dimensions except the innermost; it refuses 0.
  const std::array<cuuint64_t, kMaxRank - 1> outer{
      static_cast<cuuint64_t>(place.stride),
      static_cast<cuuint64_t>(strides.batch == 0 ? place.stride : strides.batch)};
  constexpr std::array<cuuint32_t, kMaxRank> kEveryElement{1, 1, 1};
  // The driver needs an aligned map; the caller's argument struct may be unaligned.
  CUtensorMap encoded;
  const CurrentContext current(*context_);
  const CUresult result = encoder(driver_)(
      &encoded, data_type(recipe.type, recipe.rounded), static_cast<cuuint32_t>(rank),
      const_cast<char*>(place.base), dims.data(), outer.data(), box.data(), kEveryElement.data(),
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle(recipe.swizzle_bytes),
      promotion(recipe.l2_promotion_bytes), CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) driver_.fail(result, describe(recipe, base, strides));
  std::memcpy(map, &encoded, sizeof encoded);
}

}  // namespace tilewise::cuda
