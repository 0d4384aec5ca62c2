#include "db/schema.hpp"

#include <string>
#include <vector>

#include "db/columns.hpp"
#include "db/rows.hpp"
#include "db/sqlite_error.hpp"
#include "tilewise/error.hpp"

namespace tilewise {
namespace {

// docs/database.md explains every table and column. Enums are stored by name, so that a row of a
// newer version is recognised and skipped. Floating-point columns may be NULL, SQLite's form of
// NaN.
constexpr const char* kOtherTables = R"sql(
CREATE TABLE IF NOT EXISTS record_images (
  record_id INTEGER NOT NULL REFERENCES records (id) ON DELETE CASCADE,
  image_id  INTEGER NOT NULL REFERENCES images (id) ON DELETE CASCADE,
  PRIMARY KEY (record_id, image_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS record_images_by_image ON record_images (image_id);
CREATE INDEX IF NOT EXISTS searches_by_problem ON searches (problem_id, gpu);

CREATE TABLE IF NOT EXISTS claims (
  kernel  TEXT NOT NULL,
  target  TEXT NOT NULL,
  holder  TEXT NOT NULL,
  machine TEXT NOT NULL,
  pid     INTEGER NOT NULL,
  started INTEGER NOT NULL,
  since   REAL NOT NULL,
  PRIMARY KEY (kernel, target)
) STRICT;

CREATE TABLE IF NOT EXISTS general (
  problem_id INTEGER NOT NULL REFERENCES problems (id),
  gpu        TEXT NOT NULL,
  record_id  INTEGER NOT NULL UNIQUE REFERENCES records (id) ON DELETE CASCADE,
  PRIMARY KEY (problem_id, gpu)
) STRICT;

CREATE TABLE IF NOT EXISTS corrections (
  gpu     TEXT NOT NULL,
  kind    TEXT NOT NULL,
  samples INTEGER NOT NULL,
  trees   BLOB NOT NULL,
  hash    TEXT NOT NULL,
  PRIMARY KEY (gpu, kind)
) STRICT;
)sql";

/// A table that holds the fields of a struct.
struct FieldsTable {
  std::string name, first;  ///< first: the definitions before the fields'
  Columns columns;
  std::string last;  ///< definitions after the fields', and constraints

  std::string create(const std::string& as) const {
    return "CREATE TABLE IF NOT EXISTS " + as + " (" + first + columns.definitions() + last +
           ") STRICT";
  }
};

const std::string kId = "id INTEGER PRIMARY KEY, ", kHash = ", hash TEXT NOT NULL";

const FieldsTable& problems_table() {
  static const FieldsTable table{"problems", kId, Columns::of<Problem>(""),
                                 ", UNIQUE (" + kProblemNames + ")"};
  return table;
}

const std::vector<FieldsTable>& other_fields_tables() {
  const std::string environment = Columns::of<Environment>("").names();
  static const std::vector<FieldsTable> tables{
      {"environments", kId, Columns::of<Environment>(""), ", UNIQUE (" + environment + ")"},
      {"records", kId, Columns::of<Record>(""),
       kHash + ", UNIQUE (problem_id, gpu, kernel_template, configuration, source_hash)"},
      {"winners",
       "problem_id INTEGER NOT NULL REFERENCES problems (id), gpu TEXT NOT NULL, record_id INTEGER "
       "NOT NULL UNIQUE REFERENCES records (id) ON DELETE CASCADE, ",
       Columns::of<Winner>(""), kHash + ", PRIMARY KEY (problem_id, gpu)"},
      {"baselines", "", Columns::of<Baseline>(""),
       kHash + ", PRIMARY KEY (problem_id, gpu, library, version, variant)"},
      {"searches", kId, Columns::of<Search>(""), kHash},
      {"orders", "", Columns::of<KeptOrder>(""), kHash + ", PRIMARY KEY (problem_id, gpu)"},
      {"devices", "", Columns::of<DeviceFacts>(""), kHash + ", PRIMARY KEY (gpu)"},
      {"images",
       "id INTEGER PRIMARY KEY, kernel TEXT NOT NULL, target TEXT NOT NULL, launch_revision TEXT "
       "NOT NULL, source_hash TEXT NOT NULL, ",
       Columns::of<ResourceUsage>(""),
       ", compile_ms REAL, log TEXT NOT NULL, binary BLOB NOT NULL, hash TEXT NOT NULL, refused "
       "TEXT NOT NULL, UNIQUE (kernel, target, launch_revision)"}};
  return tables;
}

bool has_column(const Connection& db, const std::string& table, const std::string& column) {
  Query query = db.query("SELECT 1 FROM pragma_table_info(?) WHERE name = ?");
  return query.bind(table, column).step();
}

/// Adds the parts that a new file, or one of version 6 or later, lacks. Fields added since then
/// have a default, since a process of an older version may still add rows.
void complete(const Connection& db) {
  const FieldsTable& problems = problems_table();
  db.execute(problems.create("problems"));
  if (!has_column(db, "problems", "variant")) {  // part of a key, which SQLite cannot change
    const std::string known = kProblemNames.substr(0, kProblemNames.rfind(", variant"));
    db.execute(problems.create("new_problems") + "; INSERT INTO new_problems (id, " + known +
               ") SELECT id, " + known +
               " FROM problems; DROP TABLE problems; ALTER TABLE new_problems RENAME TO problems");
  }
  for (const FieldsTable& table : other_fields_tables()) {
    db.execute(table.create(table.name));
    for (const Columns::Column& column : table.columns.own())
      if (!has_column(db, table.name, column.name))
        db.execute("ALTER TABLE " + table.name + " ADD COLUMN " + column.name + " " +
                   column.definition);
  }
  db.execute(kOtherTables);
}

/// Disables foreign keys while the table that they refer to is replaced; a transaction cannot
/// change that setting.
class WithoutForeignKeys {
 public:
  explicit WithoutForeignKeys(const Connection& db)
      : db_(db), were_on_(db.integer("PRAGMA foreign_keys") != 0) {
    db_.execute("PRAGMA foreign_keys = OFF");
  }
  ~WithoutForeignKeys() {
    try {
      if (were_on_) db_.execute("PRAGMA foreign_keys = ON");
    } catch (const Error&) {  // the connection is lost
    }
  }
  WithoutForeignKeys(const WithoutForeignKeys&) = delete;
  WithoutForeignKeys& operator=(const WithoutForeignKeys&) = delete;

 private:
  const Connection& db_;
  bool were_on_;
};

}  // namespace

std::int64_t version_of(const Connection& connection) {
  return connection.integer("PRAGMA user_version");
}

bool is_new(const Connection& connection) {
  // One snapshot for all three reads: another process may be creating the file.
  const Transaction snapshot(connection, Transaction::Kind::read);
  const std::int64_t owner = connection.integer("PRAGMA application_id");
  const std::int64_t version = version_of(connection);
  if (owner == kApplicationId) {
    const std::string known = "; this program reads versions " + std::to_string(kOldestSchema) +
                              " to " + std::to_string(kSchema) + "); ";
    if (version > kSchema)
      throw database_error(connection.path(),
                           "it was written by a newer Tilewise (schema version " +
                               std::to_string(version) + known +
                               "update this program, or name another file with --db");
    if (version < kOldestSchema)
      throw database_error(connection.path(),
                           "it was written by an older Tilewise (schema version " +
                               std::to_string(version) + known +
                               "delete it, or name another file with --db, and tune again");
    return false;
  }
  if (owner == 0 && version == 0 && connection.integer("SELECT count(*) FROM sqlite_schema") == 0) {
    return true;
  }
  throw database_error(connection.path(), "it is a database of another program (application id " +
                                              std::to_string(owner) + ", not Tilewise's " +
                                              std::to_string(kApplicationId) +
                                              "); name another file with --db");
}

void bring_up_to_date(const Connection& connection) {
  if (version_of(connection) == kSchema) return;
  const WithoutForeignKeys off(connection);
  Transaction transaction(connection);
  // Another process may have done it while this one waited for the lock.
  if (version_of(connection) < kSchema) {
    complete(connection);
    connection.execute("PRAGMA application_id = " + std::to_string(kApplicationId) +
                       "; PRAGMA user_version = " + std::to_string(kSchema));
  }
  transaction.commit();
}

}  // namespace tilewise
