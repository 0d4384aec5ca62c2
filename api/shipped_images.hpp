#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "db/database.hpp"
#include "vocabulary/device_info.hpp"

namespace tilewise {

/// The folder of the shared library, or of the program that is linked with the static one; empty if
/// it is not known.
std::filesystem::path own_folder();

/// The file with portfolio_images_name() next to the library, or in the folder "tilewise" there.
/// None if there is none. Throws Error(database) for a file that is no database.
std::optional<Database> shipped_images(const Target& target, Trust trust);

}  // namespace tilewise
