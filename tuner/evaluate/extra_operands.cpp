#include "tuner/evaluate/extra_operands.hpp"

#include "vocabulary/epilogue.hpp"
#include "vocabulary/problem.hpp"

namespace tilewise {

std::vector<Placement> ExtraOperands::placements(const Problem& problem, Kind kind) {
  std::vector<Placement> places;
  if (!problem.epilogue) return places;
  for (const EpilogueSlot& slot : problem.epilogue->operands) {
    const auto [rows, columns] = shape_of(slot, problem);
    const int element = bytes_of(type_of(slot, problem.c.type));
    const auto row = static_cast<std::uint64_t>(columns * element);
    const std::int64_t matrices = is_of_rows(slot.over) ? matrices_c(problem) : problem.batch;
    places.push_back(
        kind == Kind::guarded
            ? guarded_placement(rows, columns, element, element, matrices)
            : tight_placement(rows, columns, element, common_alignment({row}), matrices));
  }
  return places;
}

std::int64_t ExtraOperands::bytes(const Problem& problem, Kind kind) {
  std::int64_t bytes =
      is_grouped(problem) ? problem.batch * static_cast<std::int64_t>(sizeof(std::int32_t)) : 0;
  for (const Placement& place : placements(problem, kind)) bytes += place.bytes;
  return bytes;
}

ExtraOperands::ExtraOperands(Device& device, const Problem& problem, Kind kind) {
  if (is_grouped(problem)) {
    const std::vector<std::int32_t> numbers = group_rows_of(problem);
    group_rows_ = DeviceBuffer(device, std::ssize(numbers) * std::int64_t{sizeof(std::int32_t)});
    device.copy_to_device(group_rows_.data(), numbers.data(), group_rows_.bytes(), nullptr);
    device.synchronize(nullptr);
  }
  for (const Placement& place : placements(problem, kind)) {
    const std::size_t slot = matrices_.size();
    const DeviceMatrix& made = matrices_.emplace_back(device, place);
    written_.push_back(problem.epilogue->operands[slot].use != EpilogueUse::read);
    bound_.push_back({made.data(), place.ld, place.stride, 0});
  }
}

void ExtraOperands::upload(Staging& staging, Stream stream, const Problem& problem,
                           std::uint64_t seed) const {
  for (std::size_t slot = 0; slot < matrices_.size(); ++slot)
    if (!written_[slot]) staging.upload(stream, matrices_[slot], TestData(problem, slot, seed));
}

void ExtraOperands::copy_from(const ExtraOperands& other, Device& device, Stream stream) const {
  for (std::size_t slot = 0; slot < matrices_.size(); ++slot)
    if (!written_[slot])
      device.copy_on_device(matrices_[slot].allocation(), other.matrices_[slot].allocation(),
                            matrices_[slot].placement().bytes, stream);
}

std::vector<Repetition::Range> ExtraOperands::results() const {
  std::vector<Repetition::Range> ranges;
  for (std::size_t slot = 0; slot < matrices_.size(); ++slot)
    if (written_[slot])
      ranges.push_back({matrices_[slot].allocation(), matrices_[slot].placement().bytes});
  return ranges;
}

void ExtraOperands::clear_results(Device& device, Stream stream) const {
  for (std::size_t slot = 0; slot < matrices_.size(); ++slot) {
    const Placement& place = matrices_[slot].placement();
    if (written_[slot])
      device.fill32(matrices_[slot].allocation(), canary_word(place.element_bytes), place.bytes / 4,
                    stream);
  }
}

}  // namespace tilewise
