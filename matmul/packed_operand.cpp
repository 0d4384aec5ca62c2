#include "tilewise/packed_operand.hpp"

#include <utility>

#include "matmul/packed_contents.hpp"

namespace tilewise {
namespace {

/// Abandons an operand that was packed before fork(): its memory is on the parent's device, and
/// freeing it could hang.
void leave_to_parent(std::unique_ptr<const PackedOperand::Contents>& contents) noexcept {
  if (contents && contents->of_process != fork_generation()) (void)contents.release();
}

}  // namespace

PackedOperand::PackedOperand() noexcept = default;
PackedOperand::PackedOperand(std::unique_ptr<const Contents> contents) noexcept
    : contents_(std::move(contents)) {}
PackedOperand::PackedOperand(PackedOperand&&) noexcept = default;

PackedOperand::~PackedOperand() { leave_to_parent(contents_); }

PackedOperand& PackedOperand::operator=(PackedOperand&& other) noexcept {
  leave_to_parent(contents_);
  contents_ = std::move(other.contents_);
  return *this;
}

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
