#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tilewise/record.hpp"

namespace tilewise {

/// --db, else TILEWISE_DB, else $XDG_DATA_HOME/tilewise/tilewise.db, else ~/.local/share/....
std::filesystem::path default_database_path(const std::string& option = "");
/// Beside a database: the cache of images that are nobody's finalist. $XDG_CACHE_HOME/tilewise/
/// images.db for the default database, else "<database>.cache".
std::filesystem::path image_cache_path(const std::filesystem::path& database);

enum class OpenMode {
  read_write,  ///< created when absent; migrated when older
  read_only,   ///< must exist; on read-only media it is opened immutable
};

/// What a finished search was, so that an identical second run does nothing.
struct Search {
  std::int64_t id = 0;
  Problem problem;
  std::string gpu;
  std::string strategy;  ///< "local"
  std::uint64_t seed = 0;
  std::string space;  ///< hash of templates, parameters and source hashes searched
  double budget_seconds = 0;
  std::int64_t max_evaluations = 0;  ///< 0 = no limit
  bool finished = false;
  std::int64_t evaluations = 0;
  double seconds = 0;
  std::string date;
};

/// One row of `winners`: the record that is served for a problem on a GPU.
struct Winner {
  Record record;
  std::string since;        ///< ISO 8601 UTC
  std::string quarantined;  ///< empty, or why it is not served any more
};

struct RecordFilter {
  std::optional<Problem> problem = {};
  std::string gpu = {};              ///< empty = any; else exact gpu_key
  std::string kernel_template = {};  ///< empty = any
  std::optional<Outcome> outcome = {};
  std::int64_t limit = 0;  ///< 0 = all; newest first when set
};

struct DatabaseCounts {
  std::int64_t records = 0, winners = 0, baselines = 0, images = 0, searches = 0, bytes = 0;
};

/// The SQLite file that remembers: records, winners, baselines, images, searches. One connection;
/// an object may be used from several threads (calls are serialised inside), and any number of
/// processes may have the file open: WAL, 30 s busy timeout, every add committed when it returns.
/// All functions throw Error(database) with the path and SQLite's own words; a full disk, a corrupt
/// file, a file that is no database and a newer schema each have their own sentence.
class Database {
 public:
  static Database open(const std::filesystem::path& path, OpenMode mode = OpenMode::read_write);
  /// ":memory:" for tests.
  static Database in_memory();
  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database();

  const std::filesystem::path& path() const;
  bool read_only() const;
  /// Worth telling a person once: a network file system, rows of a newer version that were skipped.
  std::vector<std::string> warnings() const;

  // records -------------------------------------------------------------------------------------
  /// Returns the new id. A record of the same problem, gpu, template, configuration and source hash
  /// is replaced (its id kept): one row per problem and configuration. A winner whose record is
  /// replaced by one that is not ok is quarantined with that reason.
  std::int64_t add(const Record& record);
  std::vector<Record> records(const RecordFilter& filter) const;
  std::optional<Record> record(std::int64_t id) const;
  /// Every gpu_key that has records or winners.
  std::vector<std::string> gpus() const;

  // winners -------------------------------------------------------------------------------------
  /// The switch only; whether a record beats the stored winner is the tuner's to say. Lifts a
  /// quarantine. Throws Error(invalid_argument) for a record that is not ok or not there.
  void set_winner(std::int64_t record_id);
  std::optional<Winner> winner(const Problem& problem, const std::string& gpu) const;
  /// All winners of a GPU (empty = of all), quarantined ones included.
  std::vector<Winner> winners(const std::string& gpu = "") const;
  /// Nothing happens when the record is no winner (any more). An empty `why` lifts it.
  void quarantine(std::int64_t record_id, const std::string& why);

  // baselines -----------------------------------------------------------------------------------
  /// One row per problem, gpu, library, version, variant: the newest.
  void add(const Baseline& baseline);
  std::vector<Baseline> baselines(const std::optional<Problem>& problem = {},
                                  const std::string& gpu = "") const;

  // images --------------------------------------------------------------------------------------
  /// Key: kernel (canonical text), target, launch revision. Replaces. `record_id`: a record whose
  /// plan launches it (call once for each); it stays while such a record is a winner or finalist.
  void put_image(const Image& image, std::int64_t record_id = 0);
  /// `launch_revision` must match. The source hash is the caller's to compare.
  std::optional<Image> image(const KernelSpec& kernel, const Target& target,
                             const std::string& launch_revision) const;
  /// Without binaries and logs; for listings.
  std::vector<Image> images() const;
  /// One compiles, others wait: true when the caller now holds the claim on that key, false while
  /// anybody else does (another thread of this process, too). A claim older than `stale_seconds` is
  /// taken over: its holder was killed, or takes so long that a second compile costs less than
  /// waiting on. Released by put_image(), or by release_claim() on the object that claimed.
  static constexpr double kStaleClaimSeconds = 20;
  bool claim_image(const KernelSpec& kernel, const Target& target,
                   double stale_seconds = kStaleClaimSeconds);
  void release_claim(const KernelSpec& kernel, const Target& target);

  // searches ------------------------------------------------------------------------------------
  std::int64_t add(const Search& search);
  void update(const Search& search);  ///< by id
  std::vector<Search> searches(const Problem& problem, const std::string& gpu) const;

  // upkeep --------------------------------------------------------------------------------------
  DatabaseCounts counts() const;
  /// Deletes records (with their winners, and images nobody needs any more). Returns how many. What
  /// searches of their problems had found is then incomplete, so these are forgotten too, and so
  /// are the baselines of problems without records.
  std::int64_t remove(const RecordFilter& filter);
  /// Drops what is not needed to serve: losing records whose source hash is not among `current`
  /// (empty = keep all), images of no winner or finalist, stale claims. Vacuums. Returns bytes
  /// freed. Finalists are the 8 fastest ok records of each problem and GPU besides the winner. An
  /// image put without a record id stays while a winner or finalist that no image names has its
  /// launch revision.
  std::int64_t prune(const std::vector<std::string>& current_source_hashes = {});
  /// All of it (a GPU's, or everything when empty) as JSON {"format":"tilewise","version":1,...}
  /// with images as base64 when asked; and back: returns how many records were new. A record that
  /// is here already is replaced by one of later date; a winner, by one faster by more than the
  /// spread. Unknown parameters and templates are kept as they are. Throws Error(invalid_argument)
  /// on bad input, and then nothing was imported.
  std::string export_json(const std::string& gpu = "", bool with_images = false) const;
  std::int64_t import_json(const std::string& text);

 private:
  struct State;
  explicit Database(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tilewise
