#include "tuner/cli/stored.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "tilewise/error.hpp"

namespace tilewise::cli {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool is_default_place(const std::string& option) {
  const char* named = std::getenv("TILEWISE_DB");
  return option.empty() && (!named || !*named);
}

}  // namespace

Database open_to_read(const std::string& option, const Output& output) {
  const std::filesystem::path path = default_database_path(option);
  std::error_code ignored;
  if (is_default_place(option) && !std::filesystem::exists(path, ignored)) {
    note(output, "no database yet at " + path.string() + "; autotune --sizes ... makes one");
    return Database::in_memory();
  }
  Database database = Database::open(path, OpenMode::read_only);
  warn_of(database.warnings());
  return database;
}

std::unique_ptr<ImageCache> open_image_cache(const std::filesystem::path& path,
                                             Database& database) {
  auto cache = std::make_unique<ImageCache>(image_cache_path(path));
  database.on_full_disk([cache = cache.get()] { return cache->discard(); });
  return cache;
}

void warn_of(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) warn(warning);
}

void add_gpu_option(CLI::App& app, std::string& gpu) {
  app.add_option("--gpu", gpu, "Stored GPUs whose name contains this; needs no GPU here")
      ->type_name("NAME");
}

std::vector<std::string> stored_gpus(const Database& database, const std::string& part) {
  const std::vector<std::string> all = database.gpus();
  std::vector<std::string> matches;
  std::string names;
  for (const std::string& key : all) {
    if (lower(key).find(lower(part)) != std::string::npos) matches.push_back(key);
    names += (names.empty() ? "'" : ", '") + key + "'";
  }
  if (matches.empty() && !part.empty())
    throw Error(ErrorKind::not_found, "--gpu: no stored GPU contains '" + part + "'; stored " +
                                          (all.empty() ? "is none" : "are " + names));
  return matches;
}

const Baseline* baseline_of(const std::vector<Baseline>& baselines, const Problem& problem,
                            const std::string& gpu) {
  for (const Baseline& baseline : baselines)
    if (baseline.problem == problem && baseline.gpu == gpu && baseline.variant == "default")
      return &baseline;
  return nullptr;
}

}  // namespace tilewise::cli
