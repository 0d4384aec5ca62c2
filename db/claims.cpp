#include <chrono>
#include <cmath>

#include "db/state.hpp"
#include "db/tables.hpp"

namespace tilewise {
namespace {

constexpr const char* kColumns = "holder, machine, pid, started, since";

struct Claim {
  ProcessIdentity holder;
  double since = 0;  ///< seconds after 1970
};

Claim read_claim(Query& row) {
  Claim claim;
  row.read(claim.holder.token, claim.holder.machine, claim.holder.pid, claim.holder.started,
           claim.since);
  return claim;
}

double seconds_now() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// A claim from the future (the clock was set back) is also stale.
bool is_free(const Claim& claim, double stale_seconds) {
  return !(std::abs(seconds_now() - claim.since) <= stale_seconds) || is_gone(claim.holder);
}

std::optional<Claim> find_claim(const Connection& db, const std::string& kernel,
                                const std::string& target) {
  Query query =
      db.query(std::string("SELECT ") + kColumns + " FROM claims WHERE kernel = ? AND target = ?");
  if (!query.bind(kernel, target).step()) return {};
  return read_claim(query);
}

}  // namespace

bool Database::claim_image(const KernelSpec& kernel, const Target& target, double stale_seconds) {
  const std::lock_guard lock(state_->mutex);
  const std::string kernel_text = to_string(kernel), target_text = to_string(target);
  // A read decides most waits without blocking writers.
  const auto before = find_claim(state_->connection, kernel_text, target_text);
  if (before && !is_free(*before, stale_seconds)) return false;
  bool claimed = false;
  state_->write([&](const Connection& db) {
    const auto present = find_claim(db, kernel_text, target_text);
    claimed = !present || is_free(*present, stale_seconds);
    if (!claimed) return;
    const ProcessIdentity& me = state_->holder();
    db.query(
          "INSERT OR REPLACE INTO claims (kernel, target, holder, machine, pid, started, since) "
          "VALUES (?, ?, ?, ?, ?, ?, ?)")
        .bind(kernel_text, target_text, me.token, me.machine, me.pid, me.started, seconds_now())
        .run();
  });
  return claimed;
}

void Database::renew_claim(const KernelSpec& kernel, const Target& target) {
  const std::lock_guard lock(state_->mutex);
  state_->write([&](const Connection& db) {
    db.query("UPDATE claims SET since = ? WHERE kernel = ? AND target = ? AND holder = ?")
        .bind(seconds_now(), to_string(kernel), to_string(target), state_->holder().token)
        .run();
  });
}

void Database::release_claim(const KernelSpec& kernel, const Target& target) {
  const std::lock_guard lock(state_->mutex);
  // Deletes only this object's claim: another process may have taken over a stale one.
  state_->write([&](const Connection& db) {
    db.query("DELETE FROM claims WHERE kernel = ? AND target = ? AND holder = ?")
        .bind(to_string(kernel), to_string(target), state_->holder().token)
        .run();
  });
}

void drop_dead_claims(const Connection& connection) {
  std::vector<std::string> dead;
  {
    Query query = connection.query(std::string("SELECT ") + kColumns + " FROM claims");
    while (query.step())
      if (const Claim claim = read_claim(query); is_free(claim, Database::kStaleClaimSeconds))
        dead.push_back(claim.holder.token);
  }
  for (const std::string& token : dead)
    connection.query("DELETE FROM claims WHERE holder = ?").bind(token).run();
}

}  // namespace tilewise
