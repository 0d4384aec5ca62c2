// Where tiled's tiles lie in shared memory: included by its kernel and by its descriptor.
#pragma once

namespace tilewise::tiled {

// A row of `tile` + 1 words puts a column in as many banks.
constexpr int row_stride(int tile) { return tile + 1; }
constexpr int tile_elements(int tile) { return tile * row_stride(tile); }

}  // namespace tilewise::tiled
