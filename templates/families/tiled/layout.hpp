// Where tiled's tiles lie in shared memory: included by its kernel and by its descriptor.
#pragma once

namespace tilewise::tiled {

// Rows of `tile` + 1 words: the words of a column lie in different banks.
constexpr int row_stride(int tile) { return tile + 1; }
constexpr int tile_elements(int tile) { return tile * row_stride(tile); }

}  // namespace tilewise::tiled
