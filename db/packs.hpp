#pragma once
#include <filesystem>
#include <functional>

struct sqlite3;

namespace tilewise {

enum class PackResult { done, no_library, stopped };

/// Compresses the binaries of a database's images, many at a time: the images of one template have
/// long parts in common. Reading one takes about a millisecond more. Compresses on `threads`
/// threads (0: all cores). Changes nothing without libzstd, and where `goes_on`, which any thread
/// calls, returns false. Throws Error(database).
PackResult pack_images(
    const std::filesystem::path& path, int threads,
    const std::function<bool()>& goes_on = [] { return true; });

/// Defines the SQL function unpacked(binary): the binary of a row of `images`, packed or not. It is
/// empty where its pack is damaged, and an error where libzstd is missing. Returns SQLite's code.
int define_unpacked(sqlite3* connection);

}  // namespace tilewise
