#include <algorithm>
#include <array>

#include "cli/command.hpp"
#include "cli/common/bench.hpp"
#include "cli/common/inputs.hpp"
#include "cli/common/json.hpp"
#include "cli/common/stored.hpp"
#include "db/cache_file.hpp"
#include "device/machines.hpp"
#include "matmul/build.hpp"
#include "templates/kernel_template.hpp"
#include "templates/space/candidate_text.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

// Path, info --------------------------------------------------------------------------------------

struct FileCommand {
  std::string database;
};

void setup_file(CLI::App& app, FileCommand& options) { add_database_option(app, options.database); }

int run_path(const FileCommand& options, const Output& output) {
  const auto path = default_database_path(options.database);
  const auto cache = image_cache_path(path);
  if (output.json)
    print_document(Json{{"database", path.string()}, {"cache", cache.string()}});
  else
    print_exact_line(path.string());
  if (output.verbose && !output.json) print_exact_line(cache.string());
  return kOk;
}

Json counts_json(const DatabaseCounts& counts) {
  return {{"records", counts.records},     {"winners", counts.winners},
          {"baselines", counts.baselines}, {"images", counts.images},
          {"searches", counts.searches},   {"bytes", counts.bytes}};
}

int run_info(const FileCommand& options, const Output& output) {
  const Database database = open_to_read(options.database);
  const DatabaseCounts counts = database.counts();
  database.winners();  // warns about damaged rows
  const auto cache = image_cache_path(default_database_path(options.database));
  std::error_code ignored;
  const auto size = std::filesystem::file_size(cache, ignored);
  const double cache_bytes = ignored ? 0 : static_cast<double>(size);
  if (output.json) {
    print_document(Json{{"database", database.path().string()},
                        {"counts", counts_json(counts)},
                        {"gpus", database.gpus()},
                        {"cache", {{"path", cache.string()}, {"bytes", cache_bytes}}}});
    return kOk;
  }
  print_line("database   " + database.path().string() + ", " +
             format_bytes(static_cast<double>(counts.bytes)));
  print_line("cache      " + cache.string() + ", " + format_bytes(cache_bytes));
  print_line("records    " + std::to_string(counts.records));
  print_line("winners    " + std::to_string(counts.winners));
  print_line("baselines  " + std::to_string(counts.baselines));
  print_line("images     " + std::to_string(counts.images));
  print_line("searches   " + std::to_string(counts.searches));
  for (const std::string& key : database.gpus()) print_line("GPU        " + key);
  return kOk;
}

// List, delete ------------------------------------------------------------------------------------

/// The filters for records: several when the options name several GPUs or problems.
struct FilterOptions {
  std::string database;
  std::string gpu;
  std::string kernel_template;
  std::string outcome;
  ProblemOptions problems;
};

void add_filter_options(CLI::App& app, FilterOptions& options) {
  add_gpu_option(app, options.gpu);
  app.add_option("--template", options.kernel_template, "Of this kernel template")
      ->type_name("NAME");
  app.add_option("--outcome", options.outcome, "With this outcome")
      ->type_name("{ok,compile_error,launch_error,wrong_result,timeout}");
  add_problem_options(app, options.problems, "", false);
  need_sizes(app);
  add_database_option(app, options.database);
}

bool has_filter(const FilterOptions& options) {
  return !options.gpu.empty() || !options.kernel_template.empty() || !options.outcome.empty() ||
         names_problems(options.problems);
}

std::vector<RecordFilter> filters_of(const FilterOptions& options, const Database& database,
                                     std::int64_t limit) {
  RecordFilter common;
  common.kernel_template = options.kernel_template;
  if (!options.outcome.empty()) common.outcome = parse_outcome(options.outcome);
  common.limit = limit;
  std::vector<std::optional<Problem>> problems{std::nullopt};
  if (names_problems(options.problems)) {
    refuse_kept_order(options.problems);
    problems.clear();
    for (const Problem& problem : problems_of(options.problems)) problems.emplace_back(problem);
  }
  std::vector<std::string> gpus{""};
  if (!options.gpu.empty()) gpus = stored_gpus(database, options.gpu);
  std::vector<RecordFilter> filters;
  for (const std::string& gpu : gpus)
    for (const auto& problem : problems) {
      filters.push_back(common);
      filters.back().gpu = gpu;
      filters.back().problem = problem;
    }
  return filters;
}

