#pragma once
#include <cstdint>

#include "tilewise/call.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// Whether C has no elements.
bool is_empty(const Problem& problem);

/// Whether A and B are read: false if a size or the host's alpha, in the accumulator's type, is 0.
bool reads_operands(const Problem& problem, const Call& call);
/// Whether a call can change C. A call that is empty, or that reads no operand and has beta = 1 on
/// the host, keeps the bits of each element, including -0 and NaN, if there is no epilogue.
bool writes_c(const Problem& problem, const Call& call);

/// Throws Error(invalid_argument) for a negative size and for an unsupported combination of types;
/// the message lists the supported ones.
void check_problem(const Problem& problem);

/// Checks a problem without a call. Throws Error(invalid_argument) for an alignment that is not a
/// power of two between one element and 16 bytes.
void check_alignment(const Problem& problem);

/// Checks a call; cheap enough for every call. Refuses null pointers to matrices that are read or
/// written, negative sizes or strides, leading dimensions shorter than a row, pointers not aligned
/// to their element, extents past the address space, overlapping matrices of C, and a C that shares
/// or may share an element with A or B (share_elements() of tilewise/strided_array.hpp). A packed
/// operand must have been packed from the call's own A or B. The operands of an epilogue are
/// checked in the same way, as EpilogueOperand describes. Throws Error(invalid_argument) with the
/// value and the allowed range. For a batch by pointers it checks the addresses of the arrays, but
/// not the pointers in them, which are in device memory.
void check_call(const Problem& problem, const Call& call);

/// Checks the numbers in Call::group_rows of a grouped problem where the host can read them: each
/// is 0 to m, and the ends of products' rows ascend. Throws Error(invalid_argument) with the value.
void check_group_rows(const Problem& problem, const Call& call);

/// The same checks for one operand that is to be packed.
void check_operand(const Problem& problem, const Call& call, StepRole role);

/// The smallest leading dimension or batch stride, in elements, that counts as too large for a
/// tensor map. A map's stride is limited to 2^40 bytes. 2^33 elements are at most 2^36 bytes, and
/// the rows of a row class are up to 4 rows apart: 2^38 bytes.
inline constexpr std::int64_t kFarElements = std::int64_t{1} << 33;
/// Whether a leading dimension or batch stride of the call is kFarElements or more.
bool is_far(const Problem& problem, const Call& call);

/// The alignment of a call's pointers, leading dimensions and strides; one element for an operand
/// with a far one. For a batch by pointers: the problem's alignment, reduced to that of the leading
/// dimensions.
Alignment call_alignment(const Problem& problem, const Call& call);

}  // namespace tilewise
