#pragma once
#include <cstdint>
#include <optional>

#include "tilewise/call.hpp"
#include "tilewise/problem.hpp"

namespace tilewise {

/// The problem whose kernel is served. It is the same problem, except that for k = 0 it is strict:
/// every mode computes beta C there, and the strict kernel takes any alignment.
Problem as_served(Problem problem);

/// All that the choice of an executable depends on: equal requests have one executable.
struct Request {
  Request() = default;
  explicit Request(const Problem& asked) : problem(asked) {}
  Problem problem;  ///< as served, with the alignment of the call
  /// The one product that computes the same as the batch; none for other batches, and if an operand
  /// is packed. A batch that shares B (stride 0) is a product of batch x m rows if its matrices of
  /// A and C follow one another like the rows of two matrices, and so do the operands of an
  /// epilogue. A batch that shares A is a product of batch x n columns if its matrices of B and C
  /// lie next to each other, and the problem has no order: another n may have another one.
  std::optional<Problem> product;
  /// PackedOperand::Contents::packing_key of each packed operand; 0: not packed.
  std::uint64_t packed_a = 0, packed_b = 0;
  /// is_far(): rules out plans whose tensor maps have strides of the call.
  bool far = false;
  bool operator==(const Request&) const = default;
};

/// A request, and the call of the product if the batch is one product. Uses neither the device nor
/// stored data. No other code interprets the form of a call.
struct Normalized {
  /// The call must have passed check_call().
  Normalized(const Problem& problem, const Call& call);
  Request request;
  std::optional<Call> of_product;  ///< set if request.product is

 private:
  void fold(const Call& call);
};

}  // namespace tilewise

template <>
struct std::hash<tilewise::Request> {
  std::size_t operator()(const tilewise::Request& request) const noexcept {
    return std::hash<tilewise::Problem>{}(request.problem) ^
           static_cast<std::size_t>(request.packed_a + 3 * request.packed_b +
                                    (request.far ? 1 : 0));
  }
};
