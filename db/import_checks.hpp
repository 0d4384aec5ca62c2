#pragma once
#include <string>

#include "vocabulary/image.hpp"
#include "vocabulary/record.hpp"

// What an import may say. A claim that no machine can have made is refused, and so is a name that
// would change what a terminal shows.
namespace tilewise {

/// Each throws Error(invalid_argument) with what is wrong, what is allowed, and the value.
void check_imported(const Record& record);
void check_imported(const Baseline& baseline);
void check_imported(const Image& image);
void check_imported_date(const std::string& name, const std::string& date);

}  // namespace tilewise
