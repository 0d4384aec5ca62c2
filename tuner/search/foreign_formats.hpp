#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "vocabulary/record.hpp"

/// Records in the formats of other tuners. One file has the configurations of one template for one
/// problem on one GPU.
namespace tilewise {

/// Results in the T4 format of the auto-tuning community; times in milliseconds.
std::string t4_text(const std::vector<Record>& records);
/// Kernel Tuner's cache. Throws Error(invalid_argument) without records.
std::string kernel_tuner_text(const std::vector<Record>& records);

/// The records of either format, as an export of Tilewise that import_json() reads. Problem, GPU
/// and template are those of `known`, since the formats do not state them in full. Every row,
/// including failed ones, must be a valid configuration of the template for the problem on a
/// typical GPU of the key. Otherwise throws Error(invalid_argument) with the first invalid row and
/// the reason; Error(not_found) for an unknown template.
std::string as_export(std::string_view text, const std::string& file, const Record& known);

}  // namespace tilewise
