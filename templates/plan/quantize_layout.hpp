// The blocks of the kernel quantize: included by it and by what launches it.
#pragma once

namespace tilewise {

struct QuantizeLayout {
  static constexpr int kSteps = 128;   // of a row that have one scale
  static constexpr int kTogether = 8;  // such blocks of a warp, neighbours in a row
  static constexpr int kWarps = 8;     // of a block of threads
  static constexpr int kBytes = 16;    // of a lane's neighbours in a wide copy
};

}  // namespace tilewise
