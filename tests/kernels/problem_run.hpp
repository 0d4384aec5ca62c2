#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "matmul/executable.hpp"
#include "tilewise/problem.hpp"

namespace tilewise::check {

/// What elements of A and B say of where they come from; see device/host/mma_on_cpu.hpp.
enum class Tag : int { none = 0, k = 1, line = 2 };

/// The first element of C's buffer that is not what it should be.
struct Difference {
  std::size_t index = 0;  ///< in the buffer
  std::string text;       ///< "C[3][5] is 7 instead of 9"
};

/// One problem's operands as stored, each in a buffer that ends with its last element: reading or
/// writing past it is what an address sanitizer sees. What lies between rows is NaN in A and B and
/// a canary in C.
class Operands {
 public:
  /// `padding`: how many aligned units a row is longer than it must be.
  Operands(const Problem& problem, int padding, std::uint64_t seed, Tag tag = Tag::none);

  /// Multiplies on a device, and by reference_multiply. Empty when every element of C is equal and
  /// everything else is untouched.
  std::optional<Difference> difference(Device& device, const Executable& executable, double alpha,
                                       double beta);

  /// Multiplies once more and lets a thread sanitizer report every write to one element of C's
  /// buffer, as a race with a thread that has nothing to do with the kernel's. Nothing in an
  /// executable without it.
  void watch(Device& device, const Executable& executable, double alpha, double beta,
             std::size_t index);

 private:
  struct Matrix {
    std::int64_t rows = 0, columns = 0, ld = 0, offset = 0;
    std::vector<float> data;
    std::int64_t bytes() const { return static_cast<std::int64_t>(data.size() * sizeof(float)); }
    float* first() { return data.data() + offset; }
  };
  struct OnDevice {
    DeviceBuffer a, b, c;
  };
  Matrix make(std::int64_t rows, std::int64_t columns, int alignment, int padding, float between,
              std::uint64_t seed);
  void tag(Tag tag);
  OnDevice upload(Device& device) const;
  Call call(const OnDevice& on, double alpha, double beta) const;

  Problem problem_;
  Matrix a_, b_, c_;
};

}  // namespace tilewise::check
