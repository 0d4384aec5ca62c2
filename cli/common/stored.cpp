#include "cli/common/stored.hpp"

#include <mutex>
#include <set>

#include "cli/common/output.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

bool is_default_place(const std::string& option) {
  return option.empty() && environment_variable("TILEWISE_DB").empty();
}

/// Every object that reads damaged rows warns again; each warning is printed once.
void warn_once(const std::string& warning) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (said.insert(warning).second) warn(warning);
}

/// Whether there is no file. A file that cannot be examined counts as present: opening it gives the
/// reason.
bool is_absent(const std::filesystem::path& path) {
  std::error_code error;
  return !std::filesystem::exists(path, error) && !error;
}

}  // namespace

std::filesystem::path existing_database(const std::string& option) {
  std::filesystem::path path = default_database_path(option);
  if (is_absent(path))
    throw Error(ErrorKind::database,
                "no database at " + path.string() +
                    "; autotune --sizes ... and autotune import FILE make one, --db and "
                    "TILEWISE_DB name another");
  return path;
}

Database open_to_read(const std::string& option) {
  Database database = Database::open(default_database_path(option), OpenMode::read_only);
  database.on_warning(warn_once);
  return database;
}

Database open_to_write(const std::filesystem::path& path) {
  Database database = Database::open(path);
  database.on_warning(warn_once);
  return database;
}

std::optional<Database> open_if_there(const std::string& option) {
  const std::filesystem::path path = default_database_path(option);
  if (!is_default_place(option) || !is_absent(path)) return open_to_read(option);
  warn("no database at " + path.string() +
       ": answers are of the portfolio that ships or default kernels; autotune --sizes ... makes "
       "one");
  return std::nullopt;
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
  for (const std::string& key : all)
    if (lower_case(key).find(lower_case(part)) != std::string::npos) matches.push_back(key);
  if (matches.empty() && !part.empty())
    throw Error(ErrorKind::not_found,
                "--gpu: no stored GPU contains '" + part + "'; stored " +
                    (all.empty() ? "is none" : "are '" + join(all, "', '") + "'"));
  return matches;
}

const Baseline* baseline_of(const std::vector<Baseline>& baselines, const Problem& problem,
                            const std::string& gpu) {
  const Baseline* fastest = nullptr;
  for (const Baseline& baseline : baselines) {
    if (baseline.problem != problem || baseline.gpu != gpu) continue;
    if (!(baseline.measurement.median_us > 0)) continue;
    if (!fastest || baseline.measurement.median_us < fastest->measurement.median_us)
      fastest = &baseline;
  }
  return fastest;
}

}  // namespace tilewise::cli
