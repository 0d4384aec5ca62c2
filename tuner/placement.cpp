#include "tuner/placement.hpp"

#include <algorithm>
#include <cstring>

namespace tilewise {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Elements that make one unit of the promised alignment.
std::int64_t alignment_unit(std::int64_t element_bytes, int alignment) {
  return std::max<std::int64_t>(1, alignment / element_bytes);
}

std::int64_t first_not_poison(const std::byte* from, std::int64_t bytes) {
  std::int64_t i = 0;
  for (; i + 4 <= bytes; i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, from + i, sizeof word);
    if (word != kPoison) break;
  }
  return i;
}

}  // namespace

Placement guarded_placement(std::int64_t rows, std::int64_t columns, std::int64_t element_bytes,
                            int alignment) {
  const std::int64_t unit = alignment_unit(element_bytes, alignment);
  // One unit more than the row needs, and an odd number of them: aligned as promised and no better.
  std::int64_t units = round_up(columns, unit) / unit + 1;
  if (units % 2 == 0) ++units;
  Placement placement{rows, columns, element_bytes, units * unit, 0, 0};
  const std::int64_t guard = round_up(std::max<std::int64_t>(4096, placement.row_bytes()), 256);
  placement.before = guard + unit * element_bytes;
  placement.bytes = round_up(placement.before + rows * placement.row_bytes() + guard, 256);
  return placement;
}

Placement tight_placement(std::int64_t rows, std::int64_t columns, std::int64_t element_bytes,
                          int alignment) {
  const std::int64_t unit = alignment_unit(element_bytes, alignment);
  Placement placement{rows, columns, element_bytes, round_up(columns, unit), 0, 0};
  const auto row_bytes = static_cast<std::uint64_t>(placement.row_bytes());
  if (common_alignment({row_bytes}) > alignment) placement.before = unit * element_bytes;
  placement.bytes = round_up(placement.before + rows * placement.row_bytes(), 256);
  return placement;
}

std::vector<Piece> pieces_of(const Placement& place, std::int64_t most_bytes) {
  const std::int64_t pitch = std::max<std::int64_t>(1, place.row_bytes());
  const std::int64_t rows = std::max<std::int64_t>(1, most_bytes / pitch);
  const std::int64_t end = place.before + place.rows * place.row_bytes();
  std::vector<Piece> pieces;
  if (place.before > 0) pieces.push_back({0, place.before, 0, 0});
  for (std::int64_t row = 0; row < place.rows; row += rows) {
    const std::int64_t count = std::min(rows, place.rows - row);
    pieces.push_back({place.before + row * pitch, count * pitch, row, count});
  }
  if (place.bytes > end) pieces.push_back({end, place.bytes - end, 0, 0});
  return pieces;
}

std::int64_t longest_piece(const Placement& place, std::int64_t most_bytes) {
  const std::int64_t end = place.before + place.rows * place.row_bytes();
  const std::int64_t rows = std::min(most_bytes, place.rows * place.row_bytes());
  return std::max({rows, place.row_bytes(), place.before, place.bytes - end});
}

void poison(std::byte* to, std::int64_t bytes) {
  for (std::int64_t i = 0; i + 4 <= bytes; i += 4) std::memcpy(to + i, &kPoison, sizeof kPoison);
}

GuardCheck broken_guard(const Placement& place, const Piece& piece, const std::byte* copy) {
  const auto check = [&](std::int64_t from, std::int64_t bytes) {
    const std::int64_t at = first_not_poison(copy + from, bytes);
    return GuardCheck{at + 4 <= bytes, piece.offset + from + at - place.before};
  };
  if (piece.rows == 0) return check(0, piece.bytes);
  const std::int64_t payload = place.columns * place.element_bytes, pitch = place.row_bytes();
  for (std::int64_t row = 0; row < piece.rows; ++row) {
    if (const GuardCheck gap = check(row * pitch + payload, pitch - payload); gap.found) return gap;
  }
  return {};
}

}  // namespace tilewise
