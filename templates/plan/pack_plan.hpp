#pragma once
#include <cstdint>
#include <optional>

#include "templates/plan/multiply_plan.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// An operand of the multiply step: the arguments for its address, its leading dimension and its
/// stride from product to product.
struct OperandArguments {
  Argument pointer, ld, stride;
};

/// The operands of a multiply step, and the step that packs one or both of them, in one launch.
/// A packed operand's rows begin at multiples of 128 bytes.
struct Packs {
  OperandArguments a, b;           ///< the call's, or in the workspace
  std::optional<LaunchStep> step;  ///< empty where neither is packed
  std::int64_t workspace_bytes = 0;
};

/// Whether packs round f32 to tf32, where the multiply step multiplies tf32: once for each element,
/// not once for each fragment.
bool packs_round(const Problem& problem);

/// The operands with packs `a` and `b`. Rows of a packed operand are whole lines of 128 bytes.
/// split: f32 operands are split into two tf32 parts (Packing::split).
Packs plan_packs(const Problem& problem, Pack a, Pack b, bool split = false);

}  // namespace tilewise
