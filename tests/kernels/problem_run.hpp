#pragma once
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "matmul/executable.hpp"
#include "tilewise/problem.hpp"

namespace tilewise::check {

/// The elements of A and B. `whole`: small whole numbers, which every type holds, with exact
/// products and sums. `special`: some are NaN or infinite, if the type has these. `tagged_...`:
/// values encode their positions; see device/cpu/mma_on_cpu.hpp. `fractions_a`, `fractions_b`:
/// elements of A (B) have more bits than tf32, including ties; the product is that of operands
/// rounded to tf32, to nearest and ties to even. `steep`: products are 4096 times as large in the
/// first kPromotedEvery of k, if k is longer; sums with 14 bits of both are wrong.
///
/// For emulated products, whose results are within their bound (docs/emulation.md), or within that
/// of native ones where these run: `alike`, numbers of as many bits as the type has, for which the
/// native one must not run; `spread`, with exponents over 2^20; `opposed`, where large numbers of A
/// meet small ones of B; `extreme`, with rows of zeros, of very large and very small numbers.
enum class Values : int {
  whole = 0,
  tagged_k = 1,
  tagged_line = 2,
  special = 3,
  fractions_a = 4,
  fractions_b = 5,
  steep = 6,
  alike = 7,
  spread = 8,
  opposed = 9,
  extreme = 10
};
inline bool is_inexact(Values values) { return values >= Values::alike; }
inline constexpr std::int64_t kPromotedEvery = 128;  ///< upper limit of k (8-bit floats)

/// One product of a case.
struct Round {
  int padding = 0;             ///< aligned units added to the length of a row and of a matrix
  double alpha = 1, beta = 0;  ///< alpha A B + beta C must be exact in the accumulator's type
  Values values = Values::whole;
  bool same_a = false, same_b = false;  ///< one matrix for all products of a batch: a stride of 0
};

/// The first wrong element of C's buffer, or of what an epilogue writes besides C.
struct Difference {
  std::size_t index = 0;  ///< index of its first byte in the buffer
  std::string text;       ///< "C[3][5] is 7 instead of 9"
  bool in_c = true;
};

/// Locked while threads use a shared device.
std::mutex& gpu_mutex();

/// The operands of one problem as stored, those of its epilogue too. Each is in a buffer that ends
/// with its last element, so that AddressSanitizer reports accesses past it. Gaps between rows and
/// between the matrices of a batch are NaN in A and B, and a canary in C. C is NaN if beta is 0.
class Operands {
 public:
  Operands(const Problem& problem, const Round& round, std::uint64_t seed);

  /// Multiplies on a device, and by definition in f64. Empty if every element of C is equal (NaN if
  /// NaN is expected) and all other bytes are unchanged.
  std::optional<Difference> difference(Device& device, const Executable& executable);

  /// Multiplies again while ThreadSanitizer reports every write to one byte of C's buffer as a
  /// race. Does nothing without ThreadSanitizer.
  void watch(Device& device, const Executable& executable, std::size_t index);

 private:
  struct Matrix {
    DType type = DType::f32;
    std::int64_t rows = 0, columns = 0, matrices = 1, ld = 0, stride = 0, offset = 0;
    std::vector<std::byte> data;
    std::int64_t bytes() const { return static_cast<std::int64_t>(data.size()); }
    std::int64_t index_of(std::int64_t batch, std::int64_t row, std::int64_t column) const {
      return offset + batch * stride + row * ld + column;
    }
    /// The byte in which an element begins.
    std::int64_t byte_of(std::int64_t batch, std::int64_t row, std::int64_t column) const {
      return index_of(batch, row, column) * bits_of(type) / 8;
    }
    /// The byte behind a row's elements.
    std::int64_t end_of(std::int64_t batch, std::int64_t row) const {
      return bytes_of(type, index_of(batch, row, columns));
    }
    std::byte* at(std::int64_t batch, std::int64_t row, std::int64_t column) {
      return data.data() + byte_of(batch, row, column);
    }
    double number(std::int64_t batch, std::int64_t row, std::int64_t column);
    void set(std::int64_t batch, std::int64_t row, std::int64_t column, double value);
  };
  struct OnDevice {
    DeviceBuffer a, b, c;
    std::vector<DeviceBuffer> operands;
    std::vector<EpilogueOperand> bound;
    DeviceBuffer pointers_a, pointers_b, pointers_c;  ///< for a batch by pointers
    DeviceBuffer group_rows;                          ///< for a grouped problem
  };
  class PoisonedGaps;

  Matrix make(DType type, std::int64_t rows, std::int64_t columns, int alignment, std::byte between,
              std::int64_t matrices) const;
  void fill(Matrix& matrix, std::uint64_t seed) const;
  void fill_zero_points(Matrix& matrix, std::uint64_t seed) const;
  void make_fractions(Matrix& matrix, std::uint64_t seed) const;
  void make_steep(Matrix& matrix, bool k_is_row) const;
  void make_special(Matrix& matrix, std::uint64_t seed) const;
  void make_inexact(Matrix& matrix, bool of_a, std::uint64_t seed) const;
  std::optional<Difference> inexact_difference(Matrix& got, std::optional<bool> native);
  void tag();
  std::vector<double> as_numbers(Matrix& matrix, std::int64_t batch, bool transpose) const;
  void add_operands(std::uint64_t seed);
  void add_groups(std::uint64_t seed);
  void multiply_by_definition(Matrix& c, std::vector<Matrix>& operands);
  double product_of(double a, double b, std::int64_t batch, std::int64_t i, std::int64_t j,
                    std::int64_t k);
  double epilogue_of(double acc, std::int64_t batch, std::int64_t i, std::int64_t j,
                     std::vector<Matrix>& operands, std::vector<std::vector<double>>& sums);
  std::optional<Difference> difference(const Matrix& got, const Matrix& expected,
                                       const std::string& name) const;
  static std::string element_at(const Matrix& matrix, const std::string& name, std::int64_t batch,
                                std::int64_t byte);
  OnDevice upload(Device& device) const;
  DeviceBuffer pointers_to(Device& device, const Matrix& matrix, const DeviceBuffer& data) const;
  Call call(const OnDevice& on) const;

  Problem problem_;
  Round round_;
  Matrix a_, b_, c_;
  std::vector<Matrix> operands_;  ///< of the epilogue, by slot
  std::vector<std::int32_t> group_rows_;
};

}  // namespace tilewise::check
