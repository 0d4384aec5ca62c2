#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "vocabulary/device_facts.hpp"
#include "vocabulary/record.hpp"

namespace tilewise {

/// --db, otherwise TILEWISE_DB, $XDG_DATA_HOME/tilewise/tilewise.db, or ~/.local/share/....
std::filesystem::path default_database_path(const std::string& option = "");
/// An absolute path. Throws Error(database) for a relative one if the working folder was deleted.
std::filesystem::path absolute_path(const std::filesystem::path& path);
/// The image cache of a database: $XDG_CACHE_HOME/tilewise/images.db for the default database,
/// otherwise "<database>.cache".
std::filesystem::path image_cache_path(const std::filesystem::path& database);

enum class OpenMode {
  read_write,  ///< created when absent; brought up to date when older
  read_only,   ///< must exist; opened immutable on read-only media
};

/// The files that are accepted; docs/security.md has the reasons.
enum class Trust {
  owner,   ///< files that only this user and root can have written
  anyone,  ///< every file
};
/// `anyone` where the environment variable TILEWISE_TRUST_FILES is set and not "0".
Trust default_trust();

/// One row of `winners`: the record served for a problem on a GPU.
struct Winner {
  Record record;
  std::string since;                      ///< ISO 8601 UTC
  std::string quarantined;                ///< why it is no longer served; empty: it is served
  Objective objective = Objective::time;  ///< criterion that chose it
};

/// Corrections of the cost model from a GPU's measurements, for one kind of products.
struct StoredCorrections {
  std::string gpu;
  std::string kind;          ///< kind_text(): "bf16"
  std::int64_t samples = 0;  ///< number of records used
  std::vector<std::uint8_t> trees;
  bool operator==(const StoredCorrections&) const = default;
};

struct RecordFilter {
  std::optional<Problem> problem = {};
  std::string gpu = {};              ///< empty = any; otherwise exact gpu_key
  std::string kernel_template = {};  ///< empty = any
  std::optional<Outcome> outcome = {};
  std::int64_t limit = 0;             ///< 0 = all; newest first when set
  std::optional<Problem> types = {};  ///< only records with the types and math mode of this problem
};

/// An image with the ids of the records that launch it.
struct StoredImage {
  Image image;
  std::vector<std::int64_t> records;
};

struct DatabaseCounts {
  std::int64_t records = 0, winners = 0, baselines = 0, images = 0, searches = 0, bytes = 0;
};

/// The SQLite file of records, winners, baselines, images and searches. One connection, which
/// copies share. Thread-safe (calls are serialised inside); any number of processes may have the
/// file open: WAL, 30 s busy timeout, every add is committed when it returns. A row has a hash of
/// its contents; a row that does not match it is damaged and is skipped with a warning. Every
/// function throws Error(database) with the path and SQLite's message. These failures have their
/// own message: a full disk, a corrupt file, a file that is no database, a file deleted while open,
/// a newer schema.
class Database {
 public:
  /// New files are private to the user (0600), and so are new folders (0700). Refuses files by
  /// `trust`, and paths that are not regular files.
  static Database open(const std::filesystem::path& path, OpenMode mode = OpenMode::read_write,
                       Trust trust = default_trust());
  /// Opens for reading; empty where there is no file, or the file has no tables yet.
  static std::optional<Database> open_if_any(const std::filesystem::path& path,
                                             Trust trust = default_trust());
  /// ":memory:", for tests.
  static Database in_memory();

  const std::filesystem::path& path() const;
  bool read_only() const;
  Trust trust() const;       ///< the value passed to open()
  bool still_there() const;  ///< whether the path still names the open file
  /// Messages for the user without duplicates: a network file system, skipped rows of a newer
  /// version.
  std::vector<std::string> warnings() const;
  /// Calls `say` for each earlier warning, and for each new one during a member function's call.
  void on_warning(std::function<void(const std::string&)> say);
  void warn(const std::string& warning) const;  ///< adds to warnings(), once

