#pragma once
#include <string>

#include "vocabulary/device_facts.hpp"
#include "vocabulary/image.hpp"
#include "vocabulary/record.hpp"

// Limits on imported values: no measurement has the refused values, and names with characters that
// control a terminal are refused.
namespace tilewise {

/// Each throws Error(invalid_argument) with the field, the allowed values and the value.
void check_imported(const Record& record);
void check_imported(const Baseline& baseline);
void check_imported(const Image& image);
void check_imported(const DeviceFacts& facts);
void check_imported(const KeptOrder& order);
void check_imported_date(const std::string& name, const std::string& date);

}  // namespace tilewise
