#include "db/state.hpp"
#include "db/tables.hpp"

namespace tilewise {

StoredCorrections read_corrections(Query& row) {
  StoredCorrections corrections;
  std::string hash;
  row.read(corrections.gpu, corrections.kind, corrections.samples, corrections.trees, hash);
  require_hash(corrections, std::move(hash),
               "the corrections of " + corrections.kind + " on " + corrections.gpu);
  return corrections;
}

void Database::put(const StoredCorrections& corrections) {
  const std::lock_guard lock(state_->mutex);
  state_->write([&](const Connection& db) {
    db.query("INSERT OR REPLACE INTO corrections (" + kCorrectionColumns +
             ") VALUES (?, ?, ?, ?, ?)")
        .bind(corrections.gpu, corrections.kind, corrections.samples, corrections.trees,
              row_hash(corrections))
        .run();
  });
}

std::optional<StoredCorrections> Database::corrections(const std::string& gpu,
                                                       const std::string& kind) const {
  const std::lock_guard lock(state_->mutex);
  Query query = state_->connection.query("SELECT " + kCorrectionColumns +
                                         " FROM corrections WHERE gpu = ? AND kind = ?");
  query.bind(gpu, kind);
  auto found = state_->rows(query, "row of corrections", read_corrections);
  // A damaged index may return another row.
  if (found.empty() || found.front().gpu != gpu || found.front().kind != kind) return {};
  return std::move(found.front());
}

}  // namespace tilewise
