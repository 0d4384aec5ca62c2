#pragma once
#include <cstdint>

#include "tilewise/call.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/plan.hpp"

namespace tilewise {

/// Whether C has no elements, so that there is no work.
bool is_empty(const Problem& problem);

/// Whether A and B are read: not when a size or the host's alpha, in the accumulator's type, is 0.
bool reads_operands(const Problem& problem, const Call& call);
/// Whether a call can change C. Where it is empty, or reads no operand and beta is 1 on the host,
/// each element stays as it is: -0 and the bits of a NaN too.
bool writes_c(const Problem& problem, const Call& call);

/// Throws Error(invalid_argument) for an unsupported combination of types, with the list of
/// supported ones, and for a negative size.
void check_problem(const Problem& problem);

/// Checks a problem without a call. Throws Error(invalid_argument) for an alignment that is no
/// power of two from one element to 16 bytes.
void check_alignment(const Problem& problem);

/// Refuses null pointers to matrices that are read or written, negative sizes or strides, leading
/// dimensions shorter than a row, pointers not aligned to their element, extents past the address
/// space, overlapping matrices of C, and a C that shares an element with A or B, or may
/// (share_elements() of tilewise/strided_array.hpp). A packed operand must be of the call's own A
/// or B. Throws Error(invalid_argument) with the value and the allowed range. Of a batch by
/// pointers the arrays' addresses are checked, not the pointers in them: they are in device memory.
/// Cheap enough for every call.
void check_call(const Problem& problem, const Call& call);

/// The same for one operand that is to be packed.
void check_operand(const Problem& problem, const Call& call, StepRole role);

/// From here on a leading dimension or batch stride is too large for a tensor map. The limit of a
/// map's stride is 2^40 bytes. 2^33 elements are at most 2^36 bytes, and the rows of a row class
/// are up to 4 rows apart: 2^38 bytes.
inline constexpr std::int64_t kFarElements = std::int64_t{1} << 33;
/// Whether the call has such a stride.
bool is_far(const Problem& problem, const Call& call);

/// The alignment of a call's pointers, leading dimensions and strides: one element where one of
/// these is far. Of a batch by pointers: problem.alignment, as far as the leading dimensions allow
/// it.
Alignment alignment_of(const Problem& problem, const Call& call);

}  // namespace tilewise
