#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "matmul/executable.hpp"
#include "tilewise/problem.hpp"

namespace tilewise::check {

/// One problem's operands as stored, each in a buffer that ends with its last element: reading or
/// writing past it is what an address sanitizer sees. What lies between rows is NaN in A and B and
/// a canary in C.
class Operands {
 public:
  /// `padding`: how many aligned units a row is longer than it must be.
  Operands(const Problem& problem, int padding, std::uint64_t seed);

  /// Multiplies on a device, and by reference_multiply. Empty when every element of C is equal and
  /// everything else is untouched.
  std::string difference(Device& device, const Executable& executable, double alpha, double beta);

 private:
  struct Matrix {
    std::int64_t rows = 0, columns = 0, ld = 0, offset = 0;
    std::vector<float> data;
    std::int64_t bytes() const { return static_cast<std::int64_t>(data.size() * sizeof(float)); }
    float* first() { return data.data() + offset; }
  };
  Matrix make(std::int64_t rows, std::int64_t columns, int alignment, int padding, float between,
              std::uint64_t seed);

  Problem problem_;
  Matrix a_, b_, c_;
};

}  // namespace tilewise::check
