#pragma once
#if __cplusplus < 202002L
#error "Tilewise's C++ interface needs C++20 (-std=c++20); tilewise/matmul.h is C"
#endif
#include <cstdint>
#include <string>

#include "tilewise/export.h"

namespace tilewise {

/// How a product on host pointers is split into tiles of C. Each tile is a product on the device,
/// overlapped with the copies of other tiles. Bytes are totals of the whole product.
struct HostSplit {
  /// A tile has tile_m x tile_n elements of C, a depth of tile_k, and tile_batch products of the
  /// batch. Tiles at an edge are smaller.
  std::int64_t tile_m = 0, tile_n = 0, tile_k = 0, tile_batch = 0;
  std::int64_t tiles = 0;  ///< number of launches; if tile_k < k, several add up to one tile of C
  /// Device memory for the tiles of A, B and C that are held at a time and the kernels' workspace.
  std::int64_t device_bytes = 0;
  /// Page-locked host memory for copies. The Matmul keeps it for later products. 0: a small
  /// product, which the driver copies.
  std::int64_t staging_bytes = 0;
  /// Bytes copied to and from the device, including the padding of rows to 16 bytes. Data in the
  /// caller's page-locked memory may be copied without padding.
  std::int64_t bytes_up = 0, bytes_down = 0;
  /// Expected from the cost model, with copies at 50 GB/s each way; 0: not known.
  double expected_seconds = 0;
  bool operator==(const HostSplit&) const = default;
};

/// One line for people: "64 tiles of 2048x2048x16384; device 833 MiB, staging 96 MiB; up 2048 MiB,
/// down 1024 MiB; expected 177.3 ms".
TILEWISE_API std::string to_string(const HostSplit& split);
/// All fields: {"tile":[2048,2048,16384],"tile_batch":1,"tiles":64,"device_bytes":...}.
TILEWISE_API std::string to_json(const HostSplit& split);

}  // namespace tilewise
