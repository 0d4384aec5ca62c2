#include <chrono>

#include "db/state.hpp"

namespace tilewise {
namespace {

double seconds_now() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

bool Database::claim_image(const KernelSpec& kernel, const Target& target, double stale_seconds) {
  const std::lock_guard lock(state_->mutex);
  const Connection& db = state_->connection;
  Transaction transaction(db);
  // A claim from the future, by a clock that was set back since, is stale too.
  db.query(
        "INSERT INTO claims (kernel, target, holder, since) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (kernel, target) DO UPDATE SET holder = excluded.holder, since = "
        "excluded.since WHERE abs(excluded.since - claims.since) > ?")
      .bind(to_string(kernel), to_string(target), state_->holder, seconds_now(), stale_seconds)
      .run();
  const bool claimed = db.changes() > 0;
  transaction.commit();
  return claimed;
}

void Database::release_claim(const KernelSpec& kernel, const Target& target) {
  const std::lock_guard lock(state_->mutex);
  Transaction transaction(state_->connection);
  // Only what is still ours: a stale claim may have been taken over.
  state_->connection.query("DELETE FROM claims WHERE kernel = ? AND target = ? AND holder = ?")
      .bind(to_string(kernel), to_string(target), state_->holder)
      .run();
  transaction.commit();
}

}  // namespace tilewise
