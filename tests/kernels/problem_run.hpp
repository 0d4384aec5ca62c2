#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "matmul/executable.hpp"
#include "tilewise/problem.hpp"

namespace tilewise::check {

/// What elements of A and B are. `whole`: small whole numbers, which every type holds and whose
/// products and sums are exact. `special`: some of them are NaN or infinite, where the type has
/// that. The others say where they come from; see device/host/mma_on_cpu.hpp.
enum class Values : int { whole = 0, tagged_k = 1, tagged_line = 2, special = 3 };

/// One product of a case.
struct Round {
  int padding = 0;  ///< how many aligned units a row, and a matrix, is longer than it must be
  double alpha = 1, beta = 0;  ///< such that alpha A B + beta C is exact in the accumulator's type
  Values values = Values::whole;
};

/// The first element of C's buffer that is not what it should be.
struct Difference {
  std::size_t index = 0;  ///< of its first byte in the buffer
  std::string text;       ///< "C[3][5] is 7 instead of 9"
};

/// One problem's operands as stored, each in a buffer that ends with its last element: reading or
/// writing past it is what an address sanitizer sees. What lies between rows and between the
/// matrices of a batch is NaN in A and B and a canary in C. C is NaN too where beta is 0.
class Operands {
 public:
  Operands(const Problem& problem, const Round& round, std::uint64_t seed);

  /// Multiplies on a device, and by definition in f64. Empty when every element of C is equal
  /// (NaN where NaN is expected) and everything else is untouched.
  std::optional<Difference> difference(Device& device, const Executable& executable);

  /// Multiplies once more and lets a thread sanitizer report every write to one byte of C's
  /// buffer, as a race with a thread that has nothing to do with the kernel's. Nothing in an
  /// executable without it.
  void watch(Device& device, const Executable& executable, std::size_t index);

 private:
  struct Matrix {
    DType type = DType::f32;
    std::int64_t rows = 0, columns = 0, ld = 0, stride = 0, offset = 0;
    std::vector<std::byte> data;
    std::int64_t bytes() const { return static_cast<std::int64_t>(data.size()); }
    std::int64_t byte_of(std::int64_t batch, std::int64_t row, std::int64_t column) const {
      return (offset + batch * stride + row * ld + column) * bytes_of(type);
    }
    std::byte* at(std::int64_t batch, std::int64_t row, std::int64_t column) {
      return data.data() + byte_of(batch, row, column);
    }
  };
  struct OnDevice {
    DeviceBuffer a, b, c;
  };
  class PoisonedGaps;

  Matrix make(DType type, std::int64_t rows, std::int64_t columns, int alignment,
              std::byte between) const;
  void fill(Matrix& matrix, std::uint64_t seed) const;
  void make_special(Matrix& matrix, std::uint64_t seed) const;
  void tag();
  std::vector<double> as_numbers(Matrix& matrix, std::int64_t batch, bool turn) const;
  void multiply_by_definition(Matrix& c);
  std::string element_at(std::int64_t byte) const;
  OnDevice upload(Device& device) const;
  Call call(const OnDevice& on) const;

  Problem problem_;
  Round round_;
  Matrix a_, b_, c_;
};

}  // namespace tilewise::check