  // records -------------------------------------------------------------------------------------
  /// Returns the id. Replaces a record of the same problem, gpu, template, configuration and source
  /// hash, and keeps its id. A winner whose new record is not ok is quarantined with that reason.
  std::int64_t add(const Record& record);
  /// Adds many records in one transaction. Returns their ids.
  std::vector<std::int64_t> add_all(const std::vector<Record>& records);
  std::vector<Record> records(const RecordFilter& filter) const;
  std::optional<Record> record(std::int64_t id) const;
  std::int64_t count(const RecordFilter& filter) const;
  /// Confirms a measurement: its kernels compile to the same machine code from sources, or with a
  /// compiler, that have this hash. No effect when a record with that hash exists.
  void renew(std::int64_t record_id, const std::string& source_hash,
             const std::string& launch_revision);
  /// Every problem with records on a GPU (empty: any), and their number; sorted by GPU, then size.
  struct StoredProblem {
    std::string gpu;
    Problem problem;
    std::int64_t records = 0;
  };
  std::vector<StoredProblem> problems(const std::string& gpu = "") const;
  /// Every gpu_key that has records or winners.
  std::vector<std::string> gpus() const;

  // winners -------------------------------------------------------------------------------------
  /// Makes the record the winner and lifts a quarantine; the tuner makes the comparison.
  /// `objective`: the criterion that chose it. Throws Error(invalid_argument) for a record that is
  /// not ok or does not exist.
  void set_winner(std::int64_t record_id, Objective objective = Objective::time);
  std::optional<Winner> winner(const Problem& problem, const std::string& gpu) const;
  /// All winners of a GPU (empty = of all), including quarantined ones.
  std::vector<Winner> winners(const std::string& gpu = "") const;
  /// The problems with a winner, on any GPU, that takes less than `share` of the time of each
  /// library measured in the same run. Does not compare the hashes of rows.
  std::vector<Problem> problems_faster_than_baselines(double share) const;
  /// Quarantines a winner; an empty `why` lifts it. No effect when the record is not a winner.
  void quarantine(std::int64_t record_id, const std::string& why);

  // general records -------------------------------------------------------------------------------
  /// Makes the record the general one of its problem and GPU. It serves other sizes, since the
  /// winner's kernel may be specialised on its size. Throws Error(invalid_argument) for a record
  /// that is not ok or does not exist.
  void set_general(std::int64_t record_id);
  /// The general records of a GPU (empty = of all).
  std::vector<Record> general(const std::string& gpu = "") const;

  // corrections ---------------------------------------------------------------------------------
  /// Replaces the corrections of the same GPU and kind.
  void put(const StoredCorrections& corrections);
  std::optional<StoredCorrections> corrections(const std::string& gpu,
                                               const std::string& kind) const;

  // devices -------------------------------------------------------------------------------------
  /// Replaces the facts of the same device. A power limit of 0 does not replace a known one.
  void put(const DeviceFacts& facts);
  /// The facts for a gpu_key(). Empty in a database from before version 7 until the device is used.
  std::optional<DeviceFacts> device(const std::string& gpu) const;

  // baselines -----------------------------------------------------------------------------------
  /// Keeps the newest row per problem, gpu, library, version and variant.
  void add(const Baseline& baseline);
  std::vector<Baseline> baselines(const std::optional<Problem>& problem = {},
                                  const std::string& gpu = "") const;

  // orders of sums ------------------------------------------------------------------------------
  /// Replaces the order of the same problem and GPU. Throws Error(invalid_argument) unless the
  /// problem is an order_key() and the order is one.
  void put(const KeptOrder& order);
  /// The order that is kept for the products of order_key() `key` on a GPU. Throws Error(database)
  /// if its row is damaged: any other order would give other bits.
  std::optional<KeptOrder> order(const Problem& key, const std::string& gpu) const;
  /// All of a GPU (empty: of all), without damaged ones.
  std::vector<KeptOrder> orders(const std::string& gpu = "") const;

