#pragma once
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/database.hpp"
#include "db/image_cache.hpp"
#include "vocabulary/device_info.hpp"

/// What subcommands that read the database share.
namespace tilewise::cli {

/// The database's path, for subcommands that write to a database and must not create one. Throws
/// Error(database) where there is none.
std::filesystem::path existing_database(const std::string& option);
/// Opened to read. Throws Error(database) where there is none. Its warnings are printed as they
/// come, each once.
Database open_to_read(const std::string& option);
/// The same, opened to write and made where there is none.
Database open_to_write(const std::filesystem::path& path);
/// The same, but the default database may be absent: then nothing, and a warning names its path.
std::optional<Database> open_if_there(const std::string& option);

/// The cache of images beside a database that is open for writing; it makes room for the database
/// on a full disk.
std::unique_ptr<ImageCache> open_image_cache(const std::filesystem::path& path, Database& database);
/// Each on a line of its own.
void warn_of(const std::vector<std::string>& warnings);

/// Adds --gpu.
void add_gpu_option(CLI::App& app, std::string& gpu);
/// Stored GPU keys that contain `part` (upper and lower case alike; empty = all). Throws
/// Error(not_found) naming those stored when `part` is not empty and none does.
std::vector<std::string> stored_gpus(const Database& database, const std::string& part);

/// The fastest baseline of a problem: the better of cuBLAS's columns. Null where there is none.
const Baseline* baseline_of(const std::vector<Baseline>& baselines, const Problem& problem,
                            const std::string& gpu);

}  // namespace tilewise::cli
