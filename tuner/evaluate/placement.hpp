#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "tilewise/problem.hpp"

namespace tilewise {

/// The canary as a 32-bit word. It fills C, guard zones, gaps between rows and matrices, and the
/// surroundings of inputs. In every floating-point type of that size it is a NaN that arithmetic
/// does not produce. A kernel that reads it gives a wrong result; a kernel that overwrites it is
/// detected.
constexpr std::uint32_t canary_word(std::int64_t element_bytes) {
  return element_bytes == 1 ? 0xFFFFFFFFU : 0x7FFD7FFDU;
}

/// The layout of a batch's matrices in a 256-byte aligned allocation: `before` bytes, then matrices
/// `stride` elements apart with rows `ld` elements apart, then a guard zone up to `bytes`. Rows are
/// counted through the batch: row i of matrix b is b rows + i.
struct Placement {
  std::int64_t rows = 0, columns = 0, element_bytes = 4;
  std::int64_t batch = 1;
  std::int64_t ld = 0, stride = 0;  ///< elements
  std::int64_t before = 0;          ///< bytes
  std::int64_t bytes = 0;           ///< the whole allocation
  int per_element = 1;              ///< numbers in an element: of i4 an element is a byte of two
  std::int64_t row_bytes() const { return ld * element_bytes; }
  std::int64_t all_rows() const { return rows * batch; }
  /// Bytes from the first row to `row`; for all_rows(): to the end of the last matrix.
  std::int64_t offset_of(std::int64_t row) const {
    if (row == all_rows()) return extent();
    return (row / rows * stride + row % rows * ld) * element_bytes;
  }
  /// Bytes from the first row to the end of the last.
  std::int64_t extent() const {
    return batch > 0 ? ((batch - 1) * stride + rows * ld) * element_bytes : 0;
  }
};

/// For validation: address, leading dimension and stride have exactly the promised alignment; rows
/// are longer than needed; at least a row lies between matrices; guard zones at both ends have at
/// least 4 KB and one row.
Placement guarded_placement(std::int64_t rows, std::int64_t columns, std::int64_t element_bytes,
                            int alignment, std::int64_t batch = 1);
/// For timing: as tight as the promised alignment allows, without guards.
Placement tight_placement(std::int64_t rows, std::int64_t columns, std::int64_t element_bytes,
                          int alignment, std::int64_t batch = 1);

/// The same of an operand of a problem.
Placement guarded_placement(std::int64_t rows, std::int64_t columns, const Operand& operand,
                            std::int64_t batch);
Placement tight_placement(std::int64_t rows, std::int64_t columns, const Operand& operand,
                          std::int64_t batch);

/// A matrix in device memory.
class DeviceMatrix {
 public:
  DeviceMatrix() = default;
  DeviceMatrix(Device& device, const Placement& placement)
      : buffer_(device, placement.bytes), placement_(placement) {}
  const Placement& placement() const { return placement_; }
  void* allocation() const { return buffer_.data(); }
  void* data() const { return static_cast<std::byte*>(buffer_.data()) + placement_.before; }

 private:
  DeviceBuffer buffer_;
  Placement placement_;
};

/// A call on matrices, by their placements.
Call call_on(const DeviceMatrix& a, const DeviceMatrix& b, const DeviceMatrix& c, Stream stream);

/// A contiguous part of a placement: rows with the gaps after them, or a guard zone at one end.
struct Piece {
  std::int64_t offset = 0, bytes = 0;    ///< in the allocation
  std::int64_t first_row = 0, rows = 0;  ///< no rows: a guard zone
};
/// The pieces of a placement in order. A piece has at most `most_bytes`, unless a single row with
/// its gap, or a guard zone, is longer.
std::vector<Piece> pieces_of(const Placement& placement, std::int64_t most_bytes);
/// An upper bound of the pieces' lengths in bytes, for the size of a buffer.
std::int64_t longest_piece(const Placement& placement, std::int64_t most_bytes);

/// Fills with the canary for elements of `element_bytes`.
void fill_canary(std::byte* to, std::int64_t bytes, std::int64_t element_bytes);

/// The result of broken_guard() for a host copy of a piece: the offset in bytes from the matrix's
/// first byte to the first overwritten canary (guard zones, gaps between rows and matrices).
/// `found` is false when all are intact.
struct GuardCheck {
  bool found = false;
  std::int64_t offset = 0;
};
GuardCheck broken_guard(const Placement& placement, const Piece& piece, const std::byte* copy);

}  // namespace tilewise
