#include "tuner/placement.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "tilewise/problem.hpp"
#include "tuner/reference/parallel.hpp"

namespace tilewise {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Elements that make one unit of the promised alignment.
std::int64_t alignment_unit(std::int64_t element_bytes, int alignment) {
  return std::max<std::int64_t>(1, alignment / element_bytes);
}

bool is_poison(const std::byte* from, std::int64_t bytes) {
  for (std::int64_t i = 0; i + 4 <= bytes; i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, from + i, sizeof word);
    if (word != kPoison) return false;
  }
  return true;
}

std::int64_t first_not_poison(const std::byte* from, std::int64_t bytes) {
  std::int64_t i = 0;
  while (i + 4 <= bytes && is_poison(from + i, 4)) i += 4;
  return i;
}

void poison(std::byte* to, std::int64_t bytes) {
  for (std::int64_t i = 0; i + 4 <= bytes; i += 4) std::memcpy(to + i, &kPoison, sizeof kPoison);
}

// Calls visit(first row, rows) for as many rows at a time as staging holds.
template <typename Visit>
void for_row_chunks(const Placement& placement, const HostBuffer& staging, const Visit& visit) {
  const std::int64_t chunk =
      std::max<std::int64_t>(1, staging.bytes() / std::max<std::int64_t>(1, placement.row_bytes()));
  for (std::int64_t row = 0; row < placement.rows; row += chunk) {
    visit(row, std::min(chunk, placement.rows - row));
  }
}

constexpr std::int64_t kRowsPerTask = 64;

// Runs visit(row) for rows 0 .. count-1 on all cores.
template <typename Visit>
void for_rows(std::int64_t count, const Visit& visit) {
  parallel_for((count + kRowsPerTask - 1) / kRowsPerTask, 0, [&](std::int64_t task, int) {
    const std::int64_t end = std::min(count, (task + 1) * kRowsPerTask);
    for (std::int64_t row = task * kRowsPerTask; row < end; ++row) visit(row);
  });
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

std::int64_t staging_bytes_for(const Placement& placement) {
  return std::min(placement.bytes, std::max<std::int64_t>(placement.row_bytes(), 16 << 20));
}

void upload(Device& device, Stream stream, const HostBuffer& staging, const DeviceMatrix& to,
            std::span<const std::byte> values) {
  const Placement& place = to.placement();
  const std::int64_t payload = place.columns * place.element_bytes, pitch = place.row_bytes();
  device.fill32(to.allocation(), kPoison, place.bytes / 4, stream);
  for_row_chunks(place, staging, [&](std::int64_t first, std::int64_t rows) {
    for_rows(rows, [&](std::int64_t row) {
      std::byte* line = staging.data() + row * pitch;
      std::memcpy(line, values.data() + (first + row) * payload, static_cast<std::size_t>(payload));
      poison(line + payload, pitch - payload);
    });
    device.copy_to_device(static_cast<std::byte*>(to.data()) + first * pitch, staging.data(),
                          rows * pitch, stream);
    device.synchronize(stream);  // before staging is filled again
  });
}

bool unchanged(Device& device, Stream stream, const HostBuffer& staging, const DeviceMatrix& matrix,
               std::span<const std::byte> values) {
  const Placement& place = matrix.placement();
  const std::int64_t payload = place.columns * place.element_bytes, pitch = place.row_bytes();
  std::atomic<bool> same{true};
  for_row_chunks(place, staging, [&](std::int64_t first, std::int64_t rows) {
    device.copy_to_host(staging.data(), static_cast<std::byte*>(matrix.data()) + first * pitch,
                        rows * pitch, stream);
    device.synchronize(stream);
    for_rows(rows, [&](std::int64_t row) {
      const std::byte* line = staging.data() + row * pitch;
      if (std::memcmp(line, values.data() + (first + row) * payload,
                      static_cast<std::size_t>(payload)) != 0 ||
          !is_poison(line + payload, pitch - payload)) {
        same = false;
      }
    });
  });
  return same;
}

GuardCheck broken_guard(const Placement& place, const std::byte* copy) {
  const std::int64_t payload = place.columns * place.element_bytes, pitch = place.row_bytes();
  const auto check = [&](std::int64_t from, std::int64_t bytes) {
    const std::int64_t at = first_not_poison(copy + from, bytes);
    return GuardCheck{at + 4 <= bytes, from + at - place.before};
  };
  if (const GuardCheck before = check(0, place.before); before.found) return before;
  std::atomic<std::int64_t> bad_row{place.rows};
  for_rows(place.rows, [&](std::int64_t row) {
    if (is_poison(copy + place.before + row * pitch + payload, pitch - payload)) return;
    std::int64_t seen = bad_row;
    while (row < seen && !bad_row.compare_exchange_weak(seen, row)) {
    }
  });
  if (bad_row < place.rows) {
    return check(place.before + bad_row * pitch + payload, pitch - payload);
  }
  const std::int64_t end = place.before + place.rows * pitch;
  return check(end, place.bytes - end);
}

}  // namespace tilewise
