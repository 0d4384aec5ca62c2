#include "matmul/stored_winners.hpp"

#include <iterator>
#include <string>
#include <utility>

#include "matmul/portfolio.hpp"
#include "matmul/stored_corrections.hpp"
#include "tilewise/error.hpp"

namespace tilewise {

Resolution StoredWinners::resolve(const Problem& problem, const Conditions& conditions) {
  // Conditions may rule out the problem's own winner.
  return resolve(*(conditions.refused.empty() && !conditions.far ? enough_for(problem) : all()),
                 problem, conditions);
}

Resolution StoredWinners::resolve(const Resolver& stored, const Problem& problem,
                                  const Conditions& conditions) {
  return tilewise::resolve_with_portfolio(
      stored, [this] { return portfolio(); }, problem, conditions);
}

Resolution StoredWinners::explain(const Problem& problem, const Conditions& conditions) {
  const std::shared_ptr<const Resolver> known = all_with_compiler();
  Resolution resolution = resolve(*known, problem, conditions);
  if (resolution.kind == MatchKind::predicted)
    if (const std::string off = known->how_far_off(problem); !off.empty())
      resolution.why += "; " + off;
  return resolution;
}

/// Null if there is no portfolio.
const Resolver* StoredWinners::portfolio() {
  if (!read_portfolio_) return nullptr;
  portfolio_once_.call([this] {
    portfolio_.emplace(std::vector<Winner>{}, device_, "", read_portfolio_(device_),
                       [this](const Problem& kind) {
                         std::optional<Corrections> own = corrections(kind);
                         return own ? std::move(own) : portfolio_corrections(kind, device_);
                       });
  });
  return &*portfolio_;
}

void StoredWinners::read() {
  std::vector<Winner> winners;
  std::vector<Record> general;
  const auto try_to = [this](auto read) {
    try {
      read();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::database) throw;
      warnings_.once(std::string("winners cannot be read: ") + error.what());
    }
  };
  if (std::optional<Database>& database = stores_.database())
    try_to([&] {
      winners = database->winners(gpu_key(device_));
      general = database->general(gpu_key(device_));
      for (const std::string& line : database->warnings()) warnings_.once(line);  // damaged winners
    });
  if (stores_.bundle()) try_to([&] { read_bundle(winners, general); });
  std::vector<const Record*> known;
  for (const Record& record : general) known.push_back(&record);
  for (const Winner& winner : winners)
    if (winner.quarantined.empty()) known.push_back(&winner.record);
  std::vector<Record> others = records_of_other_kinds(known);
  general.insert(general.end(), std::make_move_iterator(others.begin()),
                 std::make_move_iterator(others.end()));
  auto read =
      std::make_shared<const Resolver>(std::move(winners), device_, "", std::move(general),
                                       [this](const Problem& kind) { return corrections(kind); });
  for (const std::string& note : read->notes()) warnings_.once(note);
  const std::lock_guard lock(mutex_);
  stored_ = std::move(read);
}

/// Adds the bundle's winners for this GPU after those of the database: of two for one problem the
/// first serves. Their records have no id, since an id would refer to the database.
void StoredWinners::read_bundle(std::vector<Winner>& winners, std::vector<Record>& general) {
  Database& bundle = *stores_.bundle();
  const std::string gpu = gpu_key(device_);
  std::vector<Winner> shipped = bundle.winners(gpu);
  for (Winner& winner : shipped) {
    winner.record.id = 0;
    winners.push_back(std::move(winner));
  }
  std::vector<Record> others = bundle.general(gpu);
  for (Record& record : others) {
    record.id = 0;
    general.push_back(std::move(record));
  }
  for (const std::string& warning : bundle.warnings()) warnings_.once(warning);
}

std::shared_ptr<const Resolver> StoredWinners::read_before() const {
  const std::lock_guard lock(mutex_);
  return stored_;
}

/// The winners as last read; reads them at the first need. The resolver does not change while the
/// pointer is held.
std::shared_ptr<const Resolver> StoredWinners::all() {
  if (auto known = read_before()) return known;
  const std::lock_guard reading(read_mutex_);
  if (!read_before()) read();
  return read_before();
}

/// A resolver that is enough for a problem: its own winner alone, if it has a valid one. Reading a
/// thousand winners takes some 20 ms, and the first product of a process need not wait for that.
std::shared_ptr<const Resolver> StoredWinners::enough_for(const Problem& problem) {
  if (auto known = read_before()) return known;
  for (std::optional<Database>* from : {&stores_.database(), &stores_.bundle()}) try {
      if (!*from) continue;
      std::optional<Winner> own = (*from)->winner(problem, gpu_key(device_));
      for (const std::string& line : (*from)->warnings()) warnings_.once(line);  // a damaged winner
      if (!own) continue;
      if (from == &stores_.bundle()) own->record.id = 0;
      std::vector<Winner> winners;
      winners.push_back(*std::move(own));
      auto alone = std::make_shared<const Resolver>(std::move(winners), device_);
      for (const std::string& note : alone->notes()) warnings_.once(note);
      if (alone->has_winner(problem)) return alone;
    } catch (const Error&) {  // the read of all winners reports the damage
      break;
    }
  return all();
}

/// The same with staleness if there is a compiler: the source hash depends on it.
std::shared_ptr<const Resolver> StoredWinners::all_with_compiler() {
  const Compiler* known = stores_.compiler();
  auto current = all();
  if (!known) return current;
  const std::lock_guard lock(informed_mutex_);
  if (informed_of_ != current) {
    informed_ = std::make_shared<const Resolver>(current->with_compiler(known->identity()));
    informed_of_ = std::move(current);
  }
  return informed_;
}

/// The corrections of the database, otherwise those of the bundle.
std::optional<Corrections> StoredWinners::corrections(const Problem& kind) {
  for (const std::optional<Database>* from : {&stores_.database(), &stores_.bundle()}) try {
      if (!*from) continue;
      if (auto found = load_corrections(**from, kind, device_)) return found;
    } catch (const Error& error) {
      warnings_.once(std::string("corrections of the cost model are not used: ") + error.what());
    }
  return std::nullopt;
}

}  // namespace tilewise
