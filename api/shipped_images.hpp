#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "db/database.hpp"
#include "vocabulary/device_info.hpp"

namespace tilewise {

/// The folder of the shared library, or of the program that is linked with the static one; empty if
/// it is not known.
std::filesystem::path own_folder();

/// Where images that ship with a library or program in the folder `own` may be, in the order in
/// which they are looked for: next to it, in the folder "tilewise" there, and above a folder "bin",
/// as in the wheel.
std::vector<std::filesystem::path> image_folders(const std::filesystem::path& own);

/// The first file with portfolio_images_name() in the image_folders() of own_folder(). None if
/// there is none. Throws Error(database) for a file that is no database.
std::optional<Database> shipped_images(const Target& target, Trust trust);

}  // namespace tilewise