struct ListCommand {
  FilterOptions filter;
  std::int64_t limit = 20;
};

void setup_list(CLI::App& app, ListCommand& options) {
  add_filter_options(app, options.filter);
  app.add_option("--limit", options.limit, "The newest so many; 0: all")
      ->type_name("N")
      ->transform(whole_number(0))
      ->capture_default_str();
  app.footer(
      examples({"autotune db list", "autotune db list --gpu H200 --outcome wrong_result --limit 0",
                "autotune db list --sizes 1024 --json"}));
}

int run_list(const ListCommand& options, const Output& output) {
  const Database database = open_to_read(options.filter.database);
  std::vector<Record> records;
  for (const RecordFilter& filter : filters_of(options.filter, database, options.limit))
    for (Record& record : database.records(filter)) records.push_back(std::move(record));
  if (output.json) {
    print_document(Json{{"database", database.path().string()}, {"records", array_of(records)}});
    return kOk;
  }
  Table table({{"id", true},
               {"GPU", false, true, 3},
               {"problem"},
               {"outcome"},
               {"time", true},
               {"date", false, false, 2},
               {"candidate", false, true, 1}});
  for (const Record& record : records)
    table.add({std::to_string(record.id), record.gpu.substr(0, record.gpu.find('|')),
               std::string(to_string(layout_of(record.problem))) + " " + size_text(record.problem),
               std::string(to_string(record.outcome)),
               record.measurement ? format_microseconds(record.measurement->median_us) : "-",
               record.environment.date.substr(0, 10),
               output.verbose ? to_string(record.candidate) : short_text(record.candidate)});
  if (table.empty())
    print_line("no records");
  else
    table.print(output);
  return kOk;
}

struct DeleteCommand {
  FilterOptions filter;
  bool all = false;
};

void setup_delete(CLI::App& app, DeleteCommand& options) {
  add_filter_options(app, options.filter);
  app.add_flag("--all", options.all, "Every record; needed when nothing else is named");
  app.footer(
      "Deletes records with their winners, and unused images.\n\n" +
      examples({"autotune db delete --gpu \"RTX 3090\"",
                "autotune db delete --template naive --sizes 1024", "autotune db delete --all"}));
}

int run_delete(const DeleteCommand& options, const Output& output) {
  if (!options.all && !has_filter(options.filter))
    throw Error(
        ErrorKind::invalid_argument,
        "db delete: say which (--gpu, --template, --outcome, --sizes), or --all for everything");
  if (options.all && has_filter(options.filter))
    throw Error(ErrorKind::invalid_argument, "db delete: --all and a filter contradict each other");
  Database database = open_to_write(existing_database(options.filter.database));
  std::int64_t deleted = 0;
  for (const RecordFilter& filter : filters_of(options.filter, database, 0))
    deleted += database.remove(filter);
  if (output.json)
    print_document(Json{{"deleted", deleted}});
  else
    print_line(std::to_string(deleted) + " records deleted");
  return kOk;
}

// Prune -------------------------------------------------------------------------------------------

/// Whether the record has a parameter that this version lacks: a newer version wrote it.
bool is_newer(const KernelTemplate& kernel, const Configuration& configuration) {
  const auto& values = configuration.values();
  return std::any_of(values.begin(), values.end(), [&](const auto& entry) {
    return std::none_of(kernel.parameters.begin(), kernel.parameters.end(),
                        [&](const Parameter& p) { return p.name == entry.first; });
  });
}

/// Decides whether a record was made from the current sources. Undecidable records count as
/// current: rows of a newer version, and all rows whose compiler is missing.
class Sources {
 public:
  bool current(const Record& record) {
    const KernelTemplate* kernel = known_template(record.candidate.kernel_template);
    const Configuration& configuration = record.candidate.configuration;
    if (!kernel || is_newer(*kernel, configuration)) return true;
    if (!bad_values(*kernel, configuration).empty()) return false;  // an older version wrote it
    try {
      const DeviceInfo info = nominal_from_key(record.gpu);
      const ImageStore store(nullptr, nullptr, &compiler_for(info.target));
      // The nominal facts may refuse what the measured GPU accepts.
      return !rejection(*kernel, record.problem, configuration, info).empty() ||
             record.source_hash ==
                 current_source_hash(record.candidate, *kernel, record.problem, info, store);
    } catch (const Error&) {
      return true;
    }
  }

