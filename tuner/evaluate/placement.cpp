#include "tuner/evaluate/placement.hpp"

#include "vocabulary/problem.hpp"

#include <algorithm>
#include <cstring>

#include "vocabulary/rounding.hpp"

namespace tilewise {
namespace {

// Elements per unit of the promised alignment, at least 1.
std::int64_t alignment_unit(std::int64_t element_bytes, int alignment) {
  return std::max<std::int64_t>(1, alignment / element_bytes);
}

// The offset in bytes of the first element that differs from the canary, in a range that begins and
// ends at element boundaries; `bytes` when there is none.
std::int64_t first_not_canary(const std::byte* from, std::int64_t bytes,
                              std::int64_t element_bytes) {
  const std::uint64_t word = canary_word(element_bytes) * 0x100000001U;
  std::int64_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    if (std::memcmp(from + i, &word, 8) != 0) break;
  }
  const std::int64_t step = std::min<std::int64_t>(4, element_bytes);
  for (; i < bytes; i += step) {
    if (std::memcmp(from + i, &word, static_cast<std::size_t>(step)) != 0) break;
  }
  return i;
}

void set_bytes(Placement& placement, std::int64_t guard) {
  placement.bytes = round_up(placement.before + placement.extent() + guard, 256);
}

}  // namespace

Placement guarded_placement(std::int64_t rows, std::int64_t columns, std::int64_t element_bytes,
                            int alignment, std::int64_t batch) {
  const std::int64_t unit = alignment_unit(element_bytes, alignment);
  // At least one unit more than the row needs, and an odd number of units: rows have exactly the
  // promised alignment.
  const std::int64_t units = (round_up(columns, unit) / unit + 1) | 1;
  // The same for matrices: at least a row more, and an odd number of units.
  const std::int64_t stride_units = ((rows + 1) * units) | 1;
  Placement placement{rows, columns, element_bytes, batch, units * unit, stride_units * unit, 0, 0};
  const std::int64_t guard = round_up(std::max<std::int64_t>(4096, placement.row_bytes()), 256);
  placement.before = guard + unit * element_bytes;
  set_bytes(placement, guard);
  return placement;
}

Placement tight_placement(std::int64_t rows, std::int64_t columns, std::int64_t element_bytes,
                          int alignment, std::int64_t batch) {
  const std::int64_t unit = alignment_unit(element_bytes, alignment);
  const std::int64_t ld = round_up(columns, unit);
  Placement placement{rows, columns, element_bytes, batch, ld, rows * ld, 0, 0};
  const auto row_bytes = static_cast<std::uint64_t>(placement.row_bytes());
  if (common_alignment({row_bytes}) > alignment) placement.before = unit * element_bytes;
  set_bytes(placement, 0);
  return placement;
}

namespace {
template <class Place>
Placement placement_of(const Place& place, std::int64_t rows, std::int64_t columns,
                       const Operand& operand, std::int64_t batch) {
  const int per_element = 8 * bytes_of(operand.type) / bits_of(operand.type);
  Placement made = place(rows, ceil_div(columns, std::int64_t{per_element}), bytes_of(operand.type),
                         operand.alignment, batch);
  made.per_element = per_element;
  return made;
}
}  // namespace

Placement guarded_placement(std::int64_t rows, std::int64_t columns, const Operand& operand,
                            std::int64_t batch) {
  const auto place = [](auto... x) { return guarded_placement(x...); };
  return placement_of(place, rows, columns, operand, batch);
}

Placement tight_placement(std::int64_t rows, std::int64_t columns, const Operand& operand,
                          std::int64_t batch) {
  const auto place = [](auto... x) { return tight_placement(x...); };
  return placement_of(place, rows, columns, operand, batch);
}

Call call_on(const DeviceMatrix& a, const DeviceMatrix& b, const DeviceMatrix& c, Stream stream) {
  Call call;
  const auto ld = [](const Placement& place) { return place.ld * place.per_element; };
  const auto stride = [](const Placement& place) { return place.stride * place.per_element; };
  call.a = a.data(), call.b = b.data(), call.c = c.data();
  call.lda = ld(a.placement()), call.ldb = ld(b.placement()), call.ldc = ld(c.placement());
  call.stride_a = stride(a.placement()), call.stride_b = stride(b.placement());
  call.stride_c = stride(c.placement());
  call.stream = stream;
  return call;
}

std::vector<Piece> pieces_of(const Placement& place, std::int64_t most_bytes) {
  const std::int64_t end = place.before + place.extent(), all = place.all_rows();
  std::vector<Piece> pieces;
  if (place.before > 0) pieces.push_back({0, place.before, 0, 0});
  for (std::int64_t row = 0; row < all;) {
    // Whole matrices where they fit, otherwise as many rows of one matrix as fit.
    const std::int64_t stride_bytes = std::max<std::int64_t>(1, place.stride * place.element_bytes);
    const std::int64_t matrices = row % place.rows == 0 ? most_bytes / stride_bytes : 0;
    const std::int64_t pitch = std::max<std::int64_t>(1, place.row_bytes());
    std::int64_t next = row + std::max<std::int64_t>(1, most_bytes / pitch);
    next = matrices > 0 ? row + matrices * place.rows
                        : std::min(next, (row / place.rows + 1) * place.rows);
    next = std::min(next, all);
    const std::int64_t from = place.offset_of(row);
    pieces.push_back({place.before + from, place.offset_of(next) - from, row, next - row});
    row = next;
  }
  if (place.bytes > end) pieces.push_back({end, place.bytes - end, 0, 0});
  return pieces;
}

std::int64_t longest_piece(const Placement& place, std::int64_t most_bytes) {
  const std::int64_t end = place.before + place.extent();
  // The rows of a piece, and the gap between the last one and the next matrix.
  const std::int64_t gap =
      place.batch > 1 ? (place.stride - place.rows * place.ld) * place.element_bytes : 0;
  const std::int64_t rows = std::min(std::max(most_bytes, place.row_bytes()), place.extent());
  return std::max({rows + gap, place.row_bytes(), place.before, place.bytes - end});
}

void fill_canary(std::byte* to, std::int64_t bytes, std::int64_t element_bytes) {
  const std::uint64_t word = canary_word(element_bytes) * 0x100000001U;
  std::int64_t i = 0;
  for (; i + 8 <= bytes; i += 8) std::memcpy(to + i, &word, 8);
  std::memcpy(to + i, &word, static_cast<std::size_t>(bytes - i));
}

GuardCheck broken_guard(const Placement& place, const Piece& piece, const std::byte* copy) {
  const auto check = [&](std::int64_t from, std::int64_t bytes) {
    const std::int64_t at = first_not_canary(copy + from, bytes, place.element_bytes);
    return GuardCheck{at < bytes, piece.offset + from + at - place.before};
  };
  if (piece.rows == 0) return check(0, piece.bytes);
  const std::int64_t payload = place.columns * place.element_bytes;
  const std::int64_t base = place.offset_of(piece.first_row);
  for (std::int64_t row = piece.first_row; row < piece.first_row + piece.rows; ++row) {
    const std::int64_t gap = place.offset_of(row) - base + payload;
    const std::int64_t end = place.offset_of(row + 1) - base;
    if (const GuardCheck broken = check(gap, end - gap); broken.found) return broken;
  }
  return {};
}

}  // namespace tilewise
