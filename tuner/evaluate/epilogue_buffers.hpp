#pragma once
#include <span>
#include <vector>

#include "tilewise/call.hpp"
#include "tuner/evaluate/placement.hpp"
#include "tuner/evaluate/repetition.hpp"
#include "tuner/evaluate/staging.hpp"

namespace tilewise {

/// The operands of a problem's epilogue in device memory; none without an epilogue. Move-only; not
/// thread-safe.
class EpilogueBuffers {
 public:
  /// guarded: as guarded_placement() has it, for validation; tight: as tight_placement().
  enum class Kind { guarded, tight };
  static std::vector<Placement> placements(const Problem& problem, Kind kind);
  static std::int64_t bytes(const Problem& problem, Kind kind);

  EpilogueBuffers() = default;
  EpilogueBuffers(Device& device, const Problem& problem, Kind kind);
  EpilogueBuffers(EpilogueBuffers&&) = default;
  EpilogueBuffers& operator=(EpilogueBuffers&&) = default;

  /// Uploads the data of what is read (TestData with this seed).
  void upload(Staging& staging, Stream stream, const Problem& problem, std::uint64_t seed) const;
  /// Copies the data of what is read from those of the same problem and kind.
  void copy_from(const EpilogueBuffers& other, Device& device, Stream stream) const;
  /// Fills what is written with canaries.
  void clear_results(Device& device, Stream stream) const;
  /// Binds the operands to a call; valid as long as this object, also where it was moved to.
  void bind(Call& call) const { call.operands = bound_; }
  /// The memory of what is written.
  std::vector<Repetition::Range> results() const;
  const DeviceMatrix& matrix(std::size_t slot) const { return matrices_[slot]; }

 private:
  std::vector<DeviceMatrix> matrices_;  // by slot
  std::vector<bool> written_;
  std::vector<EpilogueOperand> bound_;
};

}  // namespace tilewise
