#pragma once
#include <span>
#include <vector>

#include "tilewise/call.hpp"
#include "tuner/evaluate/placement.hpp"
#include "tuner/evaluate/repetition.hpp"
#include "tuner/evaluate/staging.hpp"

namespace tilewise {

/// What a call has in device memory besides A, B and C: the operands of its epilogue, and the
/// numbers of rows of a grouped product, by its distribution. Move-only; not thread-safe.
class ExtraOperands {
 public:
  /// guarded: as guarded_placement() has it, for validation; tight: as tight_placement().
  enum class Kind { guarded, tight };
  /// Of the epilogue's operands.
  static std::vector<Placement> placements(const Problem& problem, Kind kind);
  static std::int64_t bytes(const Problem& problem, Kind kind);

  ExtraOperands() = default;
  ExtraOperands(Device& device, const Problem& problem, Kind kind);
  ExtraOperands(ExtraOperands&&) = default;
  ExtraOperands& operator=(ExtraOperands&&) = default;

  /// Uploads the data of what is read (TestData with this seed).
  void upload(Staging& staging, Stream stream, const Problem& problem, std::uint64_t seed) const;
  /// Copies the data of what is read from those of the same problem and kind.
  void copy_from(const ExtraOperands& other, Device& device, Stream stream) const;
  /// Fills what is written with canaries.
  void clear_results(Device& device, Stream stream) const;
  /// Binds the operands to a call; valid as long as this object, also where it was moved to.
  void bind(Call& call) const {
    call.operands = bound_;
    call.group_rows = static_cast<const std::int32_t*>(group_rows_.data());
  }
  /// The memory of what is written.
  std::vector<Repetition::Range> results() const;
  const DeviceMatrix& matrix(std::size_t slot) const { return matrices_[slot]; }

 private:
  std::vector<DeviceMatrix> matrices_;  // by slot
  std::vector<bool> written_;
  std::vector<EpilogueOperand> bound_;
  DeviceBuffer group_rows_;
};

}  // namespace tilewise
