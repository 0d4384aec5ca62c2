// Batches that are one product: which of the two forms serves.
#include "matmul/state.hpp"
#include "tilewise/error.hpp"

namespace tilewise {

/// A batch that was prepared stays as it is, and its own record comes before a prediction for the
/// product.
bool Matmul::State::serves_folded(const Problem& product, const Problem& batch) {
  if (executables_.find(Asked(batch)) && !executables_.find(Asked(product))) return false;
  const std::shared_ptr<const Resolver> known = stored();
  return known->has_winner(product) || !known->has_winner(batch);
}

/// Where one form cannot be served (nothing compiles, nothing is loaded in a capture), the other
/// may be.
std::shared_ptr<const Executable> Matmul::State::either(const Problem& first, const Problem& second,
                                                        Stream stream) {
  try {
    return executable(first, stream);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::device || error.kind() == ErrorKind::out_of_memory) throw;
    return executable(second, stream);
  }
}

std::shared_ptr<const Executable> Matmul::State::folded(const Problem& product,
                                                        const Problem& batch, Stream stream) {
  const Asked asked(product, std::hash<Problem>{}(batch) | 1);
  const auto found = executables_.find(asked);
  if (found && (found->problem() == product || found->problem() == batch)) return found;
  auto made = serves_folded(product, batch) ? either(product, batch, stream)
                                            : either(batch, product, stream);
  if (device_->capturing(stream)) return made;  // what is loaded now does not decide for later
  const std::lock_guard making(make_mutex_);
  if (!executables_.find(asked)) executables_.add(asked, made);
  return made;
}

}  // namespace tilewise
