#pragma once
#if __cplusplus < 202002L
#error "Tilewise's C++ interface needs C++20 (-std=c++20); tilewise/matmul.h is C"
#endif
#include <cstdint>
#include <memory>

#include "tilewise/export.h"

namespace tilewise {

/// One operand in the form that its kernel needs, for example weights. Matmul::pack_a() and
/// pack_b() make it once, and many products of that Matmul use it. It may outlive the Matmul.
///
/// Not every kernel packs. bytes() is the device memory of the copy; with 0 there is no copy, and
/// products read the original. The original must not change in either case: a product whose kernel
/// needs another form reads it, and the copy does not change with it. Results are the same bit for
/// bit with and without a packed operand.
///
/// Move-only. Any number of products may use one at the same time, on any streams. Destruction
/// frees the memory and never throws. It must come after the products that use the operand are
/// done, those in captured graphs included.
class PackedOperand {
 public:
  struct Contents;  // matmul/packed_contents.hpp

  /// Holds nothing; a call with it is Error(invalid_argument).
  TILEWISE_API PackedOperand() noexcept;
  explicit PackedOperand(std::unique_ptr<const Contents> contents) noexcept;
  TILEWISE_API ~PackedOperand();
  TILEWISE_API PackedOperand(PackedOperand&&) noexcept;
  TILEWISE_API PackedOperand& operator=(PackedOperand&&) noexcept;

  /// Device memory of the copy; 0 when there is none.
  TILEWISE_API std::int64_t bytes() const noexcept;
  /// The arguments of pack_a() or pack_b().
  TILEWISE_API const void* original() const noexcept;
  TILEWISE_API std::int64_t leading_dimension() const noexcept;
  TILEWISE_API std::int64_t batch_stride() const noexcept;

  /// Internal; null when it holds nothing.
  const Contents* contents() const noexcept { return contents_.get(); }

 private:
  std::unique_ptr<const Contents> contents_;
};

}  // namespace tilewise
