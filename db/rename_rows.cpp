#include <optional>

#include "db/row_hash.hpp"
#include "db/tables.hpp"
#include "tilewise/error.hpp"
#include "vocabulary/renames.hpp"

// Schema version 3: stored configurations and kernels get today's parameter names.
namespace tilewise {
namespace {

struct NewText {
  std::int64_t id = 0;
  std::string text, hash;
};

/// The results of `read` for every row of `sql`. Rows of a newer version and damaged rows stay
/// unchanged.
template <class Read>
std::vector<NewText> changes(const Connection& db, const std::string& sql, Read read) {
  std::vector<NewText> found;
  Query query = db.query(sql);
  while (query.step()) {
    const auto id = query.next<std::int64_t>();
    try {
      if (std::optional<NewText> change = read(query)) {
        change->id = id;
        found.push_back(std::move(*change));
      }
    } catch (const DamagedRow&) {
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::invalid_argument) throw;
    }
  }
  return found;
}

void update(const Connection& db, const char* sql, const std::vector<NewText>& rows) {
  for (const NewText& row : rows) db.query(sql).bind(row.text, row.hash, row.id).run();
}

std::optional<NewText> renamed_record(Query& row) {
  Record record = read_record(row);
  Candidate now = renamed(record.candidate);
  if (now == record.candidate) return {};
  record.candidate = std::move(now);
  return NewText{0, record.candidate.configuration.text(), row_hash(record)};
}

/// A winner's hash includes its record's configuration.
std::optional<NewText> renamed_winner(Query& row) {
  Winner winner = read_winner(row);
  Candidate now = renamed(winner.record.candidate);
  if (now == winner.record.candidate) return {};
  winner.record.candidate = std::move(now);
  return NewText{0, {}, row_hash(winner)};
}

std::optional<NewText> renamed_image(Query& row) {
  Image image = read_image(row);
  std::string hash;
  row.read(image.log, image.binary, hash);
  require_hash(image, hash, "image");
  KernelSpec now = renamed(image.kernel);
  if (now == image.kernel) return {};
  image.kernel = std::move(now);
  return NewText{0, to_string(image.kernel), row_hash(image)};
}

}  // namespace

void rename_rows(const Connection& db) {
  add_energy_columns(db);
  const auto winners =
      changes(db, "SELECT r.id, " + kWinnerColumns + " FROM " + kWinnerTables, renamed_winner);
  update(db, "UPDATE records SET configuration = ?, hash = ? WHERE id = ?",
         changes(db, "SELECT r.id, " + kRecordColumns + " FROM " + kRecordTables, renamed_record));
  for (const NewText& winner : winners)
    db.query("UPDATE winners SET hash = ? WHERE record_id = ?").bind(winner.hash, winner.id).run();
  update(db, "UPDATE images SET kernel = ?, hash = ? WHERE id = ?",
         changes(db, "SELECT id, " + kImageColumns + ", log, binary, hash FROM images",
                 renamed_image));
}

}  // namespace tilewise
