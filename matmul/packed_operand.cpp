#include "tilewise/packed_operand.hpp"

#include <utility>

#include "matmul/packed_contents.hpp"

namespace tilewise {

PackedOperand::PackedOperand() noexcept = default;
PackedOperand::PackedOperand(std::unique_ptr<const Contents> contents) noexcept
    : contents_(std::move(contents)) {}
PackedOperand::~PackedOperand() = default;
PackedOperand::PackedOperand(PackedOperand&&) noexcept = default;
PackedOperand& PackedOperand::operator=(PackedOperand&&) noexcept = default;

std::int64_t PackedOperand::bytes() const noexcept {
  return contents_ ? contents_->memory.bytes() : 0;
}
const void* PackedOperand::original() const noexcept {
  return contents_ ? contents_->original : nullptr;
}
std::int64_t PackedOperand::leading_dimension() const noexcept {
  return contents_ ? contents_->ld : 0;
}
std::int64_t PackedOperand::batch_stride() const noexcept {
  return contents_ ? contents_->stride : 0;
}

}  // namespace tilewise
