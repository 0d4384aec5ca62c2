#pragma once
#include <cstdint>
#include <optional>

#include "tilewise/call.hpp"
#include "tilewise/problem.hpp"

namespace tilewise {

/// The problem whose kernel is served: the same one, except for products with k = 0. Every mode
/// computes beta C there, so the strict kernel serves it, which takes any alignment.
Problem as_served(Problem problem);

/// What the choice of an executable depends on: equal requests have one executable.
struct Request {
  Request() = default;
  explicit Request(const Problem& asked) : problem(asked) {}
  Problem problem;  ///< as served, with the alignment of the call
  /// Of a batch that shares B (stride 0), whose matrices of A and C follow one another as the rows
  /// of two matrices: the one product that computes the same, of batch x m rows. Likewise of one
  /// that shares A, whose matrices of B and C lie side by side: of batch x n columns. None for
  /// other batches, and where an operand is packed.
  std::optional<Problem> product;
  /// PackedOperand::Contents::packing_key of the packed operands; 0: not packed.
  std::uint64_t packed_a = 0, packed_b = 0;
  /// is_far(): no plan serves whose tensor maps have strides of the call.
  bool far = false;
  bool operator==(const Request&) const = default;
};

/// A request, and the call as the product of a batch that is one product. The only reading of a
/// call's form: reads nothing of the device or of what is stored.
struct Normalized {
  /// The call must have passed check_call().
  Normalized(const Problem& problem, const Call& call);
  Request request;
  std::optional<Call> of_product;  ///< where request.product is

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
