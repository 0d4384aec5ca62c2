#pragma once
#if __cplusplus < 202002L
#error "Tilewise's C++ interface needs C++20 (-std=c++20); tilewise/matmul.h is C"
#endif
#include <cstdint>
#include <memory>

#include "tilewise/export.h"

namespace tilewise {

/// One operand in the form that its kernel needs, for example weights. Matmul::pack_a() or pack_b()
/// makes it once, and many products of that Matmul use it. It may outlive the Matmul.
///
/// Not every kernel packs. bytes() is the device memory of the copy. With 0 there is no copy, and
/// products read the original. The original must not change in either case: the copy is not
/// updated, and a product whose kernel needs another form reads the original. Results with and
/// without a packed operand are the same bit for bit.
///
/// Move-only. Any number of products may use one at the same time, on any streams. Destruction
/// frees the memory and never throws. Destroy it only after the products that use it are done,
/// including those in captured graphs.
class PackedOperand {
 public:
  struct Contents;  // matmul/packed_contents.hpp

  /// An empty operand; a call with it throws Error(invalid_argument).
  TILEWISE_API PackedOperand() noexcept;
  explicit PackedOperand(std::unique_ptr<const Contents> contents) noexcept;
  TILEWISE_API ~PackedOperand();
  TILEWISE_API PackedOperand(PackedOperand&&) noexcept;
  TILEWISE_API PackedOperand& operator=(PackedOperand&&) noexcept;

  /// Device memory of the copy in bytes; 0 if there is no copy.
  TILEWISE_API std::int64_t bytes() const noexcept;
  /// The arguments of pack_a() or pack_b().
  TILEWISE_API const void* original() const noexcept;
  TILEWISE_API std::int64_t leading_dimension() const noexcept;
  TILEWISE_API std::int64_t batch_stride() const noexcept;

  /// Internal. Null if the operand is empty.
  const Contents* contents() const noexcept { return contents_.get(); }

 private:
  std::unique_ptr<const Contents> contents_;
};

}  // namespace tilewise
