#pragma once
#include <cstdint>
#include <optional>

#include "templates/plan/multiply_plan.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// Where the multiply step finds an operand: the arguments for its address, its leading dimension
/// and its stride from product to product.
struct OperandArguments {
  Argument pointer, ld, stride;
};

/// The operands of a multiply step, and the one step that packs what is to be packed of them, both
/// at the same time where it is both. A packed operand's rows start lines of 128 bytes.
struct Packs {
  OperandArguments a, b;           ///< the call's, or in the workspace
  std::optional<LaunchStep> step;  ///< none where neither is packed
  std::int64_t workspace_bytes = 0;
};

/// Packs round f32 to tf32 where that is what is multiplied, once for each element: the multiply
/// step need not, for every fragment.
bool packs_round(const Problem& problem);

/// A packed operand's k is padded with zeros up to a multiple of `k_multiple` (elements).
Packs plan_packs(const Problem& problem, Pack a, Pack b, std::int64_t k_multiple);

}  // namespace tilewise
