#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "db/database.hpp"
#include "db/rows.hpp"
#include "db/sqlite.hpp"

// Statements behind Database's members, for use inside a caller's transaction.
namespace tilewise {

// The read functions throw DamagedRow for a row that does not match its hash.

/// Columns of a whole record, for "SELECT ... FROM kRecordTables" and the read function.
inline const std::string kRecordColumns = Columns::of<Record>("r").selected() + ", r.hash";
inline const std::string kRecordTables =
    "records AS r JOIN problems AS p ON p.id = r.problem_id "
    "JOIN environments AS e ON e.id = r.environment_id";
Record read_record(Query& row);
/// A whole winner: its record's columns, its own columns, and whether its key is its record's.
inline const std::string kWinnerColumns = kRecordColumns + ", " +
                                          Columns::of<Winner>("w").selected() +
                                          ", w.hash, w.problem_id = r.problem_id AND w.gpu = r.gpu";
inline const std::string kWinnerTables = kRecordTables + " JOIN winners AS w ON w.record_id = r.id";
Winner read_winner(Query& row);

/// A filter with its parameters, as " WHERE ... ORDER BY ... LIMIT ..." on kRecordTables.
class RecordCondition {
 public:
  RecordCondition(const Connection& connection, const RecordFilter& filter);
  const std::string& sql() const { return sql_; }
  void bind(Query& query) const;

 private:
  std::optional<std::int64_t> problem_;
  std::vector<std::string> types_;
  std::string gpu_, kernel_template_, outcome_;
  std::int64_t limit_;
  std::string sql_;
};

std::int64_t put_record(const Connection& connection, const Record& record);
/// Makes a record the winner of its problem and GPU. An existing winner keeps its date and, without
/// `objective`, its objective.
void put_winner(const Connection& connection, std::int64_t record_id, const std::string& since,
                const std::string& quarantined, std::optional<Objective> objective = {});
/// No effect when the record is not a winner.
void quarantine_winner(const Connection& connection, std::int64_t record_id,
                       const std::string& why);
/// Makes a record the general one of its problem and GPU.
void put_general(const Connection& connection, std::int64_t record_id);
enum class Replace { always, never };
void put_baseline(const Connection& connection, const Baseline& baseline, Replace replace);
/// The id of the image of the same key; 0 without one.
std::int64_t find_image(const Connection& connection, const Image& image);
std::int64_t put_image_row(const Connection& connection, const Image& image);
void link_image(const Connection& connection, std::int64_t record_id, std::int64_t image_id);
std::int64_t add_search(const Connection& connection, const Search& search);

/// Columns of records and images.
inline const std::string kUsageColumns = Columns::of<ResourceUsage>("").names();
/// Columns of an image except its binary and log.
inline const std::string kImageColumns =
    "kernel, target, launch_revision, source_hash, " + kUsageColumns + ", compile_ms";
Image read_image(Query& row);
/// Deletes claims of ended processes.
void drop_dead_claims(const Connection& connection);
/// A damaged row, or a row with a dangling reference.
struct DamagedPlace {
  std::string table;
  std::int64_t row = 0;  ///< its rowid
  std::string what;      ///< description
};
/// All damaged rows of all tables, without duplicates.
std::vector<DamagedPlace> damaged_rows(const Connection& connection);
/// Columns of a whole baseline, for "SELECT ... FROM kBaselineTables".
inline const std::string kBaselineColumns = Columns::of<Baseline>("b").selected() + ", b.hash";
inline const std::string kBaselineTables =
    "baselines AS b JOIN problems AS p ON p.id = b.problem_id "
    "JOIN environments AS e ON e.id = b.environment_id";
Baseline read_baseline(Query& row);

StoredCorrections read_corrections(Query& row);
/// Columns of whole corrections, for the read function.
inline const std::string kCorrectionColumns = "gpu, kind, samples, trees, hash";

/// Columns of a device's facts, for "SELECT ... FROM devices AS d" and the read function.
inline const std::string kDeviceColumns = Columns::of<DeviceFacts>("d").selected() + ", d.hash";
DeviceFacts read_device(Query& row);
void put_device(const Connection& connection, const DeviceFacts& facts);
bool has_device(const Connection& connection, const std::string& gpu);

/// Columns of a whole kept order, for "SELECT ... FROM kOrderTables" and the read function.
inline const std::string kOrderColumns = Columns::of<KeptOrder>("o").selected() + ", o.hash";
inline const std::string kOrderTables = "orders AS o JOIN problems AS p ON p.id = o.problem_id";
KeptOrder read_order(Query& row);
void put_order(const Connection& connection, const KeptOrder& order, Replace replace);

/// Columns of a whole search, for "SELECT ... FROM kSearchTables".
inline const std::string kSearchColumns = Columns::of<Search>("s").selected() + ", s.hash";
inline const std::string kSearchTables = "searches AS s JOIN problems AS p ON p.id = s.problem_id";
Search read_search(Query& row);

}  // namespace tilewise