 private:
  const Compiler& compiler_for(const Target& target) {
    std::unique_ptr<Compiler>& compiler = compilers_[target.host ? 1 : 0];
    if (!compiler) compiler = load_compiler(target);
    return *compiler;
  }
  std::array<std::unique_ptr<Compiler>, 2> compilers_;  // NVRTC, and the CPU's
};

/// The source hashes of records to keep. They include the winners' hashes, so that the list is not
/// empty when no other record is current.
std::vector<std::string> current_hashes(const Database& database) {
  std::vector<std::string> hashes;
  Sources sources;
  for (const Winner& winner : database.winners()) hashes.push_back(winner.record.source_hash);
  for (const Record& record : database.records({}))
    if (sources.current(record)) hashes.push_back(record.source_hash);
  return hashes;
}

/// Opens the database first, so that a refused database deletes nothing. Then deletes from the
/// cache, which needs no free space and frees some.
int run_prune(const FileCommand& options, const Output& output) {
  const auto path = default_database_path(options.database);
  const std::vector<std::string> current = current_hashes(open_to_read(options.database));
  const auto cache = image_cache_path(path);
  const RemovedFile removed = remove_cache_file(cache, default_trust());
  const Database::Pruned pruned = open_to_write(path).prune(current);
  std::string not_done;
  if (!removed.kept.empty())
    not_done = "the image cache " + cache.string() + " was not deleted: " + removed.kept;
  if (!pruned.not_done.empty()) append(not_done, path.string() + ": " + pruned.not_done, "; ");
  if (!not_done.empty()) warn(not_done);
  const std::int64_t freed = pruned.freed_bytes + removed.bytes;
  if (output.json)
    print_document(Json{{"freed_bytes", freed},
                        {"database_bytes", pruned.freed_bytes},
                        {"cache_bytes", removed.bytes},
                        {"damaged_rows", pruned.damaged_rows},
                        {"not_done", not_done}});
  else
    print_line(format_bytes(static_cast<double>(freed)) + " freed" +
               (pruned.damaged_rows > 0
                    ? "; damaged rows dropped: " + std::to_string(pruned.damaged_rows)
                    : ""));
  return kOk;
}

// Check -------------------------------------------------------------------------------------------

int run_check(const FileCommand& options, const Output& output) {
  const Database database = open_to_read(options.database);
  const std::vector<std::string> damage = database.check();
  if (output.json) {
    print_document(Json{{"database", database.path().string()}, {"damage", damage}});
  } else if (damage.empty()) {
    print_line("no damage in " + database.path().string());
  } else {
    for (const std::string& each : damage) print_line(each);
  }
  return damage.empty() ? kOk : kDatabase;
}

}  // namespace

void add_db(CLI::App& app, Selection& selection) {
  CLI::App* db = app.add_subcommand("db", "Look into and tidy the database");
  db->require_subcommand(1);
  db->footer(examples({"autotune db path", "autotune db list --gpu H200 --limit 5",
                       "autotune db delete --gpu \"RTX 3090\"", "autotune db prune"}));
  add_command<FileCommand>(*db, selection, "path", "Where the database is", setup_file, run_path)
      ->footer(examples({"autotune db path", "sqlite3 \"$(autotune db path)\""}));
  add_command<FileCommand>(*db, selection, "info", "How much is in it, for which GPUs", setup_file,
                           run_info)
      ->footer(examples({"autotune db info", "autotune db info --json"}));
  add_command<ListCommand>(*db, selection, "list", "List records, newest first", setup_list,
                           run_list);
  add_db_model(*db, selection);
  add_command<DeleteCommand>(*db, selection, "delete", "Delete records", setup_delete, run_delete);
  add_command<FileCommand>(*db, selection, "prune",
                           "Drop what is not needed to serve; empty the image cache", setup_file,
                           run_prune)
      ->footer(examples({"autotune db prune", "autotune db prune --db shared.db"}));
  add_command<FileCommand>(*db, selection, "check",
                           "Look for damage: every row and image against its hash", setup_file,
                           run_check)
      ->footer("Exit status 5 when something is damaged.\n\n" +
               examples({"autotune db check", "autotune db check --json"}));
}

}  // namespace tilewise::cli
