// Batches that are one product: which of the two forms serves.
#include "matmul/state.hpp"
#include "tilewise/error.hpp"

namespace tilewise {

/// The batch's own record comes before a prediction for the product.
bool Matmul::State::serves_folded(const Problem& product, const Problem& batch) {
  return resolution(product).kind == MatchKind::exact || resolution(batch).kind != MatchKind::exact;
}

std::shared_ptr<const Executable> Matmul::State::folded(const Problem& product,
                                                        const Problem& batch, Stream stream) {
  const Asked asked(product, std::hash<Problem>{}(batch) | 1);
  const auto found = choices_.find(asked);
  if (found && (found->problem() == product || found->problem() == batch)) return found;
  if (device_->capturing(stream)) {
    // What was prepared may be either form.
    try {
      return executable(product, stream);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::invalid_argument) throw;
      return executable(batch, stream);
    }
  }
  auto made = executable(serves_folded(product, batch) ? product : batch, stream);
  const std::lock_guard making(make_mutex_);
  if (!choices_.find(asked)) choices_.add(asked, made);
  return made;
}

}  // namespace tilewise
