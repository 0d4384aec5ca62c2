#pragma once
#include <string>
#include <vector>

#include "db/database.hpp"
#include "tilewise/problem.hpp"
#include "vocabulary/device_info.hpp"

/// Kinds of products (types and math mode): their names on the command line, and the devices that
/// support them.
namespace tilewise::cli {

/// Types of A and B; types of C for given operands and mode.
std::vector<DType> operand_types();
/// The types of B beside an A of this type, and of those with these results in this mode.
std::vector<DType> types_beside(DType a);
std::vector<DType> types_beside(DType a, DType c, MathMode math);
std::vector<DType> result_types(DType operand, MathMode math);
/// The type called `text`. Throws Error(invalid_argument) that lists `allowed`, with a suggestion
/// for names of other libraries ("fp16", "half").
DType parse_type(const std::string& option, const std::string& text,
                 const std::vector<DType>& allowed);

/// Kinds that some template supports on a device, in the order of the table of product kinds.
std::vector<std::string> kinds_on(const DeviceInfo& device);
/// Operand types of kinds_on().
std::vector<std::string> operand_types_on(const DeviceInfo& device);
/// Throws Error(unsupported) with kinds_on() when no template supports the problem's kind on the
/// device.
void check_kind(const Problem& problem, const DeviceInfo& device);

/// The mode for --accuracy: the fastest by this GPU's winners among modes whose error_bound() is at
/// most `accuracy`; without winners, the first of tf32, f32x3, strict. Throws
/// Error(invalid_argument) with the bound of each mode when none is accurate enough.
MathMode mode_within(const Problem& problem, double accuracy, const DeviceInfo& device,
                     const std::vector<Winner>& winners);

}  // namespace tilewise::cli
