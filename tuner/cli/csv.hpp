#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tilewise::cli {

/// The fields of a line of CSV (RFC 4180), without their quotes. A comma inside quotes does not
/// separate, and a doubled quote there is one.
std::vector<std::string> csv_fields(std::string_view line);

}  // namespace tilewise::cli