  // images --------------------------------------------------------------------------------------
  /// Replaces the image of the same key: kernel (canonical text), target, launch revision.
  /// `record_id`: a record whose plan launches it (one call per record). The image stays while such
  /// a record is a winner, a general record or a finalist.
  void put_image(const Image& image, std::int64_t record_id = 0);
  /// The image of this key; the caller compares the source hash. A damaged image is not returned. A
  /// warning names it, and a writable database sets its row aside until put_image().
  std::optional<Image> image(const KernelSpec& kernel, const Target& target,
                             const std::string& launch_revision) const;
  /// Sets an image aside: image() does not return it until the next put_image().
  void refuse_image(const KernelSpec& kernel, const Target& target,
                    const std::string& launch_revision, const std::string& why);
  /// For listings: without binaries and logs, and without images that are set aside.
  std::vector<Image> images() const;
  /// Whether images are packed (packs.hpp), so that reading them takes libzstd.
  bool has_packs() const;
  /// Lets one process compile while others wait. True when the caller has the claim on the key;
  /// false while another process or thread has it. A claim is free when its process (on this
  /// machine) has ended. It is taken over when it was not renewed for `stale_seconds`. Released by
  /// put_image(), or by release_claim() on the same object.
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
  /// Sets the function to call when the disk is full. If it returns true (it freed space), the
  /// failed operation is tried once more.
  void on_full_disk(std::function<bool()> make_room);
  DatabaseCounts counts() const;
  /// Bytes of the file without its free pages.
  std::int64_t bytes_in_use() const;
  /// Drops the oldest images until at most `most_bytes` are in use; returns their number. The last
  /// image stays, whatever its size.
  std::int64_t drop_oldest_images(std::int64_t most_bytes);
  /// All damage without duplicates: SQLite's integrity check, and rows and images that do not match
  /// their hash.
  std::vector<std::string> check() const;
  /// Deletes records with their winners and unneeded images; returns their number. Also deletes the
  /// searches of their problems, which would be incomplete, the baselines of problems without
  /// records, the corrections of their GPUs, and the orders and facts of devices without records.
  std::int64_t remove(const RecordFilter& filter);
  /// Drops damaged rows (a record with its winner and its searches) and rows that serving does not
  /// need: losing records whose source hash is not in `current` (empty = keep all), images of no
  /// kept record, claims of ended processes. Keeps winners, general records and finalists, which
  /// are the 8 fastest other ok records of each problem and GPU. An image without a record id stays
  /// while a kept record without an image has its launch revision.
  struct Pruned {
    std::int64_t freed_bytes = 0;
    std::int64_t damaged_rows = 0;
    std::string not_done;  ///< the part that a full disk prevented; otherwise empty
  };
  Pruned prune(const std::vector<std::string>& current_source_hashes = {});
  /// The rows of a GPU (empty: all) but its images as JSON {"format":"tilewise","version":1,...}.
  /// `left_out`: the number of unreadable rows (damaged or of a newer version).
  std::string export_json(const std::string& gpu = "", std::int64_t* left_out = nullptr) const;
  /// All images, for import_json() into another database. `left_out` as in export_json().
  std::vector<StoredImage> stored_images(std::int64_t* left_out = nullptr) const;
  /// Imports the text of export_json(), and the stored_images() of the same database. Returns the
  /// number of new records. Imported records have origin `imported`, whatever the text says, and
  /// never replace a record or winner measured here. Of two imported records the later stays; an
  /// imported winner is replaced by a better one of the same objective: by time, one that is faster
  /// by more than the spread. Searches are not imported. Unknown parameters and templates stay as
  /// they are. Throws Error(invalid_argument) on bad input; nothing is imported then.
  std::int64_t import_json(const std::string& text, const std::vector<StoredImage>& images = {});

 private:
  struct State;
  void drop_dead_claims();
  explicit Database(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace tilewise
