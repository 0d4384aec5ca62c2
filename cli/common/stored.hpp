#pragma once
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/database.hpp"
#include "db/image_cache.hpp"

/// Shared by subcommands that read the database.
namespace tilewise::cli {

/// The database's path, for subcommands that write to a database and must not create one. Throws
/// Error(database) where there is none.
std::filesystem::path existing_database(const std::string& option);
/// Opens for reading. Throws Error(database) where there is no database. Prints each warning once.
Database open_to_read(const std::string& option);
/// Opens for writing; creates a missing database.
Database open_to_write(const std::filesystem::path& path);
/// Opens for reading. Empty where the default database is absent, with a warning that names its
/// path.
std::optional<Database> open_if_there(const std::string& option);

/// The image cache of a database opened for writing. On a full disk the cache frees space for the
/// database.
std::unique_ptr<ImageCache> open_image_cache(const std::filesystem::path& path, Database& database);
/// Prints each warning on its own line.
void warn_of(const std::vector<std::string>& warnings);

/// Adds --gpu.
void add_gpu_option(CLI::App& app, std::string& gpu);
/// Stored GPU keys that contain `part` (case-insensitive; empty = all). Throws Error(not_found)
/// naming the stored keys when `part` is not empty and matches none.
std::vector<std::string> stored_gpus(const Database& database, const std::string& part);

/// The fastest cuBLAS baseline of a problem. Null where there is none.
const Baseline* baseline_of(const std::vector<Baseline>& baselines, const Problem& problem,
                            const std::string& gpu);

}  // namespace tilewise::cli
