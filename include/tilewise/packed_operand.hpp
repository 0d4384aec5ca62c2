#pragma once
#include <cstdint>
#include <memory>

namespace tilewise {

/// One operand in the form that its kernel wants, made once by Matmul::pack_a() or pack_b() and
/// used by many products: weights. It belongs to the Matmul that made it, and may outlive it.
///
/// Not every kernel packs: bytes() says how much device memory a copy takes; with 0 there is none,
/// and products read the original. The original must stay as it was in either case, since a product
/// whose kernel wants another form reads it (a copy made of an original that is changed afterwards
/// is stale: pack again). Results are the same, bit for bit, with and without.
///
/// Move-only. Any number of products may use one at the same time, on any streams. The memory is
/// freed on destruction, which must come after the products that use it are done (graphs that they
/// were captured into included). Destroying never throws.
class PackedOperand {
 public:
  struct Contents;  // matmul/packed_contents.hpp

  /// Holds nothing; a call that uses it is refused.
  PackedOperand() noexcept;
  explicit PackedOperand(std::unique_ptr<const Contents> contents) noexcept;
  ~PackedOperand();
  PackedOperand(PackedOperand&&) noexcept;
  PackedOperand& operator=(PackedOperand&&) noexcept;

  /// Device memory that the copy takes; 0 when there is none.
  std::int64_t bytes() const noexcept;
  /// What it was made of, as given then.
  const void* original() const noexcept;
  std::int64_t leading_dimension() const noexcept;
  std::int64_t batch_stride() const noexcept;

  /// For Tilewise itself; null when it holds nothing.
  const Contents* contents() const noexcept { return contents_.get(); }

 private:
  std::unique_ptr<const Contents> contents_;
};

}  // namespace tilewise
