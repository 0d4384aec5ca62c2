// The tile of a toy block: included by its kernel and by its descriptor.
#pragma once

namespace tilewise::toy {

constexpr int kThreads = 64;  // columns of C
constexpr int shared_floats(int rows) { return rows * kThreads; }

}  // namespace tilewise::toy
