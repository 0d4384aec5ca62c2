#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "vocabulary/record.hpp"

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

/// Whose files are used. docs/security.md says why it matters.
enum class Trust {
  owner,   ///< those that only this user and root can have written
  anyone,  ///< every file
};
/// `anyone` where the environment variable TILEWISE_TRUST_FILES is set and not "0".
Trust default_trust();

/// What a finished search was, so that an identical second run does nothing.
struct Search {
  std::int64_t id = 0;
  Problem problem;
  std::string gpu;
  std::string strategy;  ///< "local"
  std::uint64_t seed = 0;
  std::string space;    ///< hash of the templates and parameters searched
  std::string sources;  ///< hash of the kernel sources and the compiler
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
/// Rows carry a hash of their contents: one that does not match it is damaged and is skipped, with
/// a warning. All functions throw Error(database) with the path and SQLite's own words; a full
/// disk, a corrupt file, a file that is no database, one that was deleted while it was open and a
/// newer schema each have their own sentence.
class Database {
 public:
  /// A file that is made is the user's alone (0600), and so are folders (0700). Refuses files by
  /// `trust`, and what is no regular file.
  static Database open(const std::filesystem::path& path, OpenMode mode = OpenMode::read_write,
                       Trust trust = default_trust());
  /// ":memory:" for tests.
  static Database in_memory();
  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database();

  const std::filesystem::path& path() const;
  bool read_only() const;
  Trust trust() const;       ///< as given to open()
  bool still_there() const;  ///< the path leads to the file that is open
  /// Worth telling a person once: a network file system, rows of a newer version that were skipped.
  std::vector<std::string> warnings() const;
  /// Calls `say` for each warning that is there and each that comes, while a member function runs.
  void on_warning(std::function<void(const std::string&)> say);
  void warn(const std::string& warning) const;  ///< adds to warnings(), once

  // records -------------------------------------------------------------------------------------
  /// Returns the new id. A record of the same problem, gpu, template, configuration and source hash
  /// is replaced (its id kept): one row per problem and configuration. A winner whose record is
  /// replaced by one that is not ok is quarantined with that reason.
  std::int64_t add(const Record& record);
  std::vector<Record> records(const RecordFilter& filter) const;
  std::optional<Record> record(std::int64_t id) const;
  /// A measurement that is still good: its kernel compiles to the same machine code from sources,
  /// or by a compiler, of this hash. Nothing happens where a record of that hash is there already.
  void renew(std::int64_t record_id, const std::string& source_hash,
             const std::string& launch_revision);
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
  /// `launch_revision` must match. The source hash is the caller's to compare. An image that does
  /// not match its hash is not returned: a warning names it and, where the database can be written,
  /// its row is set aside until put_image() replaces it.
  std::optional<Image> image(const KernelSpec& kernel, const Target& target,
                             const std::string& launch_revision) const;
  /// Sets an image aside: image() does not return it until put_image() replaces it.
  void refuse_image(const KernelSpec& kernel, const Target& target,
                    const std::string& launch_revision, const std::string& why);
  /// Without binaries and logs; for listings. Not those set aside.
  std::vector<Image> images() const;
  /// One compiles, others wait: true when the caller now holds the claim on that key, false while
  /// anybody else does (another thread of this process, too). The claim of a process of this
  /// machine that is gone is free at once; any other that was not renewed for `stale_seconds` is
  /// taken over. Released by put_image(), or by release_claim() on the object that claimed.
  static constexpr double kStaleClaimSeconds = 20;
  bool claim_image(const KernelSpec& kernel, const Target& target,
                   double stale_seconds = kStaleClaimSeconds);
  void renew_claim(const KernelSpec& kernel, const Target& target);
  void release_claim(const KernelSpec& kernel, const Target& target);

  // searches ------------------------------------------------------------------------------------
  std::int64_t add(const Search& search);
  void update(const Search& search);  ///< by id
  std::vector<Search> searches(const Problem& problem, const std::string& gpu) const;

  // upkeep --------------------------------------------------------------------------------------
  /// Called when the disk is full; where it returns true (it freed some space), what failed is
  /// tried once more.
  void on_full_disk(std::function<bool()> make_room);
  DatabaseCounts counts() const;
  /// Of the file, without what is free inside it.
  std::int64_t bytes_in_use() const;
  /// Drops the images that were put first until at most so many bytes are in use; says how many.
  /// The last stays, however large.
  std::int64_t drop_oldest_images(std::int64_t most_bytes);
  /// What is damaged: SQLite's integrity check, and every row and image that does not match its
  /// hash, each once. Empty when all is in order.
  std::vector<std::string> check() const;
  /// Deletes records (with their winners, and images nobody needs any more). Returns how many. What
  /// searches of their problems had found is then incomplete, so these are forgotten too, and so
  /// are the baselines of problems without records.
  std::int64_t remove(const RecordFilter& filter);
  /// Drops what is damaged (a record with its winner, and the searches that had found it), and what
  /// is not needed to serve: losing records whose source hash is not among `current`
  /// (empty = keep all), images of no winner or finalist, claims of nobody alive. Finalists are the
  /// 8 fastest ok records of each problem and GPU besides the winner. An image put without a record
  /// id stays while a winner or finalist that no image names has its launch revision.
  struct Pruned {
    std::int64_t freed_bytes = 0;
    std::int64_t damaged_rows = 0;
    std::string not_done;  ///< empty, or what a full disk did not allow
  };
  Pruned prune(const std::vector<std::string>& current_source_hashes = {});
  /// All of it (a GPU's, or everything when empty) as JSON {"format":"tilewise","version":1,...}
  /// with images as base64 when asked. `left_out`: how many rows could not be read, being damaged
  /// or of a newer version.
  std::string export_json(const std::string& gpu = "", bool with_images = false,
                          std::int64_t* left_out = nullptr) const;
  struct Imported {
    std::int64_t records = 0;         ///< that were new
    std::int64_t images = 0;          ///< taken
    std::int64_t images_skipped = 0;  ///< in the text, not taken
  };
  /// Takes in what export_json() wrote. Its records count as imported from then on, whatever they
  /// say: one never replaces a record or a winner measured here. Of two imported records the later
  /// stays; an imported winner gives way to one faster by more than the spread. Searches are not
  /// taken: they were not made here. Images are taken only `with_images`, and only with a hash that
  /// matches. Unknown parameters and templates are kept as they are. Throws Error(invalid_argument)
  /// on bad input, and then nothing was imported.
  Imported import_json(const std::string& text, bool with_images = false);

 private:
  struct State;
  void drop_dead_claims();
  explicit Database(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tilewise
